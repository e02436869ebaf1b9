package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/vmm"
)

// TestMain lets this binary stand in for StratoVirt, where it is called by that
// name: what it does is the name of the directory that it is called from.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "stratovirt" {
		if err := standIn(filepath.Base(filepath.Dir(os.Args[0])), os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// machineAt is a machine of the stand-in that behaves so.
func machineAt(t *testing.T, lab driver.Lab, behaviour string) (*Driver, string) {
	return typeAt(t, lab, "stratovirt/microvm", behaviour)
}

// typeAt is the same of another machine type.
func typeAt(t *testing.T, lab driver.Lab, name, behaviour string) (*Driver, string) {
	v, ok := vmm.ByName(name)
	if !ok {
		t.Skip("StratoVirt is not for this architecture")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), behaviour)
	path := filepath.Join(dir, "stratovirt")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Symlink(self, path)); err != nil {
		t.Fatal(err)
	}
	return New(lab, v), path
}

// boot runs a payload in the stand-in, and gives how it went, and the marks.
func boot(t *testing.T, lab driver.Lab, behaviour string) (driver.Exit, string, []driver.Phase, error) {
	d, path := machineAt(t, lab, behaviour)
	return bootOn(t, d, path)
}

// bootOn is the same on a machine.
func bootOn(t *testing.T, d *Driver, path string) (driver.Exit, string, []driver.Phase, error) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	spec := driver.Spec{ID: "tare-faults", Args: []string{"/bin/echo", "hello"}, Env: []string{"A=b"}, Stdio: driver.Stdio{Stdout: out, Stderr: out}}
	m := vmm.Machine{Kernel: vmm.Kernel{Path: "/kernel"}, Initrd: "/initrd.cpio", Append: []string{"loglevel=6"}, CPUs: 1, Memory: 256 << 20, Accel: vmm.KVM, Agent: true, Firmware: "/firmware"}
	inst, err := newInstance(t.Context(), d, path, m, spec, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var phases []driver.Phase
	marks := make(chan driver.Phase, 64)
	err = inst.Start(t.Context(), func(p driver.Phase) { marks <- p })
	var exit driver.Exit
	if err == nil {
		exit, err = inst.Wait(t.Context())
	}
	if own := exit.Clock; err == nil && (own["guest-kernel"] != 1500*time.Millisecond || own["guest-agent"] != 1750*time.Millisecond || own["guest-executed"]-own["guest-asked"] != 2*time.Millisecond) {
		t.Errorf("by the guest's own clock: %v", own)
	}
	if cerr := inst.Close(); cerr != nil {
		t.Errorf("close: %v", cerr)
	}
	close(marks)
	for p := range marks {
		phases = append(phases, p)
	}
	said, rerr := os.ReadFile(out.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return exit, string(said), phases, err
}

// TestStratoVirtStandIn checks the command line of a KVM-only VMM, its control
// channel and the whole conversation with a guest, on machines without KVM.
func TestStratoVirtStandIn(t *testing.T) {
	lab := drivertest.New(t)
	for _, v := range vmm.VMMs() {
		if v.Binary != "stratovirt" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			d, path := typeAt(t, lab, v.Name, "works")
			exit, said, phases, err := bootOn(t, d, path)
			if err != nil || exit.Code != 7 || said != "/bin/echo hello\n" {
				t.Fatalf("exit %+v, output %q, error %v; want code 7 and the arguments", exit, said, err)
			}
			for _, want := range []driver.Phase{"vmm", "vmm-ready", "kernel-byte", "kernel", "init", "agent", driver.PhaseExit, driver.PhaseOff} {
				if !slices.Contains(phases, want) {
					t.Errorf("marks %q lack %q", phases, want)
				}
			}
		})
	}
}

// TestFaults sees that each way to fail is told as what it is.
func TestFaults(t *testing.T) {
	patience := vmm.DefaultPatience
	vmm.DefaultPatience = map[vmm.Mark]time.Duration{
		vmm.MarkReady: 30 * time.Second, vmm.MarkFirstByte: 30 * time.Second, vmm.MarkKernel: 30 * time.Second,
		vmm.MarkInit: 1500 * time.Millisecond, vmm.MarkAgent: 1500 * time.Millisecond,
	}
	t.Cleanup(func() { vmm.DefaultPatience = patience })
	lab := drivertest.New(t)
	for behaviour, wants := range map[string][]string{
		"nonsense":     {"stratovirt/microvm: QMP", "hello, who is there?"},
		"refuses":      {"qmp_capabilities: CommandNotFound: too many requests"},
		"dies":         {"exit code 3", "out of luck", `last mark was`},
		"hangs":        {"the guest hangs", `no "init" came within 1.5s`, "Linux version 6.1.0-stand-in"},
		"no-agent":     {"the guest hangs", `no "agent" came within 1.5s`, "tare: init"},
		"no-virtio":    {"the guest ended before its payload", "tare: no channel to the host: tty:/dev/hvc0"},
		"babbles":      {"no agent's"},
		"panics":       {"the guest's kernel panicked: Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)", "No filesystem could mount root"},
		"panics-on":    {"Kernel panic - not syncing: Fatal exception", "the VMM went on after the kernel's panic"},
		"backwards":    {`the agent's clock says "2 1"`},
		"before-asked": {`the agent's clock says "1800000000 1700000000"`},
		"too-much":     {"frame of a guest's agent has more than 65536 bytes"},
		"refused":      {"the guest could not run the payload: /bin/echo: Exec format error"},
	} {
		t.Run(behaviour, func(t *testing.T) {
			_, _, _, err := boot(t, lab, behaviour)
			if err == nil {
				t.Fatal("it ended well")
			}
			for _, want := range wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
			if driver.IsLab(err) {
				t.Errorf("the laboratory is blamed: %v", err)
			}
		})
	}
}

// TestSerialFlood lets a guest print 64 MiB, without the end of a line, before its agent
// speaks.
func TestSerialFlood(t *testing.T) {
	exit, said, _, err := boot(t, drivertest.New(t), "floods")
	if err != nil || exit.Code != 7 || said != "/bin/echo hello\n" {
		t.Fatalf("exit %+v, output %q, error %v", exit, said, err)
	}
}

// TestInterruptedBoots gives up 20 boots at once, as Ctrl-C does, half of them before
// their VMM is ready: every one ends at once, and leaves no VMM and no socket.
func TestInterruptedBoots(t *testing.T) {
	const boots = 20
	lab := drivertest.New(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	m := vmm.Machine{Kernel: vmm.Kernel{Path: "/kernel"}, Initrd: "/initrd.cpio", CPUs: 1, Memory: 256 << 20, Accel: vmm.KVM, Agent: true}
	var all []driver.Instance
	var dirs []string
	up := make(chan struct{}, boots)
	for n := range boots {
		behaviour := []string{"hangs", "silent"}[n%2]
		d, path := machineAt(t, lab, behaviour)
		dir := t.TempDir()
		inst, err := newInstance(ctx, d, path, m, driver.Spec{ID: "tare-faults", Args: []string{"/x"}}, dir)
		if err != nil {
			t.Fatal(err)
		}
		all, dirs = append(all, inst), append(dirs, dir)
		seen := driver.Phase(map[string]vmm.Mark{"hangs": vmm.MarkKernel, "silent": vmm.MarkExec}[behaviour])
		if err := inst.Start(ctx, func(p driver.Phase) {
			if p == seen {
				up <- struct{}{}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range boots {
		<-up
	}
	interrupt()
	began := time.Now()
	for i, inst := range all {
		if _, err := inst.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("boot %d: %v", i, err)
		}
		pid := inst.Watch()[0].PID
		if err := inst.Close(); err != nil {
			t.Errorf("boot %d: %v", i, err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("boot %d: the VMM %d is there: %v", i, pid, err)
		}
		if left, err := os.ReadDir(dirs[i]); err != nil || len(left) > 0 {
			t.Errorf("boot %d left %v, %v", i, left, err)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("they took %v to end", took)
	}
}

// TestOneSocketPath gives two machines one directory: the second is refused, and the
// first has lost nothing by it, and boots. One VMM connects to tare's sockets, the
// other makes its own.
func TestOneSocketPath(t *testing.T) {
	lab := drivertest.New(t)
	qemu, ok := vmm.ByName("qemu/microvm")
	if !ok {
		t.Skip("qemu/microvm is not for this architecture")
	}
	strato, path := machineAt(t, lab, "works")
	initrd := filepath.Join(t.TempDir(), "initrd.cpio")
	must(t, os.WriteFile(initrd, nil, 0o600))
	m := vmm.Machine{Kernel: vmm.Kernel{Path: "/kernel"}, Initrd: initrd, CPUs: 1, Memory: 256 << 20, Accel: vmm.KVM, Agent: true}
	spec := driver.Spec{Args: []string{"/bin/echo", "hello"}}
	for name, c := range map[string]struct {
		driver *Driver
		path   string
		made   []string // that is there before the start
	}{
		"qemu/microvm":       {New(lab, qemu), "/bin/true", []string{"console", "initrd", "port", "qmp", "second"}},
		"stratovirt/microvm": {strato, path, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			one, err := newInstance(t.Context(), c.driver, c.path, m, spec, dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { must(t, one.Close()) }()
			_, err = newInstance(t.Context(), c.driver, c.path, m, spec, dir)
			if err == nil || !driver.IsLab(err) || !strings.Contains(err.Error(), dir+" of the machine: it is another machine's") {
				t.Errorf("two machines with one directory: %v", err)
			}
			for _, name := range c.made {
				if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
					t.Errorf("the first one's is gone: %v", err)
				}
			}
			if c.made != nil {
				return // what is no VMM boots nothing
			}
			must(t, one.Start(t.Context(), func(driver.Phase) {}))
			if exit, err := one.Wait(t.Context()); err != nil || exit.Code != 7 {
				t.Errorf("the first one's guest: %+v, %v", exit, err)
			}
		})
	}
}

// TestForeignSocket finds something where a VMM is to make its socket: it is not
// talked to, and stays.
func TestForeignSocket(t *testing.T) {
	d, path := machineAt(t, drivertest.New(t), "works")
	dir := t.TempDir()
	foreign := filepath.Join(dir, "qmp")
	must(t, os.WriteFile(foreign, nil, 0o600))
	_, err := newInstance(t.Context(), d, path, vmm.Machine{CPUs: 1, Memory: 256 << 20, Agent: true}, driver.Spec{Args: []string{"/x"}}, dir)
	if err == nil || !driver.IsLab(err) || !strings.Contains(err.Error(), foreign+" of the machine: address already in use") {
		t.Errorf("a socket that is another's: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v; want only what was there", left, err)
	}
}

// TestBadGuests asks for guests that cannot be.
func TestBadGuests(t *testing.T) {
	lab := drivertest.New(t)
	v, ok := vmm.ByName("qemu/microvm")
	if !ok {
		t.Skip("qemu/microvm is not for this architecture")
	}
	arm := make([]byte, 8192)
	copy(arm[56:], "ARM\x64")
	foreign, text := filepath.Join(t.TempDir(), "Image"), filepath.Join(t.TempDir(), "text")
	if err := errors.Join(os.WriteFile(foreign, arm, 0o644), os.WriteFile(text, []byte(strings.Repeat("no kernel ", 1000)), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kernel string
		spec   driver.Spec
		want   string
	}{
		"kernel of another architecture": {foreign, driver.Spec{}, "is for arm64"},
		"no kernel":                      {text, driver.Spec{}, `it is no kernel that tare knows: it begins with "no kerne"`},
		"no such kernel":                 {"/no/such/kernel", driver.Spec{}, "no such file"},
		"more memory than there is":      {"", driver.Spec{Limits: driver.Limits{Memory: 1 << 50}}, "does not fit into the host's"},
		"a mount":                        {"", driver.Spec{Mounts: []driver.Mount{{Source: "/tmp", Target: "/mnt"}}}, "shares no file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			lab := lab
			lab.Guest.Kernel = c.kernel
			c.spec.Args, c.spec.Rootfs = []string{"/x"}, lab.TestRootfs
			_, err := New(lab, v).machine(t.Context(), "/bin/true", c.spec, t.TempDir())
			var cannot *driver.CannotError
			if !errors.As(err, &cannot) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a CannotError with %q", err, c.want)
			}
		})
	}
}

// TestGuestDies lets a real guest panic in the middle of its payload, and kills
// a real VMM.
func TestGuestDies(t *testing.T) {
	lab := drivertest.New(t)
	v, ok := vmm.ByName("qemu/microvm")
	if !ok {
		t.Skip("qemu/microvm is not for this architecture")
	}
	for name, c := range map[string]struct {
		script string
		kill   bool
		wants  []string
	}{
		"panic": {"echo c >/proc/sysrq-trigger; sleep 60", false, []string{"Kernel panic - not syncing: sysrq triggered crash", `last mark was "agent"`, "the console ends:"}},
		"kill":  {"sleep 60", true, []string{"was killed by signal 9", `last mark was "agent"`, "tare: init"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := booted(t, New(lab, v), driver.Spec{ID: "tare-dies", Rootfs: lab.TestRootfs,
				Args: []string{"/bin/sh", "-c", c.script}, Env: []string{"PATH=/bin"}}, func(inst driver.Instance, p driver.Phase) {
				if c.kill && p == driver.Phase(vmm.MarkAgent) {
					_ = syscall.Kill(inst.Watch()[0].PID, syscall.SIGKILL)
				}
			})
			for _, want := range c.wants {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// booted runs a payload in a real guest, and once more where the guest stopped in
// its kernel, and says how it ended.
func booted(t *testing.T, d *Driver, spec driver.Spec, mark func(driver.Instance, driver.Phase)) (exit driver.Exit, err error) {
	err = vmm.Again(func(what string) { t.Log(what) }, func() error {
		inst, err := d.Prepare(t.Context(), spec, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err = inst.Start(t.Context(), func(p driver.Phase) { mark(inst, p) }); err == nil {
			exit, err = inst.Wait(t.Context())
		}
		if cerr := inst.Close(); cerr != nil {
			t.Error(cerr)
		}
		return err
	})
	return exit, err
}

// TestDiskRoot runs a payload whose root is a disk, because the user wants it
// or because the guest has no room for another: it sees the same files, and may
// write. Its agent tells its own moments.
func TestDiskRoot(t *testing.T) {
	lab := drivertest.New(t)
	v, ok := vmm.ByName("qemu/microvm")
	if !ok {
		t.Skip("qemu/microvm is not for this architecture")
	}
	lab.Guest.Disk = true
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := booted(t, New(lab, v), driver.Spec{ID: "tare-disk", Rootfs: lab.TestRootfs, Env: []string{"PATH=/bin"},
		Args: []string{"/bin/sh", "-c", "wc -c </data/pattern && echo new >/data/pattern && cat /data/pattern && grep -c overlay /proc/mounts"}, Stdio: driver.Stdio{Stdout: out, Stderr: out}}, func(driver.Instance, driver.Phase) {})
	said, rerr := os.ReadFile(out.Name())
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	if want := "1048569\nnew\n1\n"; string(said) != want {
		t.Errorf("it said %q, want %q", said, want)
	}
	own := exit.Clock
	moments := []time.Duration{own["guest-kernel"], own["guest-agent"], own["guest-asked"], own["guest-executed"]}
	if moments[0] <= 0 || !slices.IsSorted(moments) {
		t.Errorf("by the guest's own clock, its moments are %v", moments)
	}
}

// TestDirectDisk: a disk whose accesses are to pass page caches is opened past the
// host's where that can be, and the facts say what becomes of it.
func TestDirectDisk(t *testing.T) {
	lab := drivertest.New(t)
	file := filepath.Join(lab.RunDir, "probe")
	must(t, os.WriteFile(file, nil, 0o600))
	can := takesDirect(file)
	for _, v := range vmm.VMMs() {
		d := New(lab, v)
		for _, asked := range []bool{false, true} {
			var m vmm.Machine
			must(t, d.disk(t.Context(), driver.Spec{Disk: "/data", Direct: asked}, t.TempDir(), &guestKernel{}, &m))
			if len(m.Disks) != 1 || m.Disks[0].Direct != (asked && can) {
				t.Errorf("%s, asked %v where the file system can %v: %+v", v.Name, asked, can, m.Disks)
			}
		}
		if says, err := d.directIO(); err != nil || (says == "past the guest's and the host's page cache") != (can && v.Can(vmm.Uncached)) {
			t.Errorf("%s says %q, %v", v.Name, says, err)
		}
	}
	if left, err := os.ReadDir(lab.RunDir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	if takesDirect("/proc/self/comm") {
		t.Error("procfs is said to have O_DIRECT")
	}
}

// TestRoomForInitramfs sees a guest that is too small get a disk.
func TestRoomForInitramfs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "initramfs")
	if err := os.WriteFile(file, make([]byte, 10<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for memory, want := range map[int64]bool{512 << 20: true, 120 << 20: true, 119 << 20: false, 0: false} {
		if got, err := unpacks(file, memory); err != nil || got != want {
			t.Errorf("10 MiB in a guest of %d MiB: %v, %v; want %v", memory>>20, got, err, want)
		}
	}
}

// --- the stand-in ---

// standIn is the VMM.
func standIn(behaviour string, args []string) error {
	if err := commandLine(behaviour, args); err != nil {
		return err
	}
	sockets := map[string]net.Listener{}
	for _, name := range []string{"qmp", "console", "port"} {
		l, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		sockets[name] = l
	}
	port := make(chan net.Conn, 1)
	go func() {
		c, err := sockets["port"].Accept()
		if err == nil {
			port <- c
		}
	}()
	if behaviour == "silent" {
		time.Sleep(time.Minute)
	}
	console, err := sockets["console"].Accept()
	if err != nil {
		return err
	}
	if err := monitor(sockets["qmp"], behaviour); err != nil {
		return err
	}
	if behaviour == "dies" {
		return errors.New("out of luck")
	}
	kernel(console, behaviour)
	return guest(<-port, console, behaviour)
}

// commandLine checks what StratoVirt would refuse.
func commandLine(behaviour string, args []string) error {
	given := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		given[args[i]] += args[i+1] + "\n"
	}
	wants := map[string]string{
		"-smp": "1", "-m": "256M", "-kernel": "/kernel", "-initrd": ".cpio",
		"-qmp": "unix:qmp,server,nowait", "-serial": "socket,path=console,server,nowait",
		"-chardev": "socket,path=port,id=port,server,nowait", "-device": "virtconsole,id=agent,chardev=port,nr=0",
		"-append": "tare_channel=tty:/dev/hvc0",
	}
	switch given["-machine"] {
	case "microvm\n":
	case "q35\n", "virt\n":
		wants["-device"], wants["-append"] = "virtserialport,id=agent,chardev=port,nr=1", "tare_channel=dev:/dev/vport0p1"
		wants["-drive"] = "file=/firmware,if=pflash,unit=0,readonly=true"
	default:
		return fmt.Errorf("-machine is %q", given["-machine"])
	}
	if behaviour == "system" { // as many CPUs as the host has, firmware that is installed, and a disk to write to
		delete(wants, "-smp")
		wants["-drive"] = "/system.raw,readonly=off,direct=off"
		if !strings.Contains(given["-append"], "tare_system=ext4:/dev/vda ") {
			return fmt.Errorf("-append is %q: it names no system", given["-append"])
		}
	}
	for flag, want := range wants {
		if !strings.Contains(given[flag], want) {
			return fmt.Errorf("%s is %q, want %q", flag, given[flag], want)
		}
	}
	return nil
}

// monitor speaks QMP, up to the negotiation.
func monitor(l net.Listener, behaviour string) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	if behaviour == "nonsense" {
		fmt.Fprintln(c, `"hello, who is there?"`)
		time.Sleep(time.Minute)
	}
	fmt.Fprint(c, `{"QMP":{"version":{"qemu":{"micro":1,"minor":0,"major":5},"package":"StratoVirt-2.5.0"},"capabilities":[]}}`+"\r\n")
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, `"qmp_capabilities"`) {
		return fmt.Errorf("QMP began with %q: %w", line, err)
	}
	if behaviour == "refuses" {
		fmt.Fprintln(c, `{"error":{"class":"CommandNotFound","desc":"too many requests"}}`)
		time.Sleep(time.Minute)
	}
	_, err = fmt.Fprintln(c, `{"return":{}}`)
	return err
}

// kernel prints what a kernel does.
func kernel(console io.Writer, behaviour string) {
	fmt.Fprint(console, "\x1b[0m[    0.000000] Linux version 6.1.0-stand-in (nobody) #1\r\n")
	switch behaviour {
	case "hangs":
		time.Sleep(time.Minute)
	case "panics":
		fmt.Fprint(console, "[    1.0] No filesystem could mount root, tried: \r\n[    1.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r\n")
		os.Exit(0)
	case "no-user":
		fmt.Fprint(console, "[    1.000000] Run /.tare/init as init process\r\n[    1.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000004\r\n")
		time.Sleep(time.Minute)
	case "floods":
		noise := []byte(strings.Repeat("\x00\xff flood of letters without an end", 1024))
		for sent := 0; sent < 64<<20; sent += len(noise) {
			if _, err := console.Write(noise); err != nil {
				return
			}
		}
	}
	fmt.Fprint(console, "[    1.000000] Run /.tare/init as init process\r\ntare: init\n")
	if behaviour == "system" {
		fmt.Fprint(console, "[    1.2] systemd[1]: systemd 252 running in system mode\r\n[    1.3] systemd[1]: Reached target sysinit.target - System Initialization.\r\n",
			"[    1.4] systemd[1]: Startup finished in 1.5s (kernel) + 2min 1ms (userspace) = 2min 1.501s.\r\n")
	}
}

// guest is the agent.
func guest(c net.Conn, console io.Writer, behaviour string) error {
	a := &agent{conn: c, in: bufio.NewReader(c)}
	switch behaviour {
	case "no-agent":
		time.Sleep(time.Minute)
	case "no-virtio": // the agent has no device to talk over
		_, err := fmt.Fprint(console, "tare: channel tty:/dev/hvc0: No such device\r\ntare: no channel to the host: tty:/dev/hvc0: No such device\r\n")
		return err
	case "babbles":
		err := a.send('Z', []byte("what?"))
		time.Sleep(time.Second)
		return err
	case "too-much":
		_, err := c.Write([]byte{'H', 255, 255, 255, 255})
		time.Sleep(time.Second)
		return err
	}
	clock := "1500000000 1750000000"
	if behaviour == "backwards" {
		clock = "2 1"
	}
	if err := a.send(frameHello, []byte("1\ntty:/dev/hvc0\n"+clock)); err != nil {
		return err
	}
	kind, data, err := a.receive()
	if err != nil || kind != frameRun {
		return fmt.Errorf("want a request, got %q: %w", kind, err)
	}
	texts := strings.Split(string(data), "\x00") // helpers/init.c has their order
	switch behaviour {
	case "panics-on":
		fmt.Fprint(console, "Kernel panic - not syncing: Fatal exception\r\n")
		time.Sleep(time.Minute)
	case "refused":
		if err := a.send(frameFailed, []byte(texts[7]+": Exec format error")); err != nil {
			return err
		}
	}
	times := "1800000000 1802000000"
	if behaviour == "before-asked" {
		times = "1800000000 1700000000"
	}
	err = errors.Join(a.send(frameOutput, []byte(strings.Join(texts[7:9], " ")+"\n")), a.send(frameTimes, []byte(times)), a.send(frameExit, []byte{0, 7, 0, 0}))
	if err != nil {
		return err
	}
	_, _, err = a.receive()
	return err
}
