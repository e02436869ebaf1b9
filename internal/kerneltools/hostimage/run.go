package hostimage

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/kerneltools/containerhost"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// Start says how a disk is started on this machine.
type Start struct {
	Disk     string
	Program  string    // QEMU's
	Accel    vmm.Accel // that is known to work here
	CPUs     int
	Memory   int64     // bytes
	Port     int       // of 127.0.0.1, at which the guest's SSH answers; 0: a free one
	Keys     []string  // texts of files with public keys, for a guest that takes them
	Snapshot bool      // what is written is lost
	Abrupt   bool      // it is killed when ctx ends, and not asked to switch off
	Console  io.Writer // the serial console's output; nil: nowhere
	// Ready is told once SSH has answered.
	Ready func(Up)
}

// Up is a machine whose SSH has answered.
type Up struct {
	Port int           // of 127.0.0.1
	Took time.Duration // from QEMU's start
	PID  int           // QEMU's
}

// offTime is how long a guest may take to switch itself off when it is asked to.
const offTime = 90 * time.Second

// readyPoll is the time between two looks at the guest's port.
const readyPoll = 200 * time.Millisecond

// Run starts a disk on QEMU and returns when the machine is off. When ctx ends, the
// guest is asked to switch off, and killed where it does not in time.
func Run(ctx context.Context, place driver.Lab, s Start) (err error) {
	m, err := s.machine()
	if err != nil {
		return err
	}
	q35, ok := vmm.ByName(vmm.QEMUQ35)
	if !ok {
		return &driver.CannotError{Target: "trim image run", Lacks: "its machine is a PC, and this one has another CPU"}
	}
	dir, err := os.MkdirTemp(place.RunDir, driver.Label+"-image-")
	if err != nil {
		return driver.Labf("directory of the machine: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	show, flush := s.print()
	defer flush()
	vm, err := vmm.New(ctx, vmm.Config{
		VMM: q35, Path: s.Program, Machine: m, Dir: dir, Launcher: place.LaunchPath,
		Mark: func(vmm.Mark) {}, Line: show, Patience: map[vmm.Mark]time.Duration{vmm.MarkFirstByte: endless, vmm.MarkKernel: endless, vmm.MarkInit: endless},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vm.Close()) }()
	began := time.Now() // for people
	if err := vm.Start(); err != nil {
		return err
	}
	up, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if answers(up, m.Alone.SSH) && s.Ready != nil {
			s.Ready(Up{Port: m.Alone.SSH, Took: time.Since(began), PID: vm.PID()})
		}
	}()
	return s.end(ctx, vm)
}

// endless is for marks that a quiet kernel does not give: people see whether it boots.
const endless = time.Duration(math.MaxInt64)

// machine is the virtual one. The disk boots by itself, so that nothing but it is needed.
func (s Start) machine() (m vmm.Machine, err error) {
	m = vmm.Machine{CPUs: s.CPUs, Memory: s.Memory, Accel: s.Accel, Translations: containerhost.Translations,
		Disks: []vmm.Disk{{Path: s.Disk, Own: !s.Snapshot}}, Alone: &vmm.Alone{}}
	if m.Disks[0].Qcow2, err = inspect(s.Disk); err != nil {
		return m, &lab.InputError{Err: err}
	}
	if m.Alone.SSH, err = s.port(); err != nil {
		return m, &lab.InputError{Err: err}
	}
	if len(s.Keys) == 0 {
		return m, nil
	}
	keys, err := authorized(s.Keys)
	if err != nil {
		return m, &lab.InputError{Err: err}
	}
	m.Alone.Strings = []string{"io.systemd.credential.binary:ssh.authorized_keys.root=" + base64.StdEncoding.EncodeToString([]byte(keys))}
	return m, nil
}

// Lines of the console that may wait for their reader, and how long the end waits for them.
// What a reader is too slow for is left out: the machine must not stand still for a pager.
const (
	waitingLines = 10_000
	lastLines    = time.Second
)

// print shows the console's lines, until whoever reads them has stopped; show is nil for
// nobody. flush ends it.
func (s Start) print() (show func(string), flush func()) {
	if s.Console == nil {
		return nil, func() {}
	}
	lines, done := make(chan string, waitingLines), make(chan struct{})
	go func() {
		defer close(done)
		for line := range lines {
			if _, err := io.WriteString(s.Console, line+"\n"); err != nil {
				return
			}
		}
	}()
	return func(line string) {
			select {
			case lines <- line:
			default:
			}
		}, func() {
			close(lines)
			select {
			case <-done:
			case <-time.After(lastLines):
			}
		}
}

// port is that of the host: the one that is asked for, where it is free, or a free one.
func (s Start) port() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
	if err != nil {
		return 0, fmt.Errorf("--port %d: %w", s.Port, err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !ok {
		return 0, fmt.Errorf("--port %d: %w", s.Port, err)
	}
	return at.Port, nil
}

// end waits for the machine's end, and brings it about when ctx ends.
func (s Start) end(ctx context.Context, vm *vmm.VM) error {
	select {
	case <-vm.Ended():
		return vm.Died()
	case err := <-vm.Failed():
		return vm.Explain(err)
	case <-ctx.Done():
	}
	if s.Abrupt {
		return ctx.Err() // Close kills it
	}
	if err := vm.PowerDown(); err != nil {
		return errors.Join(ctx.Err(), driver.Labf("the guest was killed: %w", err))
	}
	select {
	case <-vm.Ended():
		return errors.Join(ctx.Err(), vm.Died())
	case <-time.After(offTime):
		return errors.Join(ctx.Err(), driver.Labf("the guest had not switched itself off after %v, and was killed", offTime))
	}
}

// answers waits until an SSH server has greeted at a port, and reports whether it did
// before ctx ended. QEMU takes connections itself long before.
func answers(ctx context.Context, port int) bool {
	for ctx.Err() == nil {
		if greets(ctx, port) {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyPoll):
		}
	}
	return false
}

func greets(ctx context.Context, port int) bool {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(5*time.Second)) != nil {
		return false
	}
	line, err := bufio.NewReader(io.LimitReader(c, 256)).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "SSH-2.0-")
}

// A GPT's signature, and where it is on a disk.
const (
	gptMagic = "EFI PART"
	gptAt    = 512
)

// inspect reports whether a disk's file is qcow2, or else raw. A disk is somebody else's:
// one that names other files of this machine would show them to its guest, and is
// refused.
func inspect(disk string) (qcow2 bool, err error) {
	info, err := os.Stat(disk)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file", disk)
	}
	if qcow2, err = vmm.IsQcow2(disk); err == nil && !qcow2 {
		err = hasGPT(disk)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", filepath.Base(disk), err)
	}
	return qcow2, nil
}

// hasGPT refuses what is not a raw disk with a GPT.
func hasGPT(disk string) error {
	f, err := os.Open(disk)
	if err != nil {
		return err
	}
	defer f.Close()
	magic := make([]byte, len(gptMagic))
	if _, err := f.ReadAt(magic, gptAt); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(magic) != gptMagic {
		return errors.New("neither qcow2 nor a raw disk with a GPT; qemu-img convert -O qcow2 makes one of others")
	}
	return nil
}
