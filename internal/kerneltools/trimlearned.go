package kerneltools

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/learn"
	"github.com/tarelab/tare/internal/kerneltools/trim"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/needs"
)

// kernelSide is a kernel as it is weighed next to another one.
type kernelSide struct {
	Release     string   `json:"release"`
	Bytes       int64    `json:"bytes"`        // of the packed kernel
	Initrd      int64    `json:"initrd_bytes"` // 0 for none
	BuiltIn     int      `json:"built_in"`     // symbols
	Modules     int      `json:"modules"`      // symbols
	Syscalls    int      `json:"syscalls"`     // that the configuration leaves to be reached
	Mitigations []string `json:"given_up"`     // symbols of the need hardening that it does not have
	Up          float64  `json:"up"`           // seconds from its start until the engine was up
	Seconds     float64  `json:"seconds"`      // of the command
}

// weigh builds the kernel, puts it to the proof and weighs it against stock.
func (l *learning) weigh(ctx context.Context, shown *shownLearned) error {
	learned, err := filepath.Abs(l.flags.output)
	if err != nil {
		return err
	}
	o := l.options
	if o.Wants, err = kconfig.Collect([]string{learned, l.machine.Need}, needs.Load); err != nil {
		return err
	}
	began := time.Now() // for people
	l.say("building a kernel of what was learned")
	if l.flags.minimize {
		m, err := l.minimize(began)
		if err != nil {
			return err
		}
		found, err := o.Search(ctx, m)
		if err != nil {
			return err
		}
		shown.Found = &found
		if found.First == 0 { // the budget ended before a kernel was proven
			return nil
		}
		// The smallest kernel lies there already, with its configuration.
		if shown.Kernel, err = trim.ReadResult(o.Output); err != nil {
			return err
		}
	} else {
		if shown.Kernel, err = trim.Build(ctx, o, l.buildProgress(began)); err != nil {
			return err
		}
		l.ClearLine()
	}
	stock, err := l.stockSide(ctx, shown.Observed)
	if err != nil {
		return err
	}
	made, err := l.madeSide(ctx, shown.Kernel)
	if err != nil {
		return err
	}
	shown.Weighed = []kernelSide{stock, made}
	return nil
}

// minimize is a search whose proof is the command, with the files that it finds.
func (l *learning) minimize(began time.Time) (trim.Minimize, error) {
	proof := l.errand(false).Script
	for _, file := range slices.Sorted(slices.Values(l.files)) {
		digest, err := sys.FileDigest(file)
		if err != nil {
			return trim.Minimize{}, &lab.InputError{Err: err}
		}
		proof += "\n# " + filepath.Base(file) + " " + digest
	}
	return trim.Minimize{Budget: l.flags.budget, Proof: proof, Now: time.Now, Tell: l.tellStep, Object: l.buildProgress(began),
		Prove: func(ctx context.Context, image string) (string, error) {
			e := l.errand(false)
			e.Kernel = image
			ran, err := l.host.run(ctx, e, func(string) {})
			if err != nil {
				return "", err
			}
			return failure(ran), nil
		}}, nil
}

// failure is why a kernel has not passed; "" where it has.
func failure(ran driver.Ran) string {
	if _, err := ranWell(ran); err != nil {
		return err.Error()
	}
	if !ran.Off {
		return "the command went well, and the machine had not powered off in time"
	}
	return ""
}

// stockSide runs the command on the stock kernel once more, without a trace.
func (l *learning) stockSide(ctx context.Context, traced *learn.Observed) (k kernelSide, err error) {
	l.say("running the command on the stock kernel, without a trace")
	ran, err := l.host.run(ctx, l.errand(false), l.say)
	if err != nil {
		return k, err
	}
	o, err := ranWell(ran)
	if err != nil {
		return k, err
	}
	k = kernelSide{Release: o.Release, Up: o.Up, Seconds: o.Seconds, Syscalls: l.source.Reachable(traced.Syscalls)}
	if err := k.configured(traced.Config); err != nil {
		return k, err
	}
	k.Bytes, k.Initrd, err = l.host.sizes(ctx)
	return k, err
}

// noted is a number of a target's facts; 0 where it has none.
func noted(notes map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(notes[name], 10, 64)
	return n
}

// madeSide is the proof of the new kernel: the command runs in it.
func (l *learning) madeSide(ctx context.Context, made *trim.Result) (k kernelSide, err error) {
	l.say("running the command on the new kernel")
	e := l.errand(false)
	e.Kernel = made.Image
	ran, err := l.host.run(ctx, e, l.say)
	if err != nil {
		return k, err
	}
	if why := failure(ran); why != "" {
		return k, &lab.FailedError{What: fmt.Sprintf("%s fails the proof: %s", made.Image, why)}
	}
	o, err := ranWell(ran)
	if err != nil {
		return k, err
	}
	k = kernelSide{Release: o.Release, Up: o.Up, Seconds: o.Seconds, Bytes: made.Sizes["image"]}
	config, err := readConfig(made.Config)
	if err == nil {
		err = k.configured(config)
	}
	if err != nil {
		return k, err
	}
	k.Syscalls, err = l.reachable(made.Map)
	return k, err
}

// reachable are the system calls that a kernel has, by its System.map.
func (l *learning) reachable(file string) (int, error) {
	f, err := sys.OpenGiven(file, limit.ErrandText)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text, err := limit.ErrandText.ReadAll(f)
	return l.source.Reachable(learn.Syscalls(text)), err
}

// configured counts the symbols of a configuration, and which mitigations are not in it.
func (k *kernelSide) configured(c *kconfig.Config) error {
	if c == nil {
		return nil
	}
	for _, v := range c.Values {
		switch v {
		case "y":
			k.BuiltIn++
		case "m":
			k.Modules++
		}
	}
	wants, err := kconfig.Collect([]string{"hardening"}, needs.Load)
	if err != nil {
		return err
	}
	for _, f := range c.Check(wants) {
		if !f.Good() && f.State != kconfig.Unknown {
			k.Mitigations = append(k.Mitigations, f.Symbol)
		}
	}
	return nil
}

// printWeighedKernels is the new kernel next to stock.
func (l *learning) printWeighedKernels(s shownLearned) {
	stock, made := s.Weighed[0], s.Weighed[1]
	t := l.Table("", "stock", "learned")
	t.AppendRows([]table.Row{
		{"Linux", stock.Release, made.Release},
		{"kernel, MB", fmt.Sprintf("%.2f", megabytes(stock.Bytes)), fmt.Sprintf("%.2f", megabytes(made.Bytes))},
		{"initramfs, MB", fmt.Sprintf("%.2f", megabytes(stock.Initrd)), fmt.Sprintf("%.2f", megabytes(made.Initrd))},
		{"symbols built in", stock.BuiltIn, made.BuiltIn},
		{"symbols as modules", stock.Modules, made.Modules},
		{"system calls that can be reached", stock.Syscalls, made.Syscalls},
		{"guards not in it (need hardening)", len(stock.Mitigations), len(made.Mitigations)},
		{"until the command could begin, s", fmt.Sprintf("%.1f", stock.Up), fmt.Sprintf("%.1f", made.Up)},
		{"the command, s", fmt.Sprintf("%.1f", stock.Seconds), fmt.Sprintf("%.1f", made.Seconds)},
	})
	fmt.Fprintln(l.Stdout())
	t.Render()
	fmt.Fprintln(l.Stdout(), "The command ran on both. Times are of one boot each, by the guests' clocks: they decide nothing.")
	given := slices.DeleteFunc(slices.Clone(made.Mitigations), func(s string) bool { return slices.Contains(stock.Mitigations, s) })
	if len(given) > 0 {
		fmt.Fprintf(l.Stdout(), "\nGuards given up, which the need hardening brings back: %s\n", strings.Join(given, " "))
	}
	if s.Found != nil {
		l.printFound(*s.Found, filepath.Dir(s.Kernel.Image))
	}
	fmt.Fprintf(l.Stdout(), "\nkernel: %s\n", s.Kernel.Image)
}
