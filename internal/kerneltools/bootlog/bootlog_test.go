package bootlog_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/kerneltools/textfile"
	"github.com/tarelab/tare/internal/limit"
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

// before is what kernels say before their banner.
var before = map[string]string{
	"arm64":     "[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd083]\n",
	"kernel 3":  "[    0.000000] Initializing cgroup subsys cpuset\n[    0.000000] Initializing cgroup subsys cpu\n[    0.000000] Initializing cgroup subsys cpuacct\n",
	"microcode": "[    0.000000] microcode: microcode updated early to revision 0xf0, date = 2021-11-12\n",
}

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

// documented is a boot as dmesg --json prints it.
func documented(fields, text string) string {
	var records []string
	for line := range strings.Lines(text) {
		stamp, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "["), "] ")
		records = append(records, fmt.Sprintf("{\n         %s\n         \"time\": %12s,\n         \"msg\": %q\n      }", fields, strings.TrimSpace(stamp), text))
	}
	return "{\n   \"dmesg\": [\n      " + strings.Join(records, ",") + "\n   ]\n}\n"
}

// export is a boot as journalctl -o export prints it: every other text as bytes.
func export(text string) string {
	var out strings.Builder
	binaryToo := false
	for line := range strings.Lines(text) {
		stamp, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "["), "] ")
		us := strings.Replace(strings.TrimSpace(stamp), ".", "", 1)
		fmt.Fprintf(&out, "__CURSOR=s=1;i=2\n__MONOTONIC_TIMESTAMP=9000000\n_SOURCE_MONOTONIC_TIMESTAMP=%s\n_TRANSPORT=kernel\n_BOOT_ID=a\n", us)
		if binaryToo = !binaryToo; binaryToo {
			text += "\x1b[0m\n" // as journald stores what is no plain text
			fmt.Fprintf(&out, "MESSAGE\n%s%s\n\n", binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text)
		} else {
			fmt.Fprintf(&out, "MESSAGE=%s\n\n", text)
		}
	}
	return out.String()
}

// A log that ends inside a record is read up to it, with a warning.
func TestCutInARecord(t *testing.T) {
	for name, text := range map[string]string{"dmesg --json": documented("", boot), "journalctl -o export": export(boot)} {
		boots := parse(t, text[:len(text)*2/3])
		if len(boots) != 1 || len(boots[0].Lines) < 8 || !slices.ContainsFunc(boots[0].Warnings, func(w string) bool { return strings.Contains(w, "in the middle of a record") }) {
			t.Errorf("%s: %+v", name, boots)
		}
	}
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
		"dmesg caller":    eachLine(func(s, x string) string { return "[    " + s + "] [      T1] " + x }),
		"show-delta":      eachLine(func(s, x string) string { return "[    " + s + " <    0.010000>] " + x }),
		"kmsg":            eachLine(func(s, x string) string { return "6,1," + "0" + micro(s) + ",-;" + x }),
		"syslog":          eachLine(func(s, x string) string { return "Nov 21 11:15:59 box kernel: [    " + s + "] " + x }),
		"busybox":         eachLine(func(s, x string) string { return "Jan  1 00:00:05 box kern.info kernel: [    " + s + "] " + x }),
		"logread":         eachLine(func(s, x string) string { return "Mon Nov 30 01:12:41 2026 kern.info kernel: [    " + s + "] " + x }),
		"syslog, no host": eachLine(func(s, x string) string { return "Nov 21 11:15:59 kernel: [    " + s + "] " + x }),
		"short-delta":     eachLine(func(s, x string) string { return "[    " + s + " <    0.010000 >] box kernel: " + x }),
		"its first line":  eachLine(func(s, x string) string { return "[    " + s + "                ] box kernel: " + x }),
		"no hostname":     eachLine(func(s, x string) string { return "[    " + s + "] kernel: " + x }),
		"short-monotonic": eachLine(func(s, x string) string { return "[    " + s + "] box kernel: " + x }),
		"grabserial":      eachLine(func(s, x string) string { return "[9.000001 0.000010] [    " + s + "] " + x }),
		"journal json": eachLine(func(s, x string) string {
			return `{"__MONOTONIC_TIMESTAMP":"9000000","_SOURCE_MONOTONIC_TIMESTAMP":"` + "0" + micro(s) + `","_TRANSPORT":"kernel","MESSAGE":"` + x + `","_BOOT_ID":"a"}`
		}),
		"dmesg json":         documented("", boot),
		"dmesg json decoded": documented(`"fac": "kern", "pri": "notice",`, boot),
		"journal export":     export(boot),
		"RFC 5424": eachLine(func(s, x string) string {
			return "<6>1 2026-11-30T01:12:41.123456+01:00 box kernel - - - [    " + s + "] " + x
		}),
		"RFC 5424, data": eachLine(func(s, x string) string {
			return `<6>1 2026-11-30T01:12:41Z box kernel - - [a@1 b="\"]" c="d"][e] ` + "\ufeff[    " + s + "] " + x
		}),
		"firmware before": "SeaBIOS (version 1.16.2)\r\n\r\nBooting from ROM..." + boot,
		"stamped firmware": "[0.100000 0.100000] U-Boot 2023.01\n[0.200000 0.100000] Hit any key\n" +
			eachLine(func(s, x string) string { return "[9.000001 0.000010] [    " + s + "] " + x }),
		"kmsg with fields": eachLine(func(s, x string) string {
			return "6,1,0" + micro(s) + ",-;" + x + "\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:01.0"
		}),
		"journald first": "[    0.700000] box systemd-journald[5]: Journal started\n[    0.700001] box systemd[1]: x\n" +
			eachLine(func(s, x string) string { return "[    " + s + "] box kernel: " + x }),
	}
	for kernel, first := range before {
		forms[kernel] = first + boot
		forms[kernel+" in syslog"] = strings.ReplaceAll("\n"+first+boot, "\n[", "\nNov 21 11:15:59 box kernel: [")
	}
	for name, text := range forms {
		t.Run(name, func(t *testing.T) {
			boots := parse(t, text)
			if len(boots) != 1 {
				t.Fatalf("%d boots, want 1", len(boots))
			}
			p := bootlog.New(&boots[0])
			for _, l := range boots[0].Lines {
				if strings.Contains(l.Text, "kern.info") || strings.Contains(l.Text, "box") {
					t.Errorf("the head of a line stands in its text, or is a line: %q", l.Text)
				}
			}
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

// TestAsync: what waited for asynchronous calls did not cost that itself, in the
// words of kernel 4.4 and of 6.1, which gives them no code.
func TestAsync(t *testing.T) {
	for version, code := range map[string]string{"4.4.0": " 0", "6.1.0": ""} {
		boots := parse(t, `[    0.000000] Linux version `+version+`
[    0.100000] calling  ahci_init+0x0/0x10 @ 1
[    0.110000] calling  3_async_port_probe+0x0/0x10 @ 5
[    0.900000] initcall 3_async_port_probe+0x0/0x10 returned`+code+` after 790000 usecs
[    0.901000] async_continuing @ 1 after 780000 usec
[    0.910000] initcall ahci_init+0x0/0x10 returned 0 after 810000 usecs
[    0.920000] calling  stuck_init+0x0/0x10 [stuck] @ 7
[    1.000000] Freeing unused kernel image (initmem) memory: 2800K
`)
		p := bootlog.New(&boots[0])
		calls := map[string]bootlog.Initcall{}
		for _, c := range p.Initcalls {
			calls[c.Name] = c
		}
		if got := calls["ahci_init"].Own; got != 30*time.Millisecond {
			t.Errorf("%s: ahci_init cost %v of its own, want 30ms", version, got)
		}
		if c := calls["3_async_port_probe"]; !c.Async || !c.Complete || c.Took != 790*time.Millisecond {
			t.Errorf("%s: the async call is %+v", version, c)
		}
		if c := calls["stuck_init"]; c.Complete || c.Module != "stuck" {
			t.Errorf("%s: the call that never returned is %+v", version, c)
		}
		if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "stuck_init was called and has not returned") {
			t.Errorf("%s: warnings %q, want one of the call that never returned", version, p.Warnings)
		}
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

// TestTwoBoots: two boots in a file stay two, whether the second has its beginning
// or not.
func TestTwoBoots(t *testing.T) {
	_, tail, _ := strings.Cut(boot, "RSDP")
	short, _, _ := strings.Cut(boot, "[    0.950000]")
	monotonic := eachLine(func(s, x string) string { return "[    " + s + "] box kernel: " + x })
	dated := eachLine(func(s, x string) string { return "Nov 21 11:15:0" + s + " box kernel: " + x })
	files := map[string]string{
		"whole":             boot + "SeaBIOS\n" + boot,
		"cut":               boot + "[    0.000000] BIOS" + tail,
		"journal":           "-- Boot 00000000000000000000000000000001 --\n" + boot + "-- Boot 00000000000000000000000000000002 --\n" + boot,
		"compacted":         boot + boot,
		"died early":        short + boot,
		"of few lines":      before["arm64"] + boot[:strings.Index(boot, "[    0.000000] ACPI")] + "[    0.500000] Kernel panic\nU-Boot\n" + before["arm64"] + boot[:strings.Index(boot, "[    0.000000] Command")] + boot[strings.Index(boot, "[    2.000000]"):],
		"died at once":      boot[:strings.Index(boot, "[    0.010000]")] + boot,
		"without its first": short[strings.Index(short, "[    0.010000]"):] + boot,
		"short-monotonic":   monotonic + monotonic,
		"time of day":       dated + strings.ReplaceAll(dated, "11:15", "11:25"),
		"quiet":             "[    0.310000] a\n[    1.310000] b\n[   12.310000] c\n[    0.350000] d\n[    1.350000] e\n[    2.000000] IPv6: ADDRCONF(NETDEV_UP): docker0: link is not ready\n",
	}
	for kernel, first := range before {
		files[kernel] = first + boot + first + boot
		files[kernel+", died early"] = first + short + first + boot
	}
	for name, text := range files {
		boots := parse(t, text)
		if len(boots) != 2 {
			t.Errorf("%s: %d boots, want 2", name, len(boots))
			continue
		}
		at, ok := bootlog.New(&boots[1]).Reached(bootlog.MarkTotal)
		if name == "time of day" { // its clock begins with the boot's first line
			ok = ok && boots[1].Clock == bootlog.Wall
		}
		if !ok || at != 2*time.Second {
			t.Errorf("%s: the second ends at %v (%v)", name, at, ok)
		}
		if first, known := before[strings.TrimSuffix(name, ", died early")]; known && !strings.Contains(first, boots[1].Lines[0].Text) {
			t.Errorf("%s: the second begins with %q", name, boots[1].Lines[0].Text)
		}
	}
}

// TestOneBoot: what a program quotes of another boot opens none, and its times are
// no times of this one.
func TestOneBoot(t *testing.T) {
	head, tail, _ := strings.Cut(boot, "[    2.000000]")
	tail = "[    2.000000]" + tail
	for name, quote := range map[string]struct{ text, warning string }{
		"in a line of its own":  {"[    1.900000] myapp[77]: saved log: [    0.020000] Linux version 5.0.0\n", ""},
		"of a late machine":     {"[    1.900000] myapp[77]: saved log: [90000.020000] Linux version 5.0.0\n", ""},
		"on the console":        {"saved log: [    0.020000] Linux version 5.0.0\n", "1 lines have a stamp far below"},
		"cat /proc/version":     {"Linux version 6.1.0-56-cloud-amd64 (debian) #1 SMP\n", ""},
		"two lines":             {"log: [    0.020000] Linux version 5.0.0\n[    0.030000] loop: module loaded\n", "2 lines have a stamp far below"},
		"a clock that was set":  {"[    1.900000] a\n" + strings.Repeat("[    1.650000] b\n", 5) + "[    1.660000] c\n", "the clock falls by 0.250 s at line 17: "},
		"a CPU that comes up":   {"[    1.900000] .... node  #0, CPUs:      #1\n[    0.033564] calibrate_delay_direct() failed\n[    0.033565] Probably due to\n", "2 lines have a stamp far below"},
		"CPUs in disorder":      {"[    1.900001] a\n[    1.899990] b\n", ""},
		"in a program's syslog": {"Nov 21 11:15:59 box myapp[77]: [    0.020000] Linux version 5.0.0\n", ""},
		"the same, RFC 5424":    {"<14>1 2026-11-30T11:15:59Z box myapp 77 - - [    0.020000] Linux version 5.0.0\n", ""},
	} {
		boots := parse(t, head+quote.text+tail)
		if len(boots) != 1 {
			t.Errorf("%s: %d boots", name, len(boots))
			continue
		}
		p := bootlog.New(&boots[0])
		if at, _ := p.Reached(bootlog.MarkModules); at != 1500*time.Millisecond || p.Kernel != "6.1.0-56-cloud-amd64" || p.Steps[0].Took != 750*time.Millisecond {
			t.Errorf("%s: modules at %v, kernel %s, the costliest step is %+v", name, at, p.Kernel, p.Steps[0])
		}
		if got := strings.Join(boots[0].Warnings, "; "); got == "" != (quote.warning == "") || !strings.Contains(got, quote.warning) {
			t.Errorf("%s: warnings %q, want %q", name, got, quote.warning)
		}
	}
}

// TestNewYear: a boot over New Year's Eve has its times, with and without the year
// in the stamps.
func TestNewYear(t *testing.T) {
	for _, stamps := range [][2]string{
		{"Dec 31 23:59:58 box kernel: ", "Jan  1 00:00:03 box kernel: "},
		{"2025-12-31T23:59:58+0000 box kernel: ", "2026-01-01T00:00:03+0000 box kernel: "},
		{"<6>1 2025-12-31T23:59:58Z box kernel - - - ", "<6>1 2026-01-01T00:00:03.000Z box kernel - - - "},
		{"[Wed Dec 31 23:59:58 2025] ", "[Thu Jan  1 00:00:03 2026] "},
		{"kern  :info  : [Wed Dec 31 23:59:58 2025] ", "kern  :info  : [Thu Jan  1 00:00:03 2026] "},
		{"2025-12-31T23:59:58,000000+00:00 ", "2026-01-01T00:00:03,000000+00:00 "},
	} {
		b := parse(t, stamps[0]+"Linux version 6.1.0\n"+stamps[1]+"Run /init as init process\n")[0]
		if b.End() != 5*time.Second {
			t.Errorf("%s: the boot ends at %v, want 5 s", stamps[1], b.End())
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
	if boots, err := bootlog.Parse(bytes.NewReader(packed.Bytes()[:packed.Len()-20])); err != nil || !slices.Contains(boots[0].Warnings, textfile.CutShort) {
		t.Errorf("a compressed log that was cut short: %+v, %v", boots, err)
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":      {"", textfile.ErrEmpty},
		"no times":   {eachLine(func(_, x string) string { return x }), bootlog.ErrNoTimes},
		"binary":     {"\x7fELF" + strings.Repeat("\x00", 5000), textfile.ErrNotText},
		"zeros":      {strings.Repeat("\x00", 5000), textfile.ErrNotText},
		"relative":   {"[Nov21 11:15] Linux version 6.1.0\n[  +0.000005] Command line: quiet\n", bootlog.ErrRelative},
		"human":      {"\x1b[32m\x1b[1m[Nov24 22:00] \x1b[0mLinux version 6.1.0\n\x1b[32m[  +0.000005] \x1b[0mCommand line: quiet\n", bootlog.ErrRelative},
		"delta":      {"[<    0.000000>] Linux version 6.1.0\n[<    0.000005>] Command line: quiet\n", bootlog.ErrRelative},
		"xz":         {"\xfd7zXZ\x00\x00\x04", textfile.ErrNotText},
		"a web page": {"<html><body>hello</body></html>", bootlog.ErrNoTimes},
	} {
		if _, err := bootlog.Parse(strings.NewReader(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestWarnings: what a log cannot tell is said.
func TestWarnings(t *testing.T) {
	const noAsync, start = "no asynchronous calls", "[    0.000000] Linux version 6.1.0\n"
	long := "[  400.000000] crash[77]: segfault at 0\n"
	for name, c := range map[string]struct {
		text string
		want []string // in their order, and no others
	}{
		"all there":         {start + "[    0.100000] calling  1_probe @ 5\n[    0.200000] Run /init as init process\n[    0.300000] initcall 1_probe returned after 5 usecs\n", nil},
		"without async":     {boot, []string{noAsync}},
		"a cut ring":        {boot[strings.Index(boot, "[    0.900000]") : len(boot)-30], []string{"the beginning is missing: the first line is of 0.900 s", noAsync}},
		"no initcalls":      {start, []string{"no initcalls"}},
		"systemd's console": {start + "[  OK  ] Started docker.service - Docker.\r\n[\x1b[0;32m  OK  \x1b[0m] Reached target Basic System.\n", []string{"lines have no time", "no initcalls", "no units: the 2 lines"}},
		"kmsg's fields":     {"6,1,0,-;Linux version 6.1.0\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:01.0\n", []string{"no initcalls"}},
		"long up":           {"[11143.554774] tare0: port 151 entered disabled state\n[11279.466925] crash[14092]: segfault at 0\n", []string{"it holds no boot, only what a machine said from 11144 s on", "no initcalls"}},
		"an older boot":     {long + long + boot, []string{"2 lines of the file hold no boot", noAsync}},
	} {
		boots := parse(t, c.text)
		if len(boots) != 1 {
			t.Errorf("%s: %d boots", name, len(boots))
			continue
		}
		got := bootlog.New(&boots[0]).Warnings
		if !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: warnings %q, want %q", name, got, c.want)
		}
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

// FuzzParse: no input makes the parser panic or take more memory than its limit, and
// what it accepts can be profiled.
func FuzzParse(f *testing.F) {
	f.Add(string(gzipped(f, "[    0.000000] Linux version 6.1.0\n", 1000)))
	f.Add(boot)
	f.Add("6,1,5,-;Linux version\n{\"__MONOTONIC_TIMESTAMP\":\"1\",\"MESSAGE\":[76]}\n")
	f.Add("Nov 21 11:15:59 box kernel: hello\n2026-11-21T11:15:59,000001+00:00 x\n[Sat Nov 21 11:15:59 2026] y\n")
	f.Fuzz(func(t *testing.T, text string) {
		var boots []bootlog.Boot
		var err error
		if over := limit.BootLog.CheckAlloc(func() { boots, err = bootlog.Parse(strings.NewReader(text)) }); over != nil {
			t.Fatal(over)
		}
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

// captured profiles a log of testdata.
func captured(t *testing.T, name string) *bootlog.Profile {
	t.Helper()
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

// TestCaptured reads logs of our own, of machines in QEMU (q35): the serial logs of
// Debian's cloud kernel with an initramfs of 27 MB, once with initcall_debug and once
// without, and of the study container-vm-trim's machine vm/trimmed the console of a
// trial, stamped by the host, and the journal of the boot that told of its initcalls,
// without journald's cursors and dates.
func TestCaptured(t *testing.T) {
	ms := time.Millisecond
	for _, want := range []struct {
		name                    string
		calls, units, processes int
		at                      map[string]time.Duration
		took                    time.Duration // of docker.service; 0: not in the log
	}{
		{"stock-serial.log", 0, 0, 0, map[string]time.Duration{bootlog.MarkStart: 0, bootlog.MarkInitrd: 3280340 * time.Microsecond,
			bootlog.MarkKernel: 3928270 * time.Microsecond, bootlog.MarkInit: 3941714 * time.Microsecond, bootlog.MarkModules: 4260120 * time.Microsecond, bootlog.MarkOff: 4449033 * time.Microsecond}, 0},
		{"stock-initcalls.log.gz", 586, 0, 0, map[string]time.Duration{bootlog.MarkStart: 0, bootlog.MarkInitrd: 2978139 * time.Microsecond,
			bootlog.MarkKernel: 3849459 * time.Microsecond, bootlog.MarkInit: 3863220 * time.Microsecond, bootlog.MarkModules: 4245322 * time.Microsecond, bootlog.MarkOff: 4467936 * time.Microsecond}, 0},
		{"trimmed-console.log.gz", 0, 77, 110, map[string]time.Duration{bootlog.MarkStart: 0, bootlog.MarkRoot: 477705 * time.Microsecond, bootlog.MarkKernel: 515475 * time.Microsecond,
			bootlog.MarkInit: 518990 * time.Microsecond, bootlog.MarkInitOn: 707394 * time.Microsecond, bootlog.MarkBridge: 12571486 * time.Microsecond, bootlog.MarkOff: 16866125 * time.Microsecond}, 6419 * ms},
		{"trimmed-journal.json.gz", 324, 71, 0, map[string]time.Duration{bootlog.MarkStart: 0, bootlog.MarkRoot: 701719 * time.Microsecond, bootlog.MarkKernel: 743813 * time.Microsecond,
			bootlog.MarkInit: 748044 * time.Microsecond, bootlog.MarkInitOn: 983520 * time.Microsecond}, 6258 * ms},
	} {
		p := captured(t, want.name)
		if len(p.Milestones) != len(want.at) {
			t.Errorf("%s: milestones %+v", want.name, p.Milestones)
		}
		for mark, at := range want.at {
			if got, ok := p.Reached(mark); !ok || got != at {
				t.Errorf("%s: %s at %v (%v), want %v", want.name, mark, got, ok, at)
			}
		}
		if len(p.Initcalls) != want.calls || len(p.Units) != want.units || len(p.Boot.Processes) != want.processes {
			t.Errorf("%s: %d initcalls, %d units, %d processes, want %d, %d, %d", want.name, len(p.Initcalls), len(p.Units), len(p.Boot.Processes), want.calls, want.units, want.processes)
		}
		if want.took > 0 {
			if u := bootlog.Slowest(p.Units)[0]; u.Name != "docker.service" || u.Took.Round(ms) != want.took {
				t.Errorf("%s: the slowest unit is %+v, want docker.service of %v", want.name, u, want.took)
			}
		}
	}
}

// TestCapturedCosts: of Debian's kernel, who waited for the initramfs and what cost
// most; and a CPU that comes up with an old clock makes no step longer.
func TestCapturedCosts(t *testing.T) {
	plain, debug := captured(t, "stock-serial.log"), captured(t, "stock-initcalls.log.gz")
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
	if _, took, _, ok := plain.Match("smp: Brought up 1 node, 2 CPUs"); !ok || took != 165035*time.Microsecond {
		t.Errorf("the CPUs came up in %v, want 165.035 ms", took)
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
	p = bootlog.New(&parse(t, overwritten+later)[0])
	if p.End != 95 || p.Phases[0].Found {
		t.Errorf("without its beginning the boot ends at %v", p.End)
	}
	var steps time.Duration
	for _, s := range p.Subsystems {
		steps += s.Steps
	}
	if steps != 93500*time.Millisecond { // from 1.5 s on
		t.Errorf("without its beginning the subsystems' steps are %v", steps)
	}
	for end, said := range map[float64]string{
		901: "15 minutes after the kernel was up",
		160: "2 minutes after systemd had started all",
	} {
		var chatter strings.Builder
		for s := 3; s < 5000; s++ {
			fmt.Fprintf(&chatter, "[ %4d.000000] crash[%d]: segfault at 0\n", s, s)
			if s == 40 && end == 160 {
				chatter.WriteString("[   40.000001] systemd[1]: Startup finished in 1.010s (kernel) + 38.990s (userspace) = 40.000s.\n")
			}
		}
		p := bootlog.New(&parse(t, boot+chatter.String())[0])
		if p.End != end || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, said) }) {
			t.Errorf("the chatty machine's boot ends at %v, want %v; warnings %q", p.End, end, p.Warnings)
		}
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

// What systemd 257 sends a console's terminal before its lines is no text.
func TestTerminalStrings(t *testing.T) {
	b := parse(t, eachLine(func(s, x string) string {
		return "\x1b[!p\x1b]104\a\x1b]3008;start=a;type=boot\x1b\\\x1bP+q544e\x1b\\[    " + s + "] " + x
	}))[0]
	if want := parse(t, boot)[0].Lines; !slices.Equal(b.Lines, want) {
		t.Errorf("the lines are %+v, want %+v", b.Lines, want)
	}
}

// The time of day at which somebody read a console's line is no line of its own.
func TestTimesOfReaders(t *testing.T) {
	want := parse(t, boot)[0].Lines
	for _, reader := range []string{"[01:12:05.123] ", "[2026-11-30 01:12:05.123] ", "Nov 30 01:12:05 ", "2026-11-30T01:12:05.1234567Z "} {
		b := parse(t, eachLine(func(s, x string) string { return reader + "[    " + s + "] " + x }))[0]
		if !slices.Equal(b.Lines, want) {
			t.Errorf("%q: the lines are %+v", reader, b.Lines)
		}
	}
}

// A program's line that looks like one of dmesg -e is no reason to refuse a boot.
func TestOneRelativeLine(t *testing.T) {
	if b := parse(t, boot+"[+1.500000] a program\n")[0]; b.End() != 2*time.Second {
		t.Errorf("the boot ends at %v", b.End())
	}
}

// The words of old kernels, and a device whose name has a blank.
func TestOldKernel(t *testing.T) {
	boots := parse(t, `[    0.000000] Linux version 2.6.27
[    0.100000] calling  bdi_class_init+0x0/0x54 @ 1
[    0.130000] initcall bdi_class_init+0x0/0x54 returned 0 after 30 msecs
[    0.200000] checking if image is initramfs... it is
[    0.300000] probe of Fixed MDIO bus.0 returned 1 after 12 usecs
[    0.500000] Freeing initrd memory: 2000k freed
[    1.000000] Freeing init memory: 140K
`)
	p := bootlog.New(&boots[0])
	if len(p.Initcalls) != 1 || !p.Initcalls[0].Complete || p.Initcalls[0].Took != 30*time.Millisecond || p.Initcalls[0].Start != 100*time.Millisecond {
		t.Errorf("initcalls are %+v", p.Initcalls)
	}
	if len(p.Probes) != 1 || p.Probes[0].Device != "Fixed MDIO bus.0" {
		t.Errorf("probes are %+v", p.Probes)
	}
	if at, ok := p.Reached(bootlog.MarkKernel); !ok || at != time.Second || !p.Phases[4].Found || p.Initramfs == nil {
		t.Errorf("the kernel is up at %v (%v); phases %+v, initramfs %+v", at, ok, p.Phases, p.Initramfs)
	}
}

// dmesg of util-linux 2.41 names the caller behind a time of day, too.
func TestCallerBehindTimeOfDay(t *testing.T) {
	for _, stamp := range []string{"[Mon Nov 30 01:12:41 2026] ", "2026-11-30T01:12:41,123456+00:00 "} {
		boots := parse(t, eachLine(func(_, x string) string { return stamp + "[      T1] " + x }))
		if b := boots[0]; len(boots) != 1 || b.Kernel != "6.1.0-56-cloud-amd64" || b.Lines[2].Text != "ACPI: RSDP 0x00000000000F5960" {
			t.Errorf("%s: %d boots, kernel %q, %q", stamp, len(boots), b.Kernel, b.Lines[2].Text)
		}
	}
}
