package trim

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// A Configured is a configuration that Kconfig has made, with what of the wants
// did not survive although it may.
type Configured struct {
	Config  *kconfig.Config
	GivenUp []Lost // optional wants that are not in it
}

// A Lost want did not survive Kconfig, or was not asked for.
type Lost struct {
	kconfig.Finding
	Unmet      []string // the dependencies that are off, as "NETFILTER [=n]" or "A [=n] || B [=n]"
	SelectedBy []string // those that are on and ask for it
	Costly     bool     // left out on purpose
}

// A LostError says that wants which are not optional did not survive.
type LostError struct{ Lost []Lost }

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration lacks %d symbols that are wanted:", len(e.Lost))
	for _, l := range e.Lost {
		fmt.Fprintf(&b, "\n  CONFIG_%s (need %s: %s): %s", l.Symbol, l.Need, l.Why, l.reason())
	}
	return b.String()
}

func (l Lost) reason() string {
	switch {
	case l.Costly:
		return "costs boot time or size"
	case l.State == kconfig.Unknown:
		return "this kernel does not know it: it is misspelt, or the need must say since or before"
	case l.Value == "n" && len(l.SelectedBy) > 0:
		return "stays on: " + strings.Join(l.SelectedBy, ", ") + " select it"
	case l.Value == "n":
		return "stays on: Kconfig has it so"
	case l.State == kconfig.Wrong:
		return fmt.Sprintf("is %s, not %s", l.Has, l.Value)
	case len(l.Unmet) > 0:
		return "unmet: " + strings.Join(l.Unmet, ", ")
	}
	return string(l.State)
}

// always are settings of every trimmed kernel: what is on is built in, because
// there may be no file system to load modules from. EXPERT lets Kconfig leave out
// what it otherwise gives every kernel: a virtual terminal, workarounds for PCI
// devices. The tables by which other unwinders name the callers in a kernel's last
// words are a sixth of an image; guessing takes none, and may name one too many. A
// need that asks for another unwinder has it.
var always = []string{`CONFIG_LOCALVERSION="-tare"`, "# CONFIG_LOCALVERSION_AUTO is not set", "# CONFIG_WERROR is not set",
	"CONFIG_EXPERT=y", "CONFIG_UNWINDER_GUESS=y"}

// configure makes the configuration in o.Build.
func configure(ctx context.Context, o *Options) (*Configured, error) {
	version, err := versionOf(o.Source)
	if err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	o.Wants = kconfig.For(string(o.Arch), version, o.Wants)
	left := o.leaveOut()
	config, err := askKconfig(ctx, o)
	if err != nil {
		return nil, err
	}
	configured, err := survivors(ctx, o, config)
	if err != nil {
		return nil, err
	}
	configured.GivenUp = append(configured.GivenUp, left...)
	return configured, nil
}

var makefileVersion = regexp.MustCompile(`(?m)^VERSION\s*=\s*(\d+)\s+PATCHLEVEL\s*=\s*(\d+)`)

// versionOf is the version of a source, as 6.1; "" where its Makefile does not say.
func versionOf(source string) (string, error) {
	text, err := os.ReadFile(filepath.Join(source, "Makefile"))
	if err != nil {
		return "", err
	}
	if m := makefileVersion.FindSubmatch(text); m != nil {
		return fmt.Sprintf("%s.%s", m[1], m[2]), nil
	}
	return "", nil
}

// askKconfig has the source's Kconfig make the configuration in o.Build.
func askKconfig(ctx context.Context, o *Options) (*kconfig.Config, error) {
	if err := os.MkdirAll(o.Build, 0o755); err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	lines, err := o.fragment()
	if err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	fragment := filepath.Join(o.Build, "tare.fragment")
	if err := os.WriteFile(fragment, []byte(lines), 0o644); err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	target, extra := "allnoconfig", "KCONFIG_ALLCONFIG="+fragment
	if o.Way == TopDown {
		target, extra = "olddefconfig", "KCONFIG_ALLCONFIG="
		if err := os.WriteFile(filepath.Join(o.Build, ".config"), []byte(o.fromBase()+lines), 0o644); err != nil {
			return nil, fmt.Errorf("configure the kernel: %w", err)
		}
	}
	return o.makeConfig(ctx, extra, target)
}

// makeConfig runs one of make's targets that end in a configuration in o.Build.
func (o *Options) makeConfig(ctx context.Context, extra, target string) (*kconfig.Config, error) {
	if _, err := run(ctx, o.Source, "make", append(o.Arch.variables(), "-s", "O="+o.Build, extra, target)...); err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(o.Build, ".config"))
	if err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	config, err := kconfig.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("configure the kernel: %w", err)
	}
	return config, nil
}

// leaveOut takes out of the wants those that are optional and cost: a need that
// is asked for by name keeps them, because there they are not optional.
func (o *Options) leaveOut() (left []Lost) {
	o.Wants = slices.DeleteFunc(slices.Clone(o.Wants), func(w kconfig.Want) bool {
		out := w.Optional && slices.Contains(costly, w.Symbol)
		if out {
			left = append(left, Lost{Finding: kconfig.Finding{Want: w}, Costly: true})
		}
		return out
	})
	return left
}

// fragment is what Kconfig is asked for.
func (o *Options) fragment() (string, error) {
	lines := slices.Clone(always)
	if o.Arch == X86 {
		lines = append(lines, "CONFIG_"+o.Compression.symbol()+"=y")
	}
	errata, err := o.errata()
	if err != nil {
		return "", err
	}
	for _, symbol := range errata {
		lines = append(lines, assignment(symbol, ""))
	}
	if !slices.ContainsFunc(o.Wants, func(w kconfig.Want) bool { return w.Symbol == "MODULES" && w.Value != "n" }) {
		lines = append(lines, "# CONFIG_MODULES is not set")
	}
	for _, w := range slices.SortedStableFunc(slices.Values(o.Wants), func(a, b kconfig.Want) int { return weight(a) - weight(b) }) {
		lines = append(lines, assignment(w.Symbol, w.Value))
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// weight orders what several wants ask of one symbol: the last counts. That it is
// on goes before an optional n, and a value before that it is on.
func weight(w kconfig.Want) int {
	switch {
	case w.Optional && w.Value == "n":
		return 0
	case w.Value == "":
		return 1
	case w.Optional:
		return 2
	}
	return 3
}

func assignment(symbol, value string) string {
	switch value {
	case "":
		value = "y"
	case "n":
		return "# CONFIG_" + symbol + " is not set"
	}
	return "CONFIG_" + symbol + "=" + value
}

// costly are symbols that cost a boot time or size and that a container host in
// a virtual machine does not need: the published study's list, and what
// tare boot profile shows of stock kernels. Whoever needs one names its need.
var costly = []string{
	"USB_SUPPORT", "PARPORT", "SOUND", "MEDIA_SUPPORT", "BT", "WLAN", "WIRELESS", "RFKILL", "NFC", "SECURITY_SELINUX",
	"SECURITY_APPARMOR", "SECURITY_TOMOYO", "SECURITY_SMACK", "SECURITY_LANDLOCK", "SECURITY_YAMA", "INTEGRITY", "IMA", "EVM",
	"MODULE_SIG", "SYSTEM_TRUSTED_KEYRING", "ENCRYPTED_KEYS", "TRUSTED_KEYS", "RTC_CLASS", "IPV6", "DRM", "FB", "VT", "INPUT",
	"KPROBES", "FTRACE", "PROFILING", "XEN", "HYPERV", "SUSPEND", "HIBERNATION", "KEXEC", "KEXEC_FILE", "CRASH_DUMP",
	"MICROCODE", "X86_MCE", "NUMA", "ACPI_APEI", "HOTPLUG_PCI", "DEBUG_INFO", "DEBUG_KERNEL", "SWAP", "AUDIT", "CRYPTO_FIPS",
	"ATA", "SCSI", "MD", "FUSION", "NETWORK_FILESYSTEMS", "QUOTA", "WATCHDOG", "HWMON", "THERMAL", "POWER_SUPPLY", "I2C", "SPI",
}

// fromBase is the base's configuration without its modules and without what
// costs. What is wanted comes behind it, where it counts.
func (o *Options) fromBase() string {
	var b strings.Builder
	wanted := map[string]bool{}
	for _, w := range o.Wants {
		wanted[w.Symbol] = true
	}
	for _, symbol := range slices.Sorted(maps.Keys(o.Base.Values)) {
		value := o.Base.Values[symbol]
		if value == "m" || slices.Contains(costly, symbol) || strings.HasPrefix(symbol, "KERNEL_") || strings.HasPrefix(symbol, "DEBUG_INFO") {
			value = "n"
		}
		if !wanted[symbol] && symbol != "LOCALVERSION" && symbol != "MODULES" {
			fmt.Fprintln(&b, assignment(symbol, value))
		}
	}
	for _, symbol := range costly {
		if _, there := o.Base.Values[symbol]; !there && !wanted[symbol] {
			fmt.Fprintln(&b, assignment(symbol, "n"))
		}
	}
	// Debugging information is one of several: off has a name of its own, since 5.18.
	fmt.Fprintln(&b, "CONFIG_DEBUG_INFO_NONE=y")
	return b.String()
}

// survivors compares what was asked for with what Kconfig made of it. An optional
// symbol that the source does not have is not lost.
func survivors(ctx context.Context, o *Options, config *kconfig.Config) (*Configured, error) {
	var lost []Lost
	for _, f := range config.Check(o.Wants) {
		if !f.Good() && f.State != kconfig.Unknown {
			lost = append(lost, Lost{Finding: f})
		}
	}
	lost, err := explain(ctx, o, lost)
	if err != nil {
		return nil, err
	}
	out := &Configured{Config: config}
	var fatal []Lost
	for _, l := range lost {
		switch {
		case !l.Optional:
			fatal = append(fatal, l)
		case l.State != kconfig.Unknown:
			out.GivenUp = append(out.GivenUp, l)
		}
	}
	if len(fatal) > 0 {
		return nil, &LostError{fatal}
	}
	return out, nil
}
