package hostimage

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
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
	Port   int           // of 127.0.0.1
	Took   time.Duration // from QEMU's start
	Memory int64         // QEMU's peak so far, in bytes; 0 where it cannot be read
}

// offTime is how long a guest may take to switch itself off when it is asked to.
const offTime = 90 * time.Second

// readyPoll is the time between two looks at the guest's port.
const readyPoll = 200 * time.Millisecond

// Run starts a disk on QEMU and returns when the machine is off. When ctx ends, the
// guest is asked to switch off, and killed where it does not in time.
func Run(ctx context.Context, s Start) error {
	format, err := inspect(s.Disk)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	port, err := s.port()
	if err != nil {
		return &lab.InputError{Err: err}
	}
	args, err := s.arguments(format, port)
	if err != nil {
		return &lab.InputError{Err: err}
	}
	began := time.Now() // for people
	q, err := startQEMU(s, args)
	if err != nil {
		return err
	}
	up, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if answers(up, port) && s.Ready != nil {
			s.Ready(Up{Port: port, Took: time.Since(began), Memory: peakMemory(q.cmd.Process.Pid)})
		}
	}()
	return q.end(ctx, s.Abrupt)
}

// peakMemory is the most that a process has had resident, in bytes.
func peakMemory(pid int) int64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0
	}
	return int64(status.VmHWM)
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

// arguments are QEMU's. The disk boots by itself, so that nothing but it is needed.
func (s Start) arguments(format string, port int) ([]string, error) {
	cpu := "host"
	accel := "kvm"
	if s.Accel == vmm.TCG {
		cpu, accel = "max", "tcg,thread=multi"
	}
	disk := "if=none,id=root,file=" + strings.ReplaceAll(s.Disk, ",", ",,") + ",format=" + format
	if s.Snapshot {
		disk += ",snapshot=on"
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(s.CPUs), "-m", strconv.FormatInt(s.Memory>>20, 10) + "M",
		"-drive", disk, "-device", "virtio-blk-pci,drive=root",
		"-netdev", fmt.Sprintf("user,id=net0,hostfwd=tcp:127.0.0.1:%d-:22", port), "-device", "virtio-net-pci,netdev=net0,romfile=",
		"-device", "virtio-rng-pci", "-monitor", "stdio", "-serial", "file:/proc/self/fd/3",
	}
	if len(s.Keys) == 0 {
		return args, nil
	}
	keys, err := authorized(s.Keys)
	if err != nil {
		return nil, err
	}
	credential := "io.systemd.credential.binary:ssh.authorized_keys.root=" + base64.StdEncoding.EncodeToString([]byte(keys))
	return append(args, "-smbios", "type=11,value="+strings.ReplaceAll(credential, ",", ",,")), nil
}

// qemu is a QEMU that runs, and its monitor.
type qemu struct {
	cmd     *exec.Cmd
	monitor io.WriteCloser
	words   *tail         // of its standard error
	printed chan struct{} // closed when the console has ended
}

// tail keeps the end of what is written to it.
type tail struct{ last []byte }

// mostWords is how much a tail keeps, in bytes.
const mostWords = 500

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	t.last = append([]byte(nil), t.last[max(0, len(t.last)-mostWords):]...)
	return len(p), nil
}

func startQEMU(s Start, args []string) (*qemu, error) {
	console, write, err := os.Pipe()
	if err != nil {
		return nil, driver.Labf("console: %w", err)
	}
	defer write.Close()
	q := &qemu{cmd: exec.Command(s.Program, args...), words: &tail{}, printed: make(chan struct{})} // it is asked to end, see end
	q.cmd.Stderr, q.cmd.ExtraFiles = q.words, []*os.File{write}
	q.cmd.SysProcAttr = apart()
	sys.EndsWithUs(q.cmd)
	if q.monitor, err = q.cmd.StdinPipe(); err == nil {
		err = q.cmd.Start()
	}
	if err != nil {
		console.Close()
		return nil, driver.Labf("%s: %w", s.Program, err)
	}
	go func() {
		defer close(q.printed)
		defer console.Close()
		to := s.Console
		if to == nil {
			to = io.Discard
		}
		_, _ = io.Copy(to, console) // to the machine's end, whoever has stopped reading
		_, _ = io.Copy(io.Discard, console)
	}()
	return q, nil
}

// end waits for the machine's end, and brings it about when ctx ends.
func (q *qemu) end(ctx context.Context, abrupt bool) error {
	ended := make(chan error, 1)
	go func() { ended <- q.cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		if abrupt {
			kerr := q.cmd.Process.Kill()
			<-ended
			<-q.printed
			return errors.Join(ctx.Err(), kerr)
		}
		_, merr := io.WriteString(q.monitor, "system_powerdown\n")
		select {
		case err = <-ended:
		case <-time.After(offTime):
			err = errors.Join(merr, driver.Labf("the guest had not switched itself off after %v, and was killed", offTime), q.cmd.Process.Kill())
			<-ended
		}
	}
	<-q.printed
	if err != nil {
		return errors.Join(ctx.Err(), driver.Labf("QEMU: %w: %s", err, bytes.TrimSpace(q.words.last)))
	}
	return ctx.Err()
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

// What the first sectors of disks hold: qcow2's magic, the places of its version,
// backing file and features (docs/interop/qcow2.txt in QEMU), and a GPT's signature.
const (
	qcowMagic    = "QFI\xfb"
	qcowVersion  = 4
	qcowBacking  = 8
	qcowFeatures = 72
	qcowData     = 1 << 2 // an external data file
	gptMagic     = "EFI PART"
	gptAt        = 512
)

// inspect says of a disk's file whether it is qcow2 or raw. A disk is somebody else's:
// one that names other files of this machine would show them to its guest, and is
// refused.
func inspect(disk string) (string, error) {
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hang it
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", disk)
	}
	head := make([]byte, gptAt+len(gptMagic))
	if _, err := io.ReadFull(f, head); err != nil {
		return "", fmt.Errorf("%s is too short for a disk: %w", disk, err)
	}
	format, err := formatOf(head)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(disk), err)
	}
	return format, nil
}

// formatOf reads the first sectors of a disk.
func formatOf(head []byte) (string, error) {
	big := binary.BigEndian
	switch {
	case len(head) < gptAt+len(gptMagic):
		return "", errors.New("too short for a disk")
	case string(head[gptAt:gptAt+len(gptMagic)]) == gptMagic && string(head[:4]) != qcowMagic:
		return "raw", nil
	case string(head[:4]) != qcowMagic:
		return "", errors.New("neither qcow2 nor a raw disk with a GPT; qemu-img convert -O qcow2 makes one of others")
	case big.Uint32(head[qcowVersion:]) < 2 || big.Uint32(head[qcowVersion:]) > 3:
		return "", fmt.Errorf("qcow2 of version %d; 2 and 3 are known", big.Uint32(head[qcowVersion:]))
	case big.Uint64(head[qcowBacking:]) != 0:
		return "", errors.New("it names another file that it is based on; qemu-img convert makes one of both")
	case big.Uint32(head[qcowVersion:]) == 3 && big.Uint64(head[qcowFeatures:])&qcowData != 0:
		return "", errors.New("its data is in another file, which it names; qemu-img convert makes one of both")
	}
	return "qcow2", nil
}
