package sys

import (
	"os/exec"
	"testing"
	"time"
)

func TestLife(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sleep", "100")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	other := self
	other.PID = c.Process.Pid
	if other.Start, err = startOf(other.PID); err != nil || other.Start == 0 {
		t.Fatal(other.Start, err)
	}
	with := func(change func(*Identity)) Identity {
		i := self
		change(&i)
		return i
	}
	for what, test := range map[string]struct {
		of   Identity
		want Life
	}{
		"self":             {self, Running},
		"a child":          {other, Running},
		"its pid's second": {with(func(i *Identity) { i.Start++ }), Ended},
		"before a reboot":  {with(func(i *Identity) { i.Boot = "another" }), Rebooted},
		// On a2ee321 this counted as dead: what it had in an engine behind a forwarded
		// socket, or in a shared directory, was removed while it ran.
		"another machine":   {with(func(i *Identity) { i.Boot, i.Machine = "another", "another" }), Unknown},
		"another namespace": {with(func(i *Identity) { i.Namespace++ }), Unknown},
		"nothing":           {Identity{}, Unknown},
	} {
		if got, err := test.of.Life(); err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", what, got, err, test.want)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 100 { // a zombie has ended, whenever its parent asks
		if got, err := other.Life(); err == nil && got == Ended {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got, err := other.Life(); err != nil || got != Ended {
		t.Errorf("a child that was not waited for: %v, %v", got, err)
	}
	_ = c.Wait() // it was killed
	if got, err := other.Life(); err != nil || got != Ended {
		t.Errorf("a child that has ended: %v, %v", got, err)
	}
}
