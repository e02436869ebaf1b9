package kerneltools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/learn"
	"github.com/tarelab/tare/internal/kerneltools/proof"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/vmm"
	"github.com/tarelab/tare/needs"
)

// trimLearnFlags are the options of tare trim learn.
type trimLearnFlags struct {
	output, id, source, build, trace string
	rootfs, kernel, vm               string
	images, files, needs             []string
	jobs                             int
	minimize, functions              bool
	budget                           time.Duration
	json                             bool
}

// learnedFile is the default of --output.
const learnedFile = "learned.yaml"

// learnHost is the container host in which commands are observed, and learnMachine the
// virtual machine that it is on.
const (
	learnHost    = "vm/stock"
	learnMachine = vmm.QEMUQ35
)

func (v verbs) trimLearnCommand() *cobra.Command {
	var f trimLearnFlags
	c := &cobra.Command{
		Use:   "learn [flags] -- COMMAND...",
		Short: "Say what a command uses of the kernel, and propose needs of it",
		Long: `learn boots the stock container host (Debian's kernel, systemd, Docker) under trace,
runs COMMAND in it as root, and says what of the kernel it used: modules and who asked
for them, system calls, sockets, file systems, namespaces and devices. By the kernel's
own Makefiles this becomes a need for tare trim build, with the evidence for each symbol.
What the needs of --needs ask for already is not repeated. --functions also finds the
functions of the kernel that COMMAND is the first to reach; the machine is then several
times slower. Symbols whose code was reached, but for which nothing asked, are optional:
the kernel is built with them, and --minimize may take them out.

COMMAND is one line for /bin/sh, or a program with its arguments. It starts where the
files of --file are. The engine loads the archives of --image before it; nothing can be
pulled. An exit code other than 0 is an error. What the guest tells is not trusted: it
is bounded, and the proposal is there to be read.

With --build the kernel is built into that directory, and put to the proof: COMMAND runs
once on the stock kernel and once on the new one, without a trace, and both are shown
next to each other: bytes, symbols, system calls that can be reached, mitigations given
up. --minimize goes on as tare trim build does, with COMMAND as the proof. As root,
on x86-64.

With --rootfs the machine boots your root file system in place of that host: a directory,
an OCI image, or a raw or qcow2 disk, with systemd and kmod. What is written to it is lost.
COMMAND runs in it once its multi-user.target was reached, on the kernel of tare's guests
or on that of --kernel, whose modules it is given where it has none. --build and --minimize
prove their kernels with it, too. --vm qemu/virt is a machine of arm64, and so is its root
file system then; on x86-64 it is emulated.`,
		Example: `  tare trim learn -o vxlan.yaml --image tools.oci -- docker run --rm --privileged tare-workbench:amd64 ip link add v0 type vxlan id 1 dstport 4789 dev lo
  tare trim learn --image tools.oci --file test.sh --build learned -- sh test.sh
  tare trim learn --rootfs app.qcow2 --needs ext4,systemd,ipv4 --build learned --minimize -- /opt/app/selftest
  tare trim learn --rootfs arm64.img --vm qemu/virt --needs ext4,systemd,ipv4 -- /opt/app/selftest
  tare trim build --needs docker,ext4,systemd,./learned.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return v.trimLearn(c, args, &f) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", learnedFile, "file for the need; - prints it in place of what was found")
	flags.StringVar(&f.id, "id", "", "of the need (default by the file's name)")
	flags.StringVar(&f.rootfs, "rootfs", "", "root file system in which COMMAND runs: a directory, an OCI image, a raw or qcow2 disk (default tare's container host)")
	flags.StringVar(&f.kernel, "kernel", "", "with --rootfs: the kernel that is observed, a file with its modules in ../lib/modules, or a release of Debian's, as debian/6.1 (default the kernel of tare's guests; of another architecture Debian's of the release of --source)")
	flags.StringVar(&f.vm, "vm", learnMachine, "with --rootfs: the machine, which says the architecture: qemu/q35, qemu/microvm, qemu/virt")
	flags.StringArrayVar(&f.images, "image", nil, "archive that the engine loads first, as tare image build and docker save write it; may be repeated")
	flags.StringArrayVar(&f.files, "file", nil, "file that COMMAND finds in its directory; may be repeated")
	flags.StringSliceVar(&f.needs, "needs", []string{"docker", "nftables", "ext4", "systemd"}, "what the kernel is given besides, by id or by a path with a slash")
	flags.StringVar(&f.source, "source", "linux-source-6.1", "the source of the kernel that is observed: a directory or a package")
	flags.BoolVar(&f.functions, "functions", false, "also find the functions of the kernel that COMMAND is the first to reach (slow)")
	flags.StringVar(&f.trace, "trace", "", "file that keeps what the guest told (default none)")
	flags.StringVar(&f.build, "build", "", "directory for a kernel of what was learned, which is built and proven (default none)")
	flags.IntVarP(&f.jobs, "jobs", "j", runtime.NumCPU(), "compilers at once")
	flags.BoolVar(&f.minimize, "minimize", false, "with --build: search for the smallest kernel in which COMMAND works")
	flags.DurationVar(&f.budget, "budget", 4*time.Hour, "of --minimize: no candidate goes on after it")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return c
}

// learning is one use of the verb.
type learning struct {
	verbs
	flags   *trimLearnFlags
	command *cobra.Command
	run     learn.Run
	files   []string
	header  learn.Header
	machine trim.Machine
	base    []kconfig.Want
	lab     *lab.Lab
	host    learnedOn
	options trim.Options // of the kernel that is built, without its wants
	source  learn.Source
}

// learnedOn is where commands run.
type learnedOn struct {
	run   func(ctx context.Context, e driver.Errand, tell func(string)) (driver.Ran, error)
	sizes func(ctx context.Context) (kernel, initrd int64, err error) // of its own kernel, in bytes
}

// shownLearned is what --json prints.
type shownLearned struct {
	Need     string          `json:"need"` // its file
	Observed *learn.Observed `json:"observed"`
	learn.Proposal
	Kernel  *trim.Result `json:"kernel,omitempty"`
	Found   *trim.Found  `json:"found,omitempty"`
	Weighed []kernelSide `json:"weighed,omitempty"` // stock, then the new one
}

func (v verbs) trimLearn(c *cobra.Command, args []string, f *trimLearnFlags) (err error) {
	l := learning{verbs: v, flags: f, command: c, run: learn.Run{Command: args}}
	if err := l.settle(); err != nil {
		return &lab.InputError{Err: err}
	}
	config := v.Config(c)
	config.Guest.Rootfs = f.rootfs
	if l.lab, err = lab.Open(c.Context(), config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.lab.Close()) }()
	if f.rootfs == "" {
		err = l.onHost(c.Context())
	} else {
		err = l.onSystem(c.Context())
	}
	if err != nil {
		return err
	}
	build := trimBuildFlags{source: f.source, way: string(trim.BottomUp), vm: f.vm}
	if err := v.trimSource(c, &build, &l.options); err != nil {
		return err
	}
	tree, err := kbuild.Open(l.options.Source, string(l.machine.Arch))
	if err != nil {
		return &lab.InputError{Err: fmt.Errorf("--source: %w", err)}
	}
	shown, err := l.observe(c.Context(), tree)
	if err != nil {
		return err
	}
	if f.build != "" {
		if err := l.weigh(c.Context(), &shown); err != nil {
			return notBuilt(err)
		}
	}
	switch {
	case f.json:
		return v.JSON(shown)
	case f.output != standardOutput:
		l.print(shown)
	}
	return nil
}

// onHost has commands run in the stock container host.
func (l *learning) onHost(ctx context.Context) error {
	host, err := proof.Host(ctx, l.lab, learnHost)
	if err != nil {
		return err
	}
	l.host = learnedOn{run: host.Run, sizes: func(ctx context.Context) (kernel, initrd int64, err error) {
		all, err := l.lab.Drivers(ctx, learnHost)
		if err != nil {
			return 0, 0, err
		}
		notes := l.lab.Check(ctx, all, false)[0].Facts.Notes
		return noted(notes, "kernel-bytes"), noted(notes, "initrd-bytes"), nil
	}}
	return nil
}

// onSystem has commands run in the user's root file system.
func (l *learning) onSystem(ctx context.Context) error {
	arch, kernel := l.machine.Arch.GOARCH(), l.flags.kernel
	if kernel == "" && arch != runtime.GOARCH {
		release, ok := strings.CutPrefix(l.flags.source, "linux-source-")
		if !ok {
			return &lab.InputError{Err: fmt.Errorf("--kernel: name the kernel of %s that is observed, whose source %s is", arch, l.flags.source)}
		}
		kernel = "debian/" + release
	}
	system, err := containerhost.OpenSystem(ctx, l.lab.Place(), arch, l.machine.Name, kernel)
	if errors.As(err, new(*containerhost.RootError)) {
		return &lab.InputError{Err: fmt.Errorf("--rootfs: %w", err)}
	}
	if err != nil {
		return err
	}
	if of := system.FileSystem(); !slices.Contains(l.flags.needs, of) {
		l.flags.needs = append(l.flags.needs, of)
		l.header.Includes = l.flags.needs
		if l.base, err = kconfig.Collect(append(slices.Clone(l.flags.needs), l.machine.Need), needs.Load); err != nil {
			return &lab.InputError{Err: err}
		}
	}
	l.host = learnedOn{run: system.Run, sizes: func(context.Context) (kernel, initrd int64, err error) {
		kernel, err = bytesOf(system.Kernel.Kernel.Path)
		if err == nil {
			initrd, err = bytesOf(system.Initrd)
		}
		return kernel, initrd, err
	}}
	return nil
}

func bytesOf(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// settle checks what the flags say.
func (l *learning) settle() (err error) {
	f := l.flags
	if len(l.run.Command) == 1 && strings.TrimSpace(l.run.Command[0]) == "" {
		return errors.New("COMMAND is empty")
	}
	file := f.output
	if file == standardOutput {
		file = learnedFile
	}
	id := cmp.Or(f.id, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	l.header = learn.Header{ID: id, Command: strings.Join(l.run.Command, " "), Includes: f.needs}
	if err := l.header.Check(); err != nil {
		return fmt.Errorf("--id: %w", err)
	}
	if f.kernel != "" && !driver.IsRelease(f.kernel) {
		if f.kernel, err = fileOf("--kernel", f.kernel); err != nil {
			return err
		}
	}
	if f.rootfs != "" {
		if f.rootfs, err = filepath.Abs(f.rootfs); err != nil {
			return fmt.Errorf("--rootfs: %w", err)
		}
	}
	names := map[string]bool{}
	for flag, all := range map[string][]string{"--image": f.images, "--file": f.files} {
		for _, given := range all {
			path, err := fileOf(flag, given)
			if err != nil {
				return err
			}
			name := filepath.Base(path)
			switch {
			case names[name]:
				return fmt.Errorf("%s %s: two files have the name %s", flag, given, name)
			case flag == "--image" && strings.ContainsAny(name, " \t\n*?["):
				return fmt.Errorf("%s %s: the name of an image's file has no blanks and none of *?[", flag, given)
			case flag == "--image":
				l.run.Images = append(l.run.Images, name)
			}
			names[name] = true
			l.files = append(l.files, path)
		}
	}
	slices.Sort(l.run.Images)
	switch {
	case f.output == standardOutput && (f.json || f.build != ""):
		return errors.New("--output -: standard output has the need alone: leave out --json and --build, or name a file")
	case f.kernel != "" && f.rootfs == "":
		return errors.New("--kernel goes with --rootfs: the container host has its own kernel")
	case f.vm != learnMachine && f.rootfs == "":
		return fmt.Errorf("--vm %s goes with --rootfs: the container host is on %s", f.vm, learnMachine)
	case f.jobs < 1:
		return fmt.Errorf("-j %d: at least 1", f.jobs)
	case f.minimize && f.build == "":
		return errors.New("--minimize goes with --build DIR, where the smallest kernel is put")
	case f.minimize && f.budget <= 0:
		return fmt.Errorf("--budget %v: must be positive", f.budget)
	}
	if l.machine, err = trim.MachineOf(f.vm); err != nil {
		return err
	}
	l.options = trim.Options{Arch: l.machine.Arch, Way: trim.BottomUp, Jobs: f.jobs}
	if l.options.Compression, err = l.machine.Pack(""); err != nil {
		return err
	}
	if f.build != "" {
		if l.options.Output, err = filepath.Abs(f.build); err != nil {
			return err
		}
	}
	l.base, err = kconfig.Collect(append(slices.Clone(f.needs), l.machine.Need), needs.Load)
	return err
}

// errand is the command's run.
func (l *learning) errand(traced bool) driver.Errand {
	run := l.run
	run.Traced = traced
	return driver.Errand{Files: l.files, Script: run.Script()}
}

func (l *learning) say(what string) { fmt.Fprintln(l.Stderr(), what) }

// observe runs the command under trace and writes the need.
func (l *learning) observe(ctx context.Context, tree *kbuild.Tree) (shown shownLearned, err error) {
	e := l.errand(true)
	e.Append, e.Code = learn.Parameters, l.flags.functions
	ran, err := l.host.run(ctx, e, l.say)
	if err != nil {
		return shown, err
	}
	if l.flags.trace != "" {
		if err := os.WriteFile(l.flags.trace, ran.Text, 0o644); err != nil {
			return shown, &lab.InputError{Err: fmt.Errorf("--trace: %w", err)}
		}
	}
	o, err := ranWell(ran)
	if err != nil {
		return shown, err
	}
	if l.flags.functions {
		o.Code(ran.Code)
	}
	l.say("looking for the code of what was seen in " + l.flags.source)
	if l.source, err = learn.Ask(ctx, tree, o); err != nil {
		return shown, err
	}
	shown = shownLearned{Need: l.flags.output, Observed: o, Proposal: learn.Propose(o, l.source, l.base)}
	l.header.Release = o.Release
	if l.flags.output == standardOutput {
		_, err := l.Stdout().Write(shown.YAML(l.header))
		return shown, err
	}
	if err := os.WriteFile(l.flags.output, shown.YAML(l.header), 0o644); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = &lab.InputError{Err: fmt.Errorf("--output: %w", err)}
		}
		return shown, err
	}
	return shown, nil
}

// ranWell is what was observed of a command that came to its end with the code 0; else
// an error that says how it ended.
func ranWell(ran driver.Ran) (*learn.Observed, error) {
	if ran.Failed != "" {
		return nil, &lab.FailedError{What: "the machine failed: " + ran.Failed}
	}
	o, err := learn.Parse(ran.Text)
	var failed *learn.FailedError
	switch {
	case errors.As(err, &failed):
		return nil, &lab.FailedError{What: failed.Why}
	case err != nil:
		return nil, err
	case o.Exit != 0:
		return nil, &lab.FailedError{What: fmt.Sprintf("the command ended with code %d on Linux %s: %s", o.Exit, o.Release, cmp.Or(strings.TrimSpace(o.Said), "it said nothing"))}
	}
	return o, nil
}

func (l *learning) print(s shownLearned) {
	o := s.Observed
	news := s.News()
	fmt.Fprintf(l.Stdout(), "%s: %d symbols that %s do not ask for, %d of them optional; Linux %s, the command took %.1f s under trace\n",
		s.Need, len(news), strings.Join(l.flags.needs, ", "), countOptional(news), o.Release, o.Seconds)
	fmt.Fprintf(l.Stdout(), "seen: %d modules loaded, %d different system calls, %d file systems mounted", len(o.Modules), len(s.Entries), len(o.Mounts))
	if l.flags.functions {
		fmt.Fprintf(l.Stdout(), ", %d functions of the kernel that nothing had reached before", len(o.Functions))
	}
	fmt.Fprintln(l.Stdout())
	for _, w := range o.Warnings {
		fmt.Fprintln(l.Stdout(), "!", w)
	}
	l.part("It needs", 0, []any{"symbol", "because", "by"}, learnedRows(news, false), 0)
	l.part("Its code was reached; nothing asked for it (optional)", 0, []any{"symbol", "because", "by"}, learnedRows(news, true), 0)
	l.part("Asked for already", 0, []any{"symbol", "need", "because"}, coveredRows(s.Symbols), 12)
	if len(s.Unknown) > 0 {
		fmt.Fprintln(l.Stdout(), "\nSeen, and no symbol is known for it:")
		for _, u := range s.Unknown {
			fmt.Fprintln(l.Stdout(), " ", u)
		}
	}
	switch {
	case s.Kernel != nil:
		l.printWeighedKernels(s)
		return
	case s.Found != nil: // no kernel was proven in time
		l.printFound(*s.Found, l.options.Output)
		return
	}
	file := s.Need
	if !strings.Contains(file, "/") {
		file = "./" + file // else it would be the name of a need
	}
	fmt.Fprintf(l.Stdout(), "\nto build it: tare trim build --needs %s\n", strings.Join(append(slices.Clone(l.flags.needs), file), ","))
}

func countOptional(all []learn.Symbol) (n int) {
	for _, s := range all {
		if s.Optional {
			n++
		}
	}
	return n
}

func learnedRows(all []learn.Symbol, optional bool) (rows []table.Row) {
	for _, s := range all {
		for i, r := range s.Reasons {
			if s.Optional != optional {
				continue
			}
			name := s.Symbol
			if i > 0 {
				name = ""
			}
			rows = append(rows, table.Row{name, r.Seen, r.Rule})
		}
	}
	return rows
}

func coveredRows(all []learn.Symbol) (rows []table.Row) {
	for _, s := range all {
		if s.Need != "" {
			rows = append(rows, table.Row{s.Symbol, s.Need, s.Reasons[0].Seen})
		}
	}
	return rows
}
