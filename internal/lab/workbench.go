package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/tarelab/tare/internal/image"
)

// SaveWorkbench writes the workbench of this machine's programs, with further commands of
// it, to a file for other machines, and gives its digest.
func SaveWorkbench(ctx context.Context, config Config, file string, commands []string) (digest string, err error) {
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
	return root.Digest, WriteReport(file, func(w io.Writer) error { return root.Save(w) })
}
