package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// settleRoot finds the root file systems that the cells run in, the user's own or the
// workbench with the study's commands in it, and what the jobs run there.
func (l *Lab) settleRoot(ctx context.Context, p *Plan, o Options) error {
	if o.Rootfs == "" && o.Image == "" {
		if err := l.withoutDynamic(ctx, p, l.bench); err != nil {
			return err
		}
	}
	root, err := l.openRoot(ctx, p, o)
	if err != nil {
		return rootError(err)
	}
	l.roots = append(l.roots, root)
	if err := l.withoutDynamic(ctx, p, root); err != nil {
		return err
	}
	p.Manifest.CLibrary, p.Manifest.LoaderDigests = "", nil
	for _, job := range p.jobs {
		if job.Dynamic == "" {
			continue
		}
		p.Manifest.CLibrary = root.CLibrary()
		if p.Manifest.LoaderDigests, err = root.LoaderDigests(job.Dynamic); err != nil {
			return fmt.Errorf("root file system: %w", err)
		}
		break // all have the same
	}
	p.root, p.Notes = root, append(p.Notes, root.Notes...)
	p.opens, p.users = map[jobKey][]string{}, map[jobKey]driver.User{}
	if err := l.settleImages(ctx, p); err != nil {
		return err
	}
	p.Manifest.Image, p.Manifest.Rootfs, p.Manifest.ImageSource = root.Digest, within(p.Manifest.Dir, o.Rootfs), within(p.Manifest.Dir, o.Image)
	for key, job := range p.jobs {
		if err := p.settleCommand(key, job, o); err != nil {
			return err
		}
	}
	return nil
}

// settleCommand finds what a job runs in the root of its level, and as which user.
func (p *Plan) settleCommand(key jobKey, job workload.Job, o Options) (err error) {
	name, root := key.workload, p.rootAt(key.environment)
	if err := notInstalled(root, job.Needs); err != nil && o.Rootfs == "" && o.Image == "" {
		return &InputError{fmt.Errorf("workload %s: %w", name, err)}
	}
	if job.Own {
		if job, err = ownCommand(job, root); err == nil {
			var user driver.User
			user.UID, user.GID, err = root.User()
			p.users[key] = user
		}
		if err != nil {
			return &InputError{fmt.Errorf("workload %s: %w", name, err)}
		}
		p.jobs[key] = job
	}
	if len(job.Args) == 0 {
		return nil
	}
	path := ownPath(job.Env)
	if job.Args[0], err = root.LookPath(job.Args[0], path); err != nil {
		return &InputError{fmt.Errorf("workload %s: %w", name, err)}
	}
	if p.opens[key], err = root.Opens(job.Args[0], path); err != nil {
		return fmt.Errorf("root file system: %w", err)
	}
	if err := p.noteProgram(key, root, job.Args[0]); err != nil {
		return fmt.Errorf("workload %s: %w", name, err)
	}
	return nil
}

// rootAt is the root file system of a level.
func (p *Plan) rootAt(environment string) image.Root {
	if root, own := p.images[environment]; own {
		return root
	}
	return p.root
}

// settleImages finds the root file systems of the levels that name one.
func (l *Lab) settleImages(ctx context.Context, p *Plan) error {
	p.images, p.Manifest.Images = map[string]image.Root{}, nil
	opened := map[string]image.Root{}
	for _, level := range p.Manifest.Study.Environments {
		if level.Image == "" {
			continue
		}
		root, known := opened[level.Image]
		if !known {
			var err error
			if root, err = l.openImage(ctx, p, level.Image); err != nil {
				return fmt.Errorf("environment %s: %w", level.Name, rootError(err))
			}
			opened[level.Image], l.roots, p.Notes = root, append(l.roots, root), append(p.Notes, root.Notes...)
		}
		p.images[level.Name] = root
		if p.Manifest.Images == nil {
			p.Manifest.Images = map[string]store.LevelImage{}
		}
		p.Manifest.Images[level.Name] = store.LevelImage{Digest: root.Digest, Programs: map[string]string{}}
	}
	return nil
}

// openImage opens what a level names as its image.
func (l *Lab) openImage(ctx context.Context, p *Plan, name string) (image.Root, error) {
	scratch := filepath.Join(l.session.dir, "rootfs")
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return image.Root{}, fmt.Errorf("session: %w", err)
	}
	switch name {
	case study.ImageWorkbench:
		return l.images.ForCommands(ctx, l.bench, p.commands(l.bench))
	case study.ImageHost:
		// A part of an overlay must not lie inside another: what is put over the root's
		// own files lies in memory.
		return l.images.Host(ctx, l.bench, cmp.Or(l.place.VolatileDir, scratch))
	}
	name = within(p.Manifest.Dir, name)
	if info, err := os.Stat(name); err == nil && info.IsDir() && !image.IsImage(name) {
		return l.images.Directory(ctx, name, l.bench, scratch)
	}
	return l.images.Import(ctx, name, l.bench)
}

// noteProgram notes the digest of what a workload runs in a level's own image: the
// levels of one study must run the same bits.
func (p *Plan) noteProgram(key jobKey, root image.Root, program string) error {
	if _, own := p.images[key.environment]; !own {
		return nil
	}
	digest, err := root.ProgramDigest(program)
	if err != nil {
		return err
	}
	p.Manifest.Images[key.environment].Programs[key.workload] = digest
	for _, level := range slices.Sorted(maps.Keys(p.Manifest.Images)) {
		if other, known := p.Manifest.Images[level].Programs[key.workload]; known && other != digest {
			p.Notes = append(p.Notes, fmt.Sprintf("%s is another program in the image of %s (%.19s) than in that of %s (%.19s): what differs between them is not the image alone", program, key.environment, digest, level, other))
			break
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

// withoutDynamic has the workloads whose dynamic programs the root cannot run measured
// with their other parameters, and says so. The study records what is measured.
func (l *Lab) withoutDynamic(ctx context.Context, p *Plan, root image.Root) error {
	changed := map[string]string{} // parameters that lead to others
	st := &p.Manifest.Study
	st.Workloads, st.Environments = slices.Clone(st.Workloads), slices.Clone(st.Environments)
	for key, job := range p.jobs {
		if job.Dynamic == "" {
			continue
		}
		why, err := l.cannotStart(ctx, root, job.Dynamic)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		maps.Copy(changed, job.Otherwise)
		i := slices.IndexFunc(st.Workloads, func(w study.Workload) bool { return w.Name == key.workload })
		st.Workloads[i].Params = withParams(st.Workloads[i].Params, job.Otherwise)
		note := fmt.Sprintf("dynamic programs of tare do not start here (%s): measured with %s instead", why, assignments(job.Otherwise))
		if !slices.Contains(p.Notes, note) {
			p.Notes = append(p.Notes, note)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	for i, e := range st.Environments {
		for name, value := range changed {
			if e.Params[name] != "" {
				st.Environments[i].Params = withParams(e.Params, map[string]string{name: value})
			}
		}
	}
	return p.settleJobs()
}

// cannotStart says why a dynamic program of tare's does not start in a root; "" where
// nothing is known against it. With libraries of this machine it is started once.
func (l *Lab) cannotStart(ctx context.Context, root image.Root, program string) (string, error) {
	missing, err := root.Misses(program)
	if err != nil {
		return "", fmt.Errorf("root file system: %w", err)
	}
	if missing != "" {
		return missing + " is missing in the root", nil
	}
	if root.Rootfs != l.bench.Rootfs || l.config.Workbench != "" {
		return "", nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(l.session.dir, "bin", filepath.Base(program)), "list").CombinedOutput()
	if err != nil {
		return strings.TrimSpace(fmt.Sprintf("%v: %s", err, out)), ctx.Err()
	}
	return "", nil
}

func withParams(params, more map[string]string) map[string]string {
	all := maps.Clone(more)
	for name, value := range params {
		if _, other := more[name]; !other {
			all[name] = value
		}
	}
	return all
}

// assignments are parameters as --set takes them.
func assignments(params map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		all = append(all, name+"="+params[name])
	}
	return strings.Join(all, ", ")
}

func (l *Lab) openRoot(ctx context.Context, p *Plan, o Options) (image.Root, error) {
	if files := p.files(); len(files) > 0 && o.Rootfs+o.Image != "" {
		return image.Root{}, fmt.Errorf("%s of %s is put into the workbench alone: leave out --rootfs and --image", files[0].Name, files[0].Dir)
	}
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
	return l.images.ForCommands(ctx, l.bench, p.commands(l.bench), p.files()...)
}

// files are the user's own files that the jobs need in the root.
func (p *Plan) files() (all []image.OwnFile) {
	for _, job := range p.jobs {
		for _, f := range job.Files {
			if own := image.OwnFile(f); !slices.Contains(all, own) {
				all = append(all, own)
			}
		}
	}
	slices.SortFunc(all, func(a, b image.OwnFile) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// commands are the programs that the study's own commands name, also in a shell's script,
// and those that its workloads need besides the workbench's.
func (p *Plan) commands(bench image.Root) []string {
	var names []string
	between := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(";&|()`'\"<>{}", r) }
	for _, job := range p.jobs {
		names = append(names, job.Commands...)
		if job.Kind == workload.KindCommand || job.Kind == workload.KindTurns {
			names = append(names, job.Args[0])
			for _, arg := range job.Args[1:] {
				names = append(names, bench.Apart(strings.FieldsFunc(arg, between))...)
			}
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
