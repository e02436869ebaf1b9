package vmm

import (
	"slices"
	"time"
)

// order is that of the marks that the watchdog waits for.
var order = []Mark{MarkReady, MarkRestored, MarkFirstByte, MarkKernel, MarkInit, MarkAgent}

// mark passes a mark on, once, and gives the next one its time.
func (v *VM) mark(m Mark) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[m] {
		return
	}
	v.config.Mark(m)
	v.seen[m] = true
	if m != MarkPoweredOff && m != MarkPanicked { // the ends of a machine, which say nothing of where it was
		v.last = m
	}
	if v.watchdog != nil {
		v.watchdog.Stop()
	}
	v.awaited = ""
	for i, next := range order {
		if v.seen[next] || !v.awaits(next) || v.overtaken(i) {
			continue
		}
		if i > 0 && m == MarkPoweredOff {
			return
		}
		after := v.patience(next)
		v.awaited = next
		v.watchdog = time.AfterFunc(after, func() {
			v.fail(&HangError{After: m, Awaited: next, For: after})
		})
		return
	}
}

// stir gives a kernel that has printed a line its time for the first process anew.
func (v *VM) stir() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.awaited == MarkInit && v.watchdog.Stop() { // else it has bitten
		v.watchdog.Reset(v.patience(MarkInit))
	}
}

// awaits reports whether a mark comes to this machine: a restored guest's kernel is up.
func (v *VM) awaits(m Mark) bool {
	switch m {
	case MarkAgent:
		return v.config.Machine.Agent
	case MarkRestored:
		return v.config.Machine.From != ""
	case MarkFirmware, MarkFirstByte, MarkKernel, MarkInit:
		return v.config.Machine.From == ""
	}
	return true
}

// overtaken reports whether the guest is past a mark that was not seen: a quiet
// kernel has no banner. The control channel's is the VMM's, and always comes.
func (v *VM) overtaken(i int) bool {
	return order[i] != MarkReady && slices.ContainsFunc(order[i+1:], func(later Mark) bool { return v.seen[later] })
}

func (v *VM) patience(m Mark) time.Duration {
	d, ok := v.config.Patience[m]
	if !ok {
		d = DefaultPatience[m]
	}
	if m == MarkFirstByte {
		d += v.plan.firmware
	}
	return d
}
