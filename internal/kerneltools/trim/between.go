package trim

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

//go:embed explain/settle.c
var settleSource []byte

// mostOptions is in how many options two configurations may differ. Each takes Kconfig
// some 50 ms.
const mostOptions = 4000

// mostSymbol is the longest name of a symbol that Kconfig is asked for.
const mostSymbol = 80

// A ConfigError says why no list of configurations leads from one to another.
type ConfigError struct{ message string }

func (e *ConfigError) Error() string { return e.message }

// Between is the list of configurations that leads from a good one to a bad one, by one
// option after the other. The first is the good one, and the one behind Changes[i] is i+1.
type Between struct {
	Changes []Change
	// Ignored are options that differ in the two files and that Kconfig settles alike,
	// because a dependency is off.
	Ignored   []string
	Good, Bad *kconfig.Config // as Kconfig settles them

	o       Options
	options []string // assignments, in their order
}

// A Change leads from one configuration to the next.
type Change struct {
	Symbol string   // of the option that is set
	Option string   // as CONFIG_FOO=y
	With   []string // further options that change along, written the same
	upTo   int      // how many options are set
}

// Between lists the configurations of o's source between two. Each is the good one with the
// first options set as in the bad one, settled as make olddefconfig does. The order is that
// of the bad one's file, those that it has on first: what is off in it may be needed before.
// Options that change nothing by themselves join the next that does. Only Source, Build and
// Jobs of the options count.
func (o Options) Between(ctx context.Context, good, bad *kconfig.Config) (b *Between, err error) {
	b = &Between{o: o}
	b.o.Output, b.o.Compression = o.Build, packing(bad)
	if err := b.o.comparable(good, bad); err != nil {
		return nil, err
	}
	if err := b.o.checkTools(ctx); err != nil {
		return nil, err
	}
	unlock, err := b.o.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if b.Good, err = b.o.settle(ctx, textOf(good)); err != nil {
		return nil, err
	}
	if b.Bad, err = b.o.settle(ctx, textOf(bad)); err != nil {
		return nil, err
	}
	if err := b.o.refuseUnknown(ctx, good.Differ(bad)); err != nil {
		return nil, err
	}
	for _, s := range good.Differ(bad) {
		if b.Good.Value(s) == b.Bad.Value(s) {
			b.Ignored = append(b.Ignored, option(s, bad))
		}
	}
	symbols := b.order()
	switch {
	case len(symbols) == 0:
		return nil, &ConfigError{"the two configurations are the same after make olddefconfig"}
	case len(symbols) > mostOptions:
		return nil, &ConfigError{fmt.Sprintf("%d options differ between the two configurations: at most %d are bisected", len(symbols), mostOptions)}
	}
	return b, b.walk(ctx, symbols)
}

// comparable refuses what is seen without Kconfig.
func (o *Options) comparable(good, bad *kconfig.Config) error {
	version, err := versionOf(o.Source)
	if err != nil {
		return fmt.Errorf("configure the kernel: %w", err)
	}
	for _, c := range []*kconfig.Config{good, bad} {
		if r := c.Release(); r != "" && version != "" && r != version {
			return &ConfigError{fmt.Sprintf("a configuration is of Linux %s, and the source %s of Linux %s: name its source with --source", c.Version, o.Source, version)}
		}
		if c.Arch != "" && c.Arch != "x86" && c.Arch != "x86_64" {
			return &ConfigError{fmt.Sprintf("a configuration is of the architecture %s: kernels are built for x86 alone", c.Arch)}
		}
		for _, s := range c.Order {
			if strings.ContainsAny(c.Values[s], "$`") { // the build includes the configuration in Makefiles and scripts
				return &ConfigError{fmt.Sprintf("CONFIG_%s=%.80s: its value could run a command in the kernel's build", s, c.Values[s])}
			}
		}
	}
	if len(good.Differ(bad)) == 0 {
		return &ConfigError{"the two configurations have the same options"}
	}
	return nil
}

// packing is how a configuration packs its kernel. A packer that is not known here has its
// tool missed by the build alone.
func packing(c *kconfig.Config) Compression {
	for _, p := range Compressions[1:] {
		if c.On(p.symbol()) {
			return p
		}
	}
	return "gzip"
}

// refuseUnknown names the symbols that the source does not have.
func (o *Options) refuseUnknown(ctx context.Context, symbols []string) error {
	unknown := slices.DeleteFunc(slices.Clone(symbols), func(s string) bool { return len(s) <= mostSymbol })
	says, err := ask(ctx, o, minus(symbols, unknown))
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if says[s].value == "?" {
			unknown = append(unknown, s)
		}
	}
	if len(unknown) > 0 {
		return &ConfigError{fmt.Sprintf("Linux in %s has no option CONFIG_%s, in which the two configurations differ (%d such options)", o.Source, unknown[0], len(unknown))}
	}
	return nil
}

// settle has make settle a configuration in o.Build.
func (o *Options) settle(ctx context.Context, text string) (*kconfig.Config, error) {
	if err := os.WriteFile(filepath.Join(o.Build, ".config"), []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	return o.makeConfig(ctx, "KCONFIG_ALLCONFIG=", "olddefconfig")
}

// order are the options that are set one after the other. What the bad configuration lacks
// goes with what it depends on.
func (b *Between) order() (symbols []string) {
	var off []string
	for _, s := range b.Good.Differ(b.Bad) {
		switch value, there := b.Bad.Values[s]; {
		case !there:
		case value == "n":
			off = append(off, s)
		default:
			symbols = append(symbols, s)
		}
	}
	return append(symbols, off...)
}

// walk settles each configuration, and keeps those that differ from the one before.
func (b *Between) walk(ctx context.Context, symbols []string) (err error) {
	s, err := startSettler(ctx, &b.o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, symbol := range symbols {
		b.options = append(b.options, assignment(symbol, b.Bad.Values[symbol]))
	}
	before := b.Good
	for i, symbol := range symbols {
		now, err := s.settle(b.text(i + 1))
		if err != nil {
			return err
		}
		changed := before.Differ(now)
		if len(changed) == 0 {
			continue
		}
		change := Change{Symbol: symbol, Option: option(symbol, b.Bad), upTo: i + 1}
		for _, other := range changed {
			if other != symbol {
				change.With = append(change.With, option(other, now))
			}
		}
		b.Changes, before = append(b.Changes, change), now
	}
	return nil
}

// text is the good configuration with the first options set: of two lines with one symbol,
// Kconfig takes the last. With all of them it is the bad one.
func (b *Between) text(options int) string {
	if options == len(b.options) {
		return textOf(b.Bad)
	}
	return textOf(b.Good) + strings.Join(b.options[:options], "\n") + "\n"
}

// Build makes the kernel of a configuration of the list in a directory, unless it is there.
// A build that fails is a *RefusedError.
func (b *Between) Build(ctx context.Context, at int, output string, tell func(Progress)) (r *Result, err error) {
	o := b.o
	o.Output = output
	unlock, err := o.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	options := 0
	if at > 0 {
		options = b.Changes[at-1].upTo
	}
	settled, err := o.settle(ctx, b.text(options))
	if err != nil {
		return nil, err
	}
	if kept := o.kept(settled); kept != nil {
		return kept, nil
	}
	objects, err := compile(ctx, &o, o.image(), tell)
	if err != nil {
		return nil, refused(ctx, err)
	}
	return o.collect(ctx, &Configured{Config: settled}, o.image(), objects)
}

// kept is a kernel in o.Output that has been built of a configuration, nil for none.
func (o *Options) kept(settled *kconfig.Config) *Result {
	r, err := ReadResult(o.Output)
	if err != nil {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(o.Output, "config"))
	if err != nil {
		return nil
	}
	config, err := kconfig.Parse(bytes.NewReader(text))
	if err != nil || len(config.Differ(settled)) > 0 {
		return nil
	}
	r.Image = filepath.Join(o.Output, o.image()) // the directory may have been moved
	if _, err := os.Stat(r.Image); err != nil {
		return nil
	}
	return r
}

// option is a symbol's value in a configuration, as people write it.
func option(symbol string, c *kconfig.Config) string {
	return "CONFIG_" + symbol + "=" + c.Value(symbol)
}

// textOf is a configuration as a file.
func textOf(c *kconfig.Config) string {
	var b strings.Builder
	for _, s := range c.Order {
		fmt.Fprintln(&b, assignment(s, c.Values[s]))
	}
	return b.String()
}

// settler is the source's Kconfig as a process that settles one configuration after the other.
type settler struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	from, to string // files
}

// startSettler starts one. Kconfig has been built in o.Build.
func startSettler(ctx context.Context, o *Options) (*settler, error) {
	program, err := linkKconfig(ctx, o, "tare-settle", settleSource)
	if err != nil {
		return nil, fmt.Errorf("settle configurations: %w", err)
	}
	s := &settler{from: filepath.Join(o.Build, "tare-candidate"), to: filepath.Join(o.Build, "tare-settled")}
	s.cmd = exec.CommandContext(ctx, program, "Kconfig", s.from, s.to)
	s.cmd.Dir, s.cmd.Env = o.Build, append(kconfigEnv(ctx, o), "KCONFIG_OVERWRITECONFIG=1")
	s.cmd.WaitDelay = 10 * time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("settle configurations: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("settle configurations: %w", err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	return s, nil
}

func (s *settler) settle(text string) (*kconfig.Config, error) {
	if err := os.WriteFile(s.from, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("settle a configuration: %w", err)
	}
	if _, err := s.in.Write([]byte("\n")); err != nil {
		return nil, fmt.Errorf("settle a configuration: %w", err)
	}
	if _, err := s.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("settle a configuration: Kconfig ended: %w", err)
	}
	settled, err := os.Open(s.to)
	if err != nil {
		return nil, fmt.Errorf("settle a configuration: %w", err)
	}
	defer settled.Close()
	return kconfig.Parse(settled)
}

// close ends the process. One that has failed says so to settle first.
func (s *settler) close() error {
	if err := errors.Join(s.in.Close(), s.cmd.Wait()); err != nil {
		return fmt.Errorf("settle configurations: %w", err)
	}
	return nil
}
