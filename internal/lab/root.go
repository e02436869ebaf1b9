package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/workload"
)

// settleRoot finds the one root file system that all cells run in: the user's
// own, or the workbench with the study's commands in it.
func (l *Lab) settleRoot(ctx context.Context, p *Plan, o Options) error {
	root, err := l.openRoot(ctx, p, o)
	if err != nil {
		return rootError(err)
	}
	l.roots = append(l.roots, root)
	p.root, p.Notes = root, append(p.Notes, root.Notes...)
	p.opens = map[jobKey][]string{}
	p.Manifest.Image, p.Manifest.Rootfs, p.Manifest.ImageSource = root.Digest, within(p.Manifest.Dir, o.Rootfs), within(p.Manifest.Dir, o.Image)
	for key, job := range p.jobs {
		name := key.workload
		if err := notInstalled(root, job.Needs); err != nil && o.Rootfs == "" && o.Image == "" {
			return &InputError{fmt.Errorf("workload %s: %w", name, err)}
		}
		if job.Own {
			if job, err = ownCommand(job, root); err == nil {
				p.user.UID, p.user.GID, err = root.User()
			}
			if err != nil {
				return &InputError{fmt.Errorf("workload %s: %w", name, err)}
			}
			p.jobs[key] = job
		}
		if len(job.Args) == 0 {
			continue
		}
		path := ownPath(job.Env)
		if job.Args[0], err = root.LookPath(job.Args[0], path); err != nil {
			return &InputError{fmt.Errorf("workload %s: %w", name, err)}
		}
		if p.opens[key], err = root.Opens(job.Args[0], path); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
	}
	return nil
}

// rootError is bad input, but where the machine has no room for the root.
func rootError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w; free some space, or keep images elsewhere with --state", err)
	}
	return &InputError{err}
}

func (l *Lab) openRoot(ctx context.Context, p *Plan, o Options) (image.Root, error) {
	switch {
	case o.Rootfs != "":
		scratch := filepath.Join(l.session.dir, "rootfs")
		if err := os.MkdirAll(scratch, 0o755); err != nil {
			return image.Root{}, fmt.Errorf("session: %w", err)
		}
		return l.images.Directory(ctx, o.Rootfs, l.bench, scratch)
	case o.Image != "":
		return l.images.Import(ctx, o.Image, l.bench)
	}
	return l.images.ForCommands(ctx, l.bench, p.commands(l.bench))
}

// commands are the programs that the study's own commands name, and those that its
// workloads need besides the workbench's.
func (p *Plan) commands(bench image.Root) []string {
	var names []string
	for _, job := range p.jobs {
		if job.Kind == workload.KindCommand || job.Kind == workload.KindTurns {
			names = append(names, job.Args[0])
		}
		names = append(names, bench.Apart(job.Needs)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// within is a path as it is from everywhere, not only from dir. "" stays none.
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// settlePaths has the study name its own commands as they were found, for a run that
// goes on from another directory. Those in a root of the user's own are its.
func (p *Plan) settlePaths(o Options) {
	st := &p.Manifest.Study
	st.Workloads = slices.Clone(st.Workloads)
	for i, w := range st.Workloads {
		if (w.Kind == workload.KindCommand || w.Kind == workload.KindTurns) && o.Rootfs == "" && o.Image == "" && strings.Contains(w.Args[0], "/") {
			st.Workloads[i].Args = append([]string{within(p.Manifest.Dir, w.Args[0])}, w.Args[1:]...)
		}
	}
}
