package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/tarelab/tare/internal/driver"
)

// snapshotters can keep the containers' root file systems, the first that works: one is
// containerd's default, and the other copies files where that cannot be used.
var snapshotters = []string{"overlayfs", "native"}

// snapshotterOf is the one of snapshotters that works in a containerd.
func snapshotterOf(ctx context.Context, c *containerd.Client) (string, error) {
	found, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return "", fmt.Errorf("ask containerd for its snapshotters: %w", err)
	}
	broken := map[string]error{}
	for _, p := range found.Plugins {
		broken[p.ID] = nil
		if p.InitErr != nil {
			broken[p.ID] = errors.New(p.InitErr.Message)
		}
	}
	return firstThatWorks(broken)
}

// firstThatWorks chooses of the snapshotters that a containerd has, each with what is
// broken of it.
func firstThatWorks(broken map[string]error) (string, error) {
	var why []string
	for _, name := range snapshotters {
		err, there := broken[name]
		switch {
		case !there:
			why = append(why, name+" is not there")
		case err != nil:
			why = append(why, name+": "+err.Error())
		default:
			return name, nil
		}
	}
	return "", &driver.CannotError{Target: "containerd", Lacks: "no snapshotter works (" + strings.Join(why, "; ") + ")"}
}

// containerdEngine is an engine with what is known of its snapshotters.
type containerdEngine struct {
	*engine
	namespace string // of its containers and images
	keeper    string // of the containers' root file systems; "" while that is not known
	// choose asks for that snapshotter.
	choose func(context.Context, *containerd.Client) (string, error)
	// loaded is called after an image was loaded and unpacked by that snapshotter; nil
	// for nothing to do.
	loaded func(ctx context.Context, c *containerd.Client, keeper, image string) error
}

// snapshotter is that of the engine's containers. It is asked for once.
func (e *containerdEngine) snapshotter(ctx context.Context, c *containerd.Client) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper == "" {
		var err error
		if e.keeper, err = e.choose(ctx, c); err != nil {
			return "", err
		}
	}
	return e.keeper, nil
}
