package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/tarelab/tare/internal/image"
)

// SaveWorkbench has write save the workbench of this machine's programs, with further
// commands of it, for other machines. It gives the workbench's digest.
func SaveWorkbench(ctx context.Context, config Config, commands []string, write func(save func(io.Writer) error) error) (digest string, err error) {
	binaries, err := inRootfs(runtime.GOARCH)
	if err != nil {
		return "", fmt.Errorf("helpers: %w", err)
	}
	images := image.NewStore(config.StateDir)
	bench, err := images.Workbench(ctx, binaries)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, bench.Close()) }()
	root, err := images.ForCommands(ctx, bench, commands)
	if err != nil {
		return "", rootError(err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return root.Digest, write(root.Save)
}
