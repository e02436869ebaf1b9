package bootlog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/kernel/bootlog"
)

// boot is one small boot as printk writes it.
const boot = `[    0.000000] Linux version 6.1.0-56-cloud-amd64 (debian) #1 SMP
[    0.000000] Command line: console=ttyS0 initcall_debug
[    0.000000] ACPI: RSDP 0x00000000000F5960
[    0.010000] Dentry cache hash table entries: 131072
[    0.030000] calling  pci_arch_init+0x0/0x83 @ 1
[    0.040000] PCI: Using configuration type 1 for base access
[    0.041000] initcall pci_arch_init+0x0/0x83 returned 0 after 10000 usecs
[    0.100000] Trying to unpack rootfs image as initramfs...
[    0.150000] calling  crypto_kdf108_init+0x0/0x18d @ 1
[    0.900000] Freeing initrd memory: 19784K
[    0.903000] initcall crypto_kdf108_init+0x0/0x18d returned 0 after 750000 usecs
[    0.950000] usbcore: registered new interface driver usbfs
[    1.000000] Freeing unused kernel image (initmem) memory: 2800K
[    1.010000] Run /init as init process
[    1.500000] loop: module loaded
[    2.000000] IPv6: ADDRCONF(NETDEV_UP): docker0: link is not ready
`

func parse(t *testing.T, text string) []bootlog.Boot {
	t.Helper()
	boots, err := bootlog.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return boots
}

// eachLine rewrites a log's lines, as another tool would have stored them.
func eachLine(rewrite func(stamp, text string) string) string {
	var out strings.Builder
	for line := range strings.Lines(boot) {
		stamp, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "["), "] ")
		out.WriteString(rewrite(strings.TrimSpace(stamp), text))
		out.WriteByte('\n')
	}
	return out.String()
}

// TestForms reads one boot in each form that tools write: all say the same.
func TestForms(t *testing.T) {
	micro := func(stamp string) string { return strings.TrimLeft(strings.Replace(stamp, ".", "", 1), "0") + "" }
	forms := map[string]string{
		"dmesg":           boot,
		"serial":          strings.ReplaceAll(boot, "\n", "\r\n"),
		"colours":         eachLine(func(s, x string) string { return "\x1b[32m[    " + s + "] \x1b[0m\x1b[33m" + x + "\x1b[0m" }),
		"raw":             eachLine(func(s, x string) string { return "<6>[    " + s + "] " + x }),
		"decoded":         eachLine(func(s, x string) string { return "kern  :info  : [    " + s + "] " + x }),
		"caller":          eachLine(func(s, x string) string { return "[    " + s + "][    T1] " + x }),
		"show-delta":      eachLine(func(s, x string) string { return "[    " + s + " <    0.010000>] " + x }),
		"kmsg":            eachLine(func(s, x string) string { return "6,1," + "0" + micro(s) + ",-;" + x }),
		"syslog":          eachLine(func(s, x string) string { return "Nov 21 11:15:59 box kernel: [    " + s + "] " + x }),
		"short-monotonic": eachLine(func(s, x string) string { return "[    " + s + "] box kernel: " + x }),
		"grabserial":      eachLine(func(s, x string) string { return "[9.000001 0.000010] [    " + s + "] " + x }),
		"journal json": eachLine(func(s, x string) string {
			return `{"__MONOTONIC_TIMESTAMP":"9000000","_SOURCE_MONOTONIC_TIMESTAMP":"` + "0" + micro(s) + `","_TRANSPORT":"kernel","MESSAGE":"` + x + `","_BOOT_ID":"a"}`
		}),
		"firmware before": "SeaBIOS (version 1.16.2)\r\n\r\nBooting from ROM..." + boot,
	}
	for name, text := range forms {
		t.Run(name, func(t *testing.T) {
			boots := parse(t, text)
			if len(boots) != 1 {
				t.Fatalf("%d boots, want 1", len(boots))
			}
			p := bootlog.New(&boots[0])
			if p.Kernel != "6.1.0-56-cloud-amd64" || p.Command != "console=ttyS0 initcall_debug" {
				t.Errorf("kernel %q, command line %q", p.Kernel, p.Command)
			}
			for mark, want := range map[string]time.Duration{
				bootlog.MarkInitrd: 900 * time.Millisecond, bootlog.MarkKernel: time.Second,
				bootlog.MarkModules: 1500 * time.Millisecond, bootlog.MarkTotal: 2 * time.Second,
			} {
				if at, ok := p.Reached(mark); !ok || at != want {
					t.Errorf("%s at %v (%v), want %v", mark, at, ok, want)
				}
			}
		})
	}
}

// A wait for the initramfs is not the cost of who waited.
func TestWaitIsNotCost(t *testing.T) {
	boots := parse(t, boot)
	p := bootlog.New(&boots[0])
	i := slices.IndexFunc(p.Initcalls, func(c bootlog.Initcall) bool { return c.Name == "crypto_kdf108_init" })
	c := p.Initcalls[i]
	if len(c.Waits) != 1 || c.Waits[0].For != "initramfs" || c.Took != 750*time.Millisecond || c.Own != 0 {
		t.Errorf("the call is %+v, want 750 ms of which all is a wait for the initramfs", c)
	}
	if p.Initcalls[0].Name != "pci_arch_init" {
		t.Errorf("the costliest call is %s, want pci_arch_init", p.Initcalls[0].Name)
	}
	if got := p.Initramfs; got == nil || got.End-got.Start != 800*time.Millisecond || got.Size != "19784K" {
		t.Errorf("unpacking is %+v", got)
	}
}

func TestPhases(t *testing.T) {
	boots := parse(t, boot)
	want := map[string]time.Duration{
		"ACPI": 10 * time.Millisecond, "early init": 30 * time.Millisecond, "PCI": 910 * time.Millisecond,
		"USB": 50 * time.Millisecond, "modules": time.Second,
	}
	for _, p := range bootlog.New(&boots[0]).Phases {
		if !p.Found || p.Took != want[p.Name] {
			t.Errorf("phase %s took %v (found: %v), want %v", p.Name, p.Took, p.Found, want[p.Name])
		}
	}
}

func TestAsync(t *testing.T) {
	boots := parse(t, `[    0.000000] Linux version 4.4.0
[    0.100000] calling  ahci_init+0x0/0x10 @ 1
[    0.110000] calling  3_async_port_probe+0x0/0x10 @ 5
[    0.900000] initcall 3_async_port_probe+0x0/0x10 returned 0 after 790000 usecs
[    0.901000] async_continuing @ 1 after 780000 usec
[    0.910000] initcall ahci_init+0x0/0x10 returned 0 after 810000 usecs
[    0.920000] calling  stuck_init+0x0/0x10 [stuck] @ 7
`)
	p := bootlog.New(&boots[0])
	calls := map[string]bootlog.Initcall{}
	for _, c := range p.Initcalls {
		calls[c.Name] = c
	}
	if got := calls["ahci_init"].Own; got != 30*time.Millisecond {
		t.Errorf("ahci_init cost %v of its own, want 30ms", got)
	}
	if !calls["3_async_port_probe"].Async {
		t.Error("the async call is not marked")
	}
	if c := calls["stuck_init"]; c.Complete || c.Module != "stuck" {
		t.Errorf("the call that never returned is %+v", c)
	}
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "stuck_init was called and has not returned") }) {
		t.Errorf("no warning of the call that never returned: %q", p.Warnings)
	}
}

func TestUnits(t *testing.T) {
	boots := parse(t, `[    0.000000] Linux version 6.1.0
[    1.000000] systemd[1]: systemd 252.30-1~deb12u2 running in system mode (+PAM)
[    1.100000] systemd[1]: Starting containerd.service - containerd container runtime...
[    2.100000] systemd[1]: Started containerd.service - containerd container runtime.
[    2.110000] systemd[1]: Starting Docker Application Container Engine...
[    5.000000] systemd[1]: Started Docker Application Container Engine.
[    5.100000] systemd[1]: Failed to start Cleanup of things.
`)
	p := bootlog.New(&boots[0])
	if len(p.Units) != 3 || p.Units[0].Name != "containerd.service" || p.Units[1].Took != 2890*time.Millisecond || !p.Units[2].Failed {
		t.Fatalf("units are %+v", p.Units)
	}
	var names []string
	for _, u := range p.Chain {
		names = append(names, u.Name)
	}
	if got := strings.Join(names, " < "); got != "Cleanup of things < Docker Application Container Engine < containerd.service" {
		t.Errorf("the chain is %s", got)
	}
	if at, ok := p.Reached(bootlog.MarkInitOn); !ok || at != time.Second {
		t.Errorf("systemd at %v, %v", at, ok)
	}
}

// On a console that somebody stamped, units have times though systemd's lines have
// none of the kernel's, and who told twice counts once.
func TestUnitsOfAStampedConsole(t *testing.T) {
	boots := parse(t, strings.ReplaceAll(`[0.500000 0.500000] [    0.000000] Linux version 6.1.0
[1.510000 1.010000] [    1.000000] systemd[1]: systemd 252.30-1~deb12u2 running in system mode (+PAM)
[2.000000 0.490000]          Starting ESC[0;1;39mcontainerd.serviceESC[0m - containerd container runtime...
[3.500000 1.500000] [ESC[0;32m  OK  ESC[0m] Started ESC[0;1;39mcontainerd.serviceESC[0m - containerd container runtime.
[3.600000 0.100000] [    3.100000] systemd[1]: Started containerd.service - containerd container runtime.
[3.700000 0.100000] Starting something of a program
`, "ESC", "\x1b"))
	if boots[0].Ahead != 500*time.Millisecond {
		t.Errorf("the kernel's clock began at %v of the host's", boots[0].Ahead)
	}
	want := bootlog.Unit{Name: "containerd.service", Start: 1500 * time.Millisecond, Active: 3 * time.Second, Took: 1500 * time.Millisecond}
	if p := bootlog.New(&boots[0]); len(p.Units) != 1 || p.Units[0] != want {
		t.Errorf("units are %+v, want %+v", p.Units, want)
	}
}

// Two boots in a file stay two, whether the second has its beginning or not.
// Processes that tare's agent tells of at the end of a console are no lines of the
// boot: they take no part in its steps.
func TestProcesses(t *testing.T) {
	const console = `[0.300000 0.300000] [    0.000000] Linux version 6.1.0
[1.300000 1.000000] [    1.000000] Run /sbin/init as init process
[9.000000 7.700000] tare: process 341 1 4120 8650 1230 dockerd
[9.000001 0.000001] tare: process 1 0 900 8650 700 (sd pam) x
`
	b := parse(t, console)[0]
	want := []bootlog.Process{
		{PID: 1, Name: "(sd pam) x", Start: 900 * time.Millisecond, End: 8650 * time.Millisecond, CPU: 700 * time.Millisecond},
		{PID: 341, Parent: 1, Name: "dockerd", Start: 4120 * time.Millisecond, End: 8650 * time.Millisecond, CPU: 1230 * time.Millisecond},
	}
	if !slices.Equal(b.Processes, want) || len(b.Lines) != 2 || b.End() != time.Second {
		t.Errorf("processes %+v, %d lines until %v", b.Processes, len(b.Lines), b.End())
	}
}

func TestTwoBoots(t *testing.T) {
	_, tail, _ := strings.Cut(boot, "RSDP")
	for name, text := range map[string]string{
		"whole":     boot + "SeaBIOS\n" + boot,
		"cut":       boot + "[    0.000000] BIOS" + tail,
		"journal":   "-- Boot 00000000000000000000000000000001 --\n" + boot + "-- Boot 00000000000000000000000000000002 --\n" + boot,
		"compacted": boot + boot,
	} {
		boots := parse(t, text)
		if len(boots) != 2 {
			t.Errorf("%s: %d boots, want 2", name, len(boots))
			continue
		}
		if at, ok := bootlog.New(&boots[1]).Reached(bootlog.MarkTotal); !ok || at != 2*time.Second {
			t.Errorf("%s: the second ends at %v (%v)", name, at, ok)
		}
	}
}

func TestRefused(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(boot)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := bootlog.Parse(bytes.NewReader(packed.Bytes()[:packed.Len()-20])); err != nil {
		t.Errorf("a compressed log that was cut short: %v", err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":      {"", bootlog.ErrNoTimes},
		"no times":   {eachLine(func(_, x string) string { return x }), bootlog.ErrNoTimes},
		"binary":     {"\x7fELF" + strings.Repeat("\x00", 5000), bootlog.ErrNotALog},
		"zeros":      {strings.Repeat("\x00", 5000), bootlog.ErrNotALog},
		"relative":   {"[Nov21 11:15] Linux version 6.1.0\n[  +0.000005] Command line: quiet\n", bootlog.ErrRelative},
		"a web page": {"<html><body>hello</body></html>", bootlog.ErrNoTimes},
	} {
		if _, err := bootlog.Parse(strings.NewReader(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestTruncated(t *testing.T) {
	boots := parse(t, boot[strings.Index(boot, "[    0.900000]"):len(boot)-30])
	if w := boots[0].Warnings; len(w) != 1 || !strings.Contains(w[0], "the beginning is missing") {
		t.Errorf("warnings are %q", w)
	}
}

// TestThisMachine reads what this machine's kernel said, whatever that is.
func TestThisMachine(t *testing.T) {
	out, err := exec.Command("dmesg").Output()
	if err != nil {
		t.Skipf("dmesg: %v", err)
	}
	boots, err := bootlog.Parse(bytes.NewReader(out))
	if errors.Is(err, bootlog.ErrNoTimes) {
		t.Skip("this kernel's log has no times")
	}
	if err != nil {
		t.Fatal(err)
	}
	p := bootlog.New(&boots[len(boots)-1])
	lines := 0
	for _, b := range boots {
		lines += len(b.Lines)
	}
	if want := bytes.Count(out, []byte("\n")); lines > want+want/10 || lines < want*9/10 {
		t.Errorf("%d lines of %d were read", lines, want)
	}
	if p.End <= 0 || len(p.Steps) == 0 {
		t.Errorf("the profile ends at %v s with %d steps", p.End, len(p.Steps))
	}
}

// FuzzParse: no input makes the parser panic, and what it accepts can be profiled.
func FuzzParse(f *testing.F) {
	f.Add(boot)
	f.Add("6,1,5,-;Linux version\n{\"__MONOTONIC_TIMESTAMP\":\"1\",\"MESSAGE\":[76]}\n")
	f.Add("Nov 21 11:15:59 box kernel: hello\n2026-11-21T11:15:59,000001+00:00 x\n[Sat Nov 21 11:15:59 2026] y\n")
	f.Fuzz(func(t *testing.T, text string) {
		boots, err := bootlog.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range boots {
			p := bootlog.New(&boots[i])
			for _, s := range p.Steps {
				if s.Took < 0 {
					t.Fatalf("a step of %v", s.Took)
				}
			}
			for _, c := range p.Initcalls {
				if c.Own < 0 || c.Own > c.Took {
					t.Fatalf("an initcall of %v, its own %v", c.Took, c.Own)
				}
			}
		}
	})
}

// TestCaptured reads the serial logs of Debian's cloud kernel in QEMU: q35, an
// initramfs of 27 MB, once with initcall_debug and once without.
func TestCaptured(t *testing.T) {
	profile := func(name string) *bootlog.Profile {
		file, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		boots, err := bootlog.Parse(file)
		if err != nil || len(boots) != 1 {
			t.Fatalf("%s: %d boots, %v", name, len(boots), err)
		}
		return bootlog.New(&boots[0])
	}
	plain, debug := profile("stock-serial.log"), profile("stock-initcalls.log.gz")
	for _, p := range []*bootlog.Profile{plain, debug} {
		for _, mark := range []string{bootlog.MarkStart, bootlog.MarkInitrd, bootlog.MarkKernel, bootlog.MarkInit, bootlog.MarkModules, bootlog.MarkOff} {
			if _, ok := p.Reached(mark); !ok {
				t.Errorf("%s was not reached", mark)
			}
		}
	}
	if len(plain.Initcalls) != 0 || len(debug.Initcalls) != 586 {
		t.Errorf("%d and %d initcalls, want 0 and 586", len(plain.Initcalls), len(debug.Initcalls))
	}
	var waiting []string
	for _, c := range debug.Initcalls {
		if len(c.Waits) > 0 {
			waiting = append(waiting, c.Name)
		}
	}
	if got := strings.Join(waiting, " "); got != "crypto_kdf108_init" {
		t.Errorf("waited for the initramfs: %s, want crypto_kdf108_init", got)
	}
	if got := debug.Initcalls[0].Name; got != "crypto_algapi_init" {
		t.Errorf("the costliest is %s, want crypto_algapi_init", got)
	}
}

// TestRunningMachine: what a machine says once it is long up is no part of its boot,
// a unit that systemd waits 90 s for is.
func TestRunningMachine(t *testing.T) {
	const later = "[   95.000000] tare0: port 1(veth0) entered blocking state\n[  900.000000] hrtimer: interrupt took 5984505 ns\n[  901.000000] reboot: Power down\n"
	p := bootlog.New(&parse(t, boot+later)[0])
	if p.End != 95 || p.Lines != strings.Count(boot, "\n")+1 || p.Steps[0].Took != 93*time.Second {
		t.Errorf("the boot ends at %v with %d lines, and its costliest step is %+v", p.End, p.Lines, p.Steps[0])
	}
	if !slices.ContainsFunc(p.Warnings, func(w string) bool {
		return strings.Contains(w, "taken to end at 95.000 s, after which nothing was said for 805 s: the 2 lines")
	}) {
		t.Errorf("warnings %q", p.Warnings)
	}
	_, overwritten, _ := strings.Cut(boot, "as init process\n")
	if p := bootlog.New(&parse(t, overwritten+later)[0]); p.End != 95 || p.Phases[0].Found {
		t.Errorf("without its beginning the boot ends at %v", p.End)
	}
}

// TestInitramfsWithoutBeginning: where a ring buffer has lost the unpacking's first
// line, nobody knows how long it took.
func TestInitramfsWithoutBeginning(t *testing.T) {
	_, late, _ := strings.Cut(boot, "as initramfs...\n")
	if p := bootlog.New(&parse(t, late)[0]); p.Initramfs != nil {
		t.Errorf("it was unpacked in %+v", p.Initramfs)
	}
}
