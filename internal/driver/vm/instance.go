package vm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// instance is one guest with its payload.
type instance struct {
	driver  *Driver
	spec    driver.Spec
	request []byte
	memory  int64                // of the guest as it is mapped, in bytes
	from    string               // the directory of the saved guest that it is restored from; "" for a boot
	off     time.Duration        // how long it may take to power off; one that takes longer is ended by Close
	seen    func(process string) // told of each process of a container host, in the end; nil for other guests
	vm      *vmm.VM
	input   *feeder
	stdout  outlet
	stderr  outlet
	mark    func(driver.Phase)

	clocks sync.Mutex // guards times
	times  map[string]time.Duration

	stop    func() bool
	talking sync.WaitGroup
	result  chan result
	once    sync.Once
	err     error
}

// result is how the payload went.
type result struct {
	exit driver.Exit
	err  error
}

func newInstance(ctx context.Context, d *Driver, path string, m vmm.Machine, spec driver.Spec, dir string) (driver.Instance, error) {
	b := Boot{Path: path, Machine: m, Spec: spec, Dir: dir, Off: offTime}
	if m.Accel == vmm.KVM && d.ownKernel() {
		b.Patience, b.Slow = ownKernelPatience, true
	}
	if d.lab.Guest.Rootfs != "" {
		b.Off, b.Patience = systemOff, SystemPatience
	}
	i, err := d.prepare(ctx, b, d.lab.Guest.Rootfs != "")
	if err != nil {
		return nil, err // not a nil *instance, which is no nil driver.Instance
	}
	return i, nil
}

func (i *instance) open(ctx context.Context, config vmm.Config) error {
	var err error
	if i.request, err = request(i.spec); err != nil {
		return err
	}
	if i.stdout.to, err = sys.Duplicate(i.spec.Stdio.Stdout); err != nil {
		return driver.Labf("standard output: %w", err)
	}
	if i.stderr.to, err = sys.Duplicate(i.spec.Stdio.Stderr); err != nil {
		return driver.Labf("standard error: %w", err)
	}
	if i.input, err = newFeeder(i.spec.Stdio.Stdin); err != nil {
		return driver.Labf("standard input: %w", err)
	}
	i.vm, err = vmm.New(ctx, config)
	return err
}

// Watch implements driver.Instance. The VMM is the payload's process on the
// host: the guest's memory is its memory.
func (i *instance) Watch() []driver.Watch {
	return []driver.Watch{{Role: driver.RolePayload, PID: i.vm.PID(), Cgroup: i.spec.Group(driver.RolePayload), GuestMemory: i.memory, Saved: i.from}}
}

// Start implements driver.Instance.
func (i *instance) Start(ctx context.Context, mark func(driver.Phase)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i.mark = mark
	if err := i.vm.Start(); err != nil {
		return err
	}
	i.stop = context.AfterFunc(ctx, i.kill)
	i.talking.Go(func() {
		exit, err := i.talk(ctx)
		i.stdout.close() // nobody else writes: who reads sees the end with the payload's
		i.stderr.close()
		i.result <- result{exit, err}
	})
	return nil
}

// kill ends the guest, whatever it does.
func (i *instance) kill() {
	_ = i.vm.Kill() // Close reports what does not die
	i.stdout.interrupt()
	i.stderr.interrupt()
}

// Wait implements driver.Instance.
func (i *instance) Wait(ctx context.Context) (driver.Exit, error) {
	stop := context.AfterFunc(ctx, i.kill)
	defer stop()
	r := <-i.result
	i.result <- r // for whoever waits again
	if r.err != nil {
		return driver.Exit{}, guestError(ctx, i.vm, r.err)
	}
	r.exit.Clock = i.clock()
	return r.exit, nil
}

// errEnded is that the VMM has ended before it should: the machine knows why.
var errEnded = errors.New("the guest ended before its payload")

// talk is the whole conversation with a guest.
func (i *instance) talk(ctx context.Context) (driver.Exit, error) {
	a, err := i.meet()
	if err != nil {
		return driver.Exit{}, err
	}
	i.vm.Marked(vmm.MarkAgent)
	if a.began > 0 && i.from == "" { // else they are of the guest that was saved
		i.note(map[string]time.Duration{sample.GuestKernel: a.began, sample.GuestAgent: a.hello})
	}
	if err := i.vm.Adjust(ctx); err != nil {
		return driver.Exit{}, err
	}
	if err := a.send(frameRun, i.request); err != nil {
		return driver.Exit{}, i.lost(err)
	}
	if i.input != nil {
		i.input.start(a)
	}
	exit, err := i.carry(a)
	if err != nil {
		return exit, i.lost(err)
	}
	i.mark(driver.PhaseExit)
	if i.seen != nil {
		if err := i.processes(a); err != nil {
			return exit, i.lost(err)
		}
	}
	return exit, i.powerOff(a)
}

// processes passes on which processes the agent has seen.
func (i *instance) processes(a *agent) error {
	for {
		kind, data, err := a.receive()
		if err != nil {
			return err
		}
		if kind != frameSeen {
			return fmt.Errorf("the agent sent a frame of kind %q in place of the processes", kind)
		}
		if len(data) == 0 {
			return nil
		}
		for line := range strings.Lines(string(data)) {
			i.seen(strings.TrimSuffix(line, "\n"))
		}
	}
}

// meet waits for the agent's hello on one of the channels.
func (i *instance) meet() (*agent, error) {
	type met struct {
		agent *agent
		err   error
	}
	found := make(chan met, 2) // as many as any machine has channels
	for {
		select {
		case conn := <-i.vm.Channels():
			i.talking.Go(func() {
				if i.from != "" {
					if err := wake(conn); err != nil {
						found <- met{nil, err}
						return
					}
				}
				a, err := greet(conn)
				found <- met{a, err}
			})
		case m := <-found:
			if m.err == nil {
				return m.agent, nil
			}
			if !isGone(m.err) {
				return nil, m.err
			} // the machine's end, or the channel that the agent did not take
		case err := <-i.vm.Failed():
			return nil, err
		case <-i.vm.Ended():
			return nil, errEnded
		}
	}
}

// carry passes the payload's streams on until it has ended. A machine that
// fails meanwhile ends the conversation.
func (i *instance) carry(a *agent) (driver.Exit, error) {
	done := make(chan struct{})
	defer close(done)
	failed := make(chan error, 1)
	i.talking.Go(func() {
		select {
		case err := <-i.vm.Failed():
			failed <- err
			_ = a.conn.SetReadDeadline(time.Now())
		case <-done:
		}
	})
	for {
		kind, data, err := a.receive()
		if err != nil {
			select {
			case err = <-failed:
			default:
			}
			return driver.Exit{}, err
		}
		switch kind {
		case frameOutput:
			err = i.stdout.write(data)
		case frameErrors:
			err = i.stderr.write(data)
		case frameWindow:
			i.grant(data)
		case frameTimes:
			err = i.started(string(data))
		case frameFailed:
			return driver.Exit{}, &refusedError{string(data)}
		case frameExit:
			return exitOf(data)
		default:
			err = fmt.Errorf("the agent sent a frame of unknown kind %q", kind)
		}
		if err != nil {
			return driver.Exit{}, err
		}
	}
}

// started takes what the agent says of the payload's start, by the guest's own clock.
func (i *instance) started(text string) error {
	var asked, executed time.Duration
	if _, err := fmt.Sscan(text, (*int64)(&asked), (*int64)(&executed)); err != nil || asked < 0 || executed < asked {
		return fmt.Errorf("the agent's clock says %.60q", text)
	}
	i.note(map[string]time.Duration{sample.GuestAsked: asked, sample.GuestExecuted: executed})
	return nil
}

// note keeps times by the guest's own clock.
func (i *instance) note(times map[string]time.Duration) {
	i.clocks.Lock()
	defer i.clocks.Unlock()
	if i.times == nil {
		i.times = map[string]time.Duration{}
	}
	maps.Copy(i.times, times)
}

// clock is all that the guest's own clock has told.
func (i *instance) clock() map[string]time.Duration {
	i.clocks.Lock()
	defer i.clocks.Unlock()
	return maps.Clone(i.times)
}

// refusedError is the agent's word that the payload could not be run.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return "the guest could not run the payload: " + e.why }

func (i *instance) grant(data []byte) {
	if i.input == nil || len(data) != 4 {
		return
	}
	select {
	case i.input.room <- binary.LittleEndian.Uint32(data):
	default: // the agent grants only after all was used
	}
}

// offTime is how long a guest may take whose agent is its first process.
const offTime = 5 * time.Second

// powerOff asks for the end and waits for it: its mark belongs to the trial.
func (i *instance) powerOff(a *agent) error {
	if err := a.send(frameQuit, nil); err != nil && !isGone(err) {
		return err
	}
	select {
	case <-i.vm.Ended():
		i.vm.Settle() // the console's last lines hold what systemd says of its start
	case <-time.After(i.off):
	}
	return nil
}

// lost turns the end of a conversation into the machine's end, which it mostly
// is.
func (i *instance) lost(err error) error {
	if !isGone(err) {
		return err
	}
	select {
	case <-i.vm.Ended():
	case <-time.After(i.off):
	}
	return errEnded
}

// Close implements driver.Instance.
func (i *instance) Close() error {
	i.once.Do(func() { i.err = i.close() })
	return i.err
}

func (i *instance) close() error {
	if i.stop != nil {
		i.stop()
	}
	var errs []error
	i.stdout.interrupt()
	i.stderr.interrupt()
	if i.vm != nil {
		errs = append(errs, i.vm.Close())
	}
	i.talking.Wait()
	i.input.close()
	i.stdout.close()
	i.stderr.close()
	if i.spec.Cgroup != "" {
		errs = append(errs, sys.KillCgroup(i.spec.Cgroup))
	}
	return errors.Join(errs...)
}

func isGone(err error) bool {
	return errors.Is(err, net.ErrClosed) || vmm.Gone(err)
}
