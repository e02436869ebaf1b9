package vmm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// ioThread is the name of the thread that serves the disks.
const ioThread = "disks"

// plugBackend is QEMU's name of memory that is added.
const plugBackend = "added"

// shareTag is the name by which a guest mounts the directory that it shares.
const shareTag = "tare"

// vhost is the part of a link's option that has the host's kernel move its packets.
func vhost(m Machine) string {
	if m.Devices.Vhost {
		return ",vhost=on"
	}
	return ""
}

// slots is the part of QEMU's option -m that leaves room for memory to be added.
func slots(m Machine) string {
	if m.Devices.Hotplug == 0 {
		return ""
	}
	return fmt.Sprintf(",slots=1,maxmem=%dM", mebibytes(m.Memory)+mebibytes(m.Devices.Hotplug))
}

// help starts a program that serves a device, on a socket that is its standard input: one
// that made its socket itself would leave a lock file behind. says takes what it prints.
func (v *VM) help(ctx context.Context, h helper, says *os.File) error {
	at := plug{socket: h.socket}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: v.address(at), Net: "unix"})
	if err != nil {
		return driver.Labf("socket %s of the machine: %w", filepath.Join(v.config.Dir, h.socket), err)
	}
	v.made = append(v.made, h.socket)
	l.SetUnlinkOnClose(false)
	socket, err := l.File()
	if err = errors.Join(err, l.Close()); err != nil {
		return driver.Labf("socket %s of the machine: %w", filepath.Join(v.config.Dir, h.socket), err)
	}
	defer socket.Close()
	p, err := launch.New(ctx, launch.Config{
		Launcher: v.config.Launcher, Args: h.args, Env: programEnvironment, Cgroup: v.config.Cgroup,
		Stdio: driver.Stdio{Stdin: socket, Stdout: says, Stderr: says}, Pre: []launch.Step{launch.Chdir(v.config.Dir)},
	})
	if err != nil {
		return err
	}
	v.helpers = append(v.helpers, p)
	return p.Go()
}

// programEnvironment is what a VMM and its helpers see.
var programEnvironment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}

// adjustPatience is how long a guest may take to give up memory, or to take it.
const adjustPatience = 30 * time.Second

// adjustPause is the time between two questions how far it is: StratoVirt takes a
// hundred a second.
const adjustPause = 15 * time.Millisecond

// Adjust takes memory from the guest and adds some, as Machine.Devices asks. The guest's
// agent runs, and nothing else. What it did is marked.
func (v *VM) Adjust(ctx context.Context) error {
	d := v.config.Machine.Devices
	if d.Balloon == 0 && d.Hotplug == 0 {
		return nil
	}
	if v.plan.adjust == nil {
		return fmt.Errorf("%s: its guest's memory cannot be changed", v.config.VMM.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, adjustPatience)
	defer cancel()
	go func() {
		select {
		case <-v.ended: // nobody will answer
			cancel()
		case <-ctx.Done():
		}
	}()
	ctl, err := v.answering(ctx)
	if err == nil {
		err = v.plan.adjust(ctx, ctl, v.config.Machine, v.mark)
	}
	if err != nil {
		return fmt.Errorf("change the guest's memory: %w", err)
	}
	return nil
}

// answering is the control channel, once it answers: an agent may be ready before it.
func (v *VM) answering(ctx context.Context) (control, error) {
	for {
		v.mu.Lock()
		ctl := v.watched
		v.mu.Unlock()
		if ctl != nil {
			return ctl, nil
		}
		select {
		case <-time.After(adjustPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("the VMM's control channel does not answer: %w", ctx.Err())
		}
	}
}

// adjustQMP is Adjust by QMP.
func adjustQMP(ctx context.Context, c control, m Machine, mark func(Mark)) error {
	q := c.(*qmp)
	q.asking.Store(true)
	defer q.asking.Store(false)
	if b := m.Devices.Balloon; b > 0 {
		if err := q.inflate(ctx, m.Mapped()-mebibytes(b)<<20); err != nil {
			return err
		}
		mark(MarkBallooned)
	}
	if p := m.Devices.Hotplug; p > 0 {
		if err := q.plug(ctx, mebibytes(p)<<20, m.Devices.HugePages); err != nil {
			return err
		}
		mark(MarkPlugged)
	}
	return nil
}

// inflate has the guest give up memory until it has no more than so many bytes.
func (q *qmp) inflate(ctx context.Context, left int64) error {
	if _, err := q.ask(ctx, "balloon", map[string]int64{"value": left}); err != nil {
		return err
	}
	for {
		answer, err := q.ask(ctx, "query-balloon", nil)
		if err != nil {
			return err
		}
		if answer.Return.Actual <= left {
			return nil
		}
		select {
		case <-time.After(adjustPause):
		case <-ctx.Done():
			return fmt.Errorf("balloon: the guest has %d MiB and was to give up all but %d: %w", answer.Return.Actual>>20, left>>20, ctx.Err())
		}
	}
}

// plug adds memory, and waits until the guest has it: ACPI's event has the guest's word.
func (q *qmp) plug(ctx context.Context, bytes int64, huge bool) error {
	backend := map[string]any{"qom-type": "memory-backend-ram", "id": plugBackend, "size": bytes}
	if huge {
		backend["qom-type"], backend["hugetlb"] = "memory-backend-memfd", true
		backend["hugetlbsize"] = driver.HugePage // the host's default may be another
	}
	if _, err := q.ask(ctx, "object-add", backend); err != nil {
		return err
	}
	if _, err := q.ask(ctx, "device_add", map[string]string{"driver": "pc-dimm", "id": "dimm", "memdev": plugBackend}); err != nil {
		return err
	}
	for {
		select {
		case m := <-q.heard:
			if m.Event != "ACPI_DEVICE_OST" {
				continue
			}
			if m.Data.Info.Status != 0 {
				return fmt.Errorf("hotplug: the guest did not take the memory (ACPI's status %d)", m.Data.Info.Status)
			}
			return nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("hotplug: %w", ctx.Err())
			}
			return errors.Join(errors.New("hotplug: the guest did not report that it has the memory (its kernel needs CONFIG_ACPI_HOTPLUG_MEMORY)"), ctx.Err())
		}
	}
}
