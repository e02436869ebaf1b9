package trim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/sys"
)

// A Result is a kernel that was built.
type Result struct {
	Image    string            `json:"image"`            // its file
	Config   string            `json:"config"`           // its configuration's file
	Map      string            `json:"map"`              // its System.map: the address, type and name of each of its symbols
	Initrd   string            `json:"initrd,omitempty"` // the initramfs's file; "": none was asked for
	Script   string            `json:"script"`           // the commands that make it again
	Release  string            `json:"release"`
	Sizes    map[string]int64  `json:"sizes"`    // bytes: image, text, data, bss, initrd
	Symbols  int               `json:"symbols"`  // built in
	GivenUp  map[string]string `json:"given_up"` // optional wants that Kconfig dropped, with the reason
	Commands []string          `json:"commands"`
	Objects  int               `json:"objects"` // that were made now
}

// A BuildError is a build that failed, with the first thing that went wrong.
type BuildError struct {
	First string // its first error
	Log   string // all that it said
	Err   error
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("the kernel's build failed: %s (all of it: %s)", e.First, e.Log)
}

// Unwrap gives the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// full says that there was no room: no fault of the configuration's.
func (e *BuildError) full() bool {
	return strings.Contains(strings.ToLower(e.First), "no space left")
}

// Progress is how far a build is.
type Progress struct {
	Objects int    // made so far
	What    string // the last one
}

// Build makes the kernel. What is in o.Build already is not made again, so an
// interrupted build goes on there. tell is called for each object. Another process
// that builds in o.Build or o.Output is a *BusyError.
func Build(ctx context.Context, o Options, tell func(Progress)) (r *Result, err error) {
	if err := errors.Join(o.Check(o.Base != nil), o.checkTools(ctx)); err != nil {
		return nil, err
	}
	unlock, err := o.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return o.build(ctx, tell)
}

// build is Build for who has locked the directories.
func (o Options) build(ctx context.Context, tell func(Progress)) (*Result, error) {
	configured, err := configure(ctx, &o)
	if err != nil {
		return nil, err
	}
	target := o.image()
	objects, err := compile(ctx, &o, target, tell)
	if err != nil {
		return nil, err
	}
	return o.collect(ctx, configured, target, objects)
}

// compile runs make in a process group of its own, which ends with ctx.
func compile(ctx context.Context, o *Options, target string, tell func(Progress)) (objects int, err error) {
	log, err := os.Create(filepath.Join(o.Build, "tare-build.log"))
	if err != nil {
		return 0, fmt.Errorf("build the kernel: %w", err)
	}
	kept := &keeper{to: log}
	defer func() { err = errors.Join(err, log.Close()) }()
	cmd := exec.CommandContext(ctx, "make", append(o.Arch.variables(), fmt.Sprintf("-j%d", o.Jobs), "O="+o.Build, target)...)
	cmd.Dir = o.Source
	cmd.Env = append(os.Environ(), "LC_ALL=C", "KBUILD_BUILD_TIMESTAMP=@0", "KBUILD_BUILD_USER=tare", "KBUILD_BUILD_HOST=tare")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	sys.EndsWithUs(cmd)
	ended := make(chan struct{})
	defer close(ended)
	cmd.Cancel = func() error {
		go endGroup(cmd.Process.Pid, ended)
		return nil
	}
	cmd.WaitDelay = 30 * time.Second
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	first := make(chan string, 1)
	go func() {
		n, quoted := follow(io.TeeReader(read, kept), tell)
		objects = n
		first <- quoted
	}()
	err = cmd.Run()
	_ = write.Close() // a PipeWriter's never fails
	quoted := <-first
	switch {
	case ctx.Err() != nil:
		return objects, ctx.Err()
	case err != nil:
		return objects, kept.failed(&BuildError{First: quoted, Log: log.Name(), Err: err})
	}
	return objects, kept.failed(nil)
}

// keeper writes a log for as long as the log takes it. It takes everything itself: make
// would wait for ever for a reader that has given up.
type keeper struct {
	to  io.Writer
	err error // the first one
}

func (k *keeper) Write(p []byte) (int, error) {
	if k.err == nil {
		_, k.err = k.to.Write(p)
	}
	return len(p), nil
}

// failed is a build's error, or that of its log where there is one: make writes to the
// same disk, so its failure is no *BuildError, which would be the kernel's fault.
func (k *keeper) failed(build error) error {
	if k.err == nil {
		return build
	}
	text := "make succeeded"
	if build != nil {
		text = build.Error()
	}
	return fmt.Errorf("build the kernel: the log of make: %w (%s)", k.err, text)
}

// endGroup ends make with all that it has started: make removes what it was making. The
// signal is repeated, because what make starts meanwhile misses it. In the end all are
// killed: as the first process of its PID namespace make does not die of SIGTERM.
func endGroup(group int, ended <-chan struct{}) {
	for tries := 0; ; tries++ {
		signal := syscall.SIGTERM
		if tries >= 4 {
			signal = syscall.SIGKILL
		}
		_ = syscall.Kill(-group, signal) // they may be gone
		select {
		case <-ended:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

var (
	madeObject = regexp.MustCompile(`^  (CC|AS|LD|AR|HOSTCC|LZ4|ZSTD22|GZIP|XZKERN|OBJCOPY|LEX|YACC|GEN) +(\S+)`)
	firstError = regexp.MustCompile(`(?i)(\berror:|\bfatal error\b|undefined reference|no space left|\bkilled\b|\*\*\* )`)
	givesUp    = regexp.MustCompile(`^make(\[\d+\])?: \*\*\* `)
)

// follow reads make's output to its end.
func follow(r io.Reader, tell func(Progress)) (objects int, quoted string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var said []string // since the last object
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := madeObject.FindStringSubmatch(lines.Text()); m != nil {
			objects++
			tell(Progress{objects, m[2]})
			said = nil
		} else if line != "" {
			if quoted == "" && firstError.MatchString(line) {
				quoted = line
				if givesUp.MatchString(line) && len(said) > 0 { // the reason came before
					quoted = strings.Join(said[max(0, len(said)-3):], "; ")
				}
			}
			said = append(said, line)
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line too long for the scanner: make must not block on it
	if quoted == "" && len(said) > 0 {
		quoted = said[len(said)-1]
	}
	return objects, quoted
}

// collect puts the results into o.Output.
func (o *Options) collect(ctx context.Context, configured *Configured, target string, objects int) (*Result, error) {
	r := &Result{Sizes: map[string]int64{}, GivenUp: map[string]string{}, Objects: objects}
	for _, v := range configured.Config.Values {
		if v == "y" {
			r.Symbols++
		}
	}
	for _, l := range configured.GivenUp {
		r.GivenUp[l.Symbol] = l.reason()
	}
	release, err := os.ReadFile(filepath.Join(o.Build, "include", "config", "kernel.release"))
	if err != nil {
		return nil, fmt.Errorf("collect the kernel: %w", err)
	}
	r.Release = strings.TrimSpace(string(release))
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		return nil, fmt.Errorf("collect the kernel: %w", err)
	}
	r.Image, r.Config, r.Script = filepath.Join(o.Output, target), filepath.Join(o.Output, "config"), filepath.Join(o.Output, "rebuild.sh")
	r.Map = filepath.Join(o.Output, "System.map")
	if target == "vmlinux" { // without symbols: they are a third of it, and nobody reads them at boot
		_, err = run(ctx, o.Build, o.Arch.tool("objcopy"), "-S", "vmlinux", r.Image)
	} else {
		err = copyFile(filepath.Join(o.Build, "arch", string(o.Arch), "boot", target), r.Image)
	}
	if err := errors.Join(err, copyFile(filepath.Join(o.Build, ".config"), r.Config), copyFile(filepath.Join(o.Build, "System.map"), r.Map)); err != nil {
		return nil, fmt.Errorf("collect the kernel: %w", err)
	}
	if err := o.measure(ctx, r); err != nil {
		return nil, fmt.Errorf("collect the kernel: %w", err)
	}
	if o.Initrd {
		if r.Initrd, r.Sizes["initrd"], err = o.writeInitrd(ctx); err != nil {
			return nil, err
		}
	}
	r.Commands = o.commands(target)
	script := "#!/bin/sh\n# Makes this kernel again, beside this script.\nset -e\nhere=$(cd \"$(dirname \"$0\")\" && pwd)\n" + strings.Join(r.Commands, "\n") + "\n"
	summary, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("collect the kernel: %w", err)
	}
	return r, errors.Join(os.WriteFile(r.Script, []byte(script), 0o755), os.WriteFile(filepath.Join(o.Output, "kernel.json"), append(summary, '\n'), 0o644))
}

// ReadResult reads what a build put into a directory beside its kernel.
func ReadResult(dir string) (*Result, error) {
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		return nil, fmt.Errorf("the kernel that was built: %w", err)
	}
	r := new(Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("the kernel that was built: %s: %w", dir, err)
	}
	return r, nil
}

// commands make the same kernel from the configuration.
func (o *Options) commands(target string) []string {
	of := strings.Join(o.Arch.variables(), " ")
	return []string{
		"mkdir -p \"$here/build\"",
		"cp \"$here/config\" \"$here/build/.config\"",
		fmt.Sprintf("cd '%s'", strings.ReplaceAll(o.Source, "'", `'\''`)),
		"export KBUILD_BUILD_TIMESTAMP=@0 KBUILD_BUILD_USER=tare KBUILD_BUILD_HOST=tare",
		fmt.Sprintf("make %s O=\"$here/build\" olddefconfig", of),
		fmt.Sprintf("make %s -j\"$(nproc)\" O=\"$here/build\" %s", of, target),
	}
}

// measure fills in the sizes.
func (o *Options) measure(ctx context.Context, r *Result) error {
	info, err := os.Stat(r.Image)
	if err != nil {
		return err
	}
	r.Sizes["image"] = info.Size()
	out, err := run(ctx, o.Build, o.Arch.tool("size"), "vmlinux")
	if err != nil {
		return err
	}
	var text, data, bss int64
	_, second, _ := strings.Cut(out, "\n")
	if _, err := fmt.Sscan(second, &text, &data, &bss); err != nil {
		return fmt.Errorf("size vmlinux said %q: %w", out, err)
	}
	r.Sizes["text"], r.Sizes["data"], r.Sizes["bss"] = text, data, bss
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to + ".tmp")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".tmp", to)
}
