package torture

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestKilledAtAnyTime kills tare alone, as the kernel does when memory is short, at times
// spread over a run that churns groups and runs commands before its trials. On a2ee321
// one such kill in six left groups at the roots of the hierarchies of version 1, the
// prepare commands ran on, and no sweep found either.
func TestKilledAtAnyTime(t *testing.T) {
	if *program == "" {
		t.Skip("make torture names the program")
	}
	const times = 8
	r := newRig(t, "native/rootfs", "churn")
	started := time.Now()
	if out, err := r.tare(r.args()...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := time.Since(started)
	r.noHarm("a whole run")
	for i := range times {
		c := r.tare(r.args()...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		after := whole * time.Duration(i+1) / (times + 1)
		time.Sleep(after)
		r.noteSessions()
		_ = c.Process.Signal(syscall.SIGKILL) // it may have ended
		ended := c.Wait()
		t.Logf("killed after %v: %v", after.Round(time.Millisecond), ended)
		r.noHarm("a kill after " + after.String())
	}
	if left := names(filepath.Join(r.state, "sessions")); len(left) > 0 {
		t.Errorf("sessions: %q", left)
	}
}
