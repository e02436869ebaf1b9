package trial_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/fake"
	"github.com/tarelab/tare/internal/trial"
)

// machines are instances with a console that says two lines before they start
// and one after.
type machines struct{ *fake.Driver }

func (m machines) Prepare(ctx context.Context, spec driver.Spec, dir string) (driver.Instance, error) {
	i, err := m.Driver.Prepare(ctx, spec, dir)
	return &machine{Instance: i, line: spec.Console}, err
}

type machine struct {
	driver.Instance
	line func(string)
}

func (m *machine) Start(ctx context.Context, mark func(driver.Phase)) error {
	m.line("Linux version 6.1")
	time.Sleep(20 * time.Millisecond)
	m.line("Run /init as init process")
	return m.Instance.Start(ctx, mark)
}

func TestConsoleIsKeptWithTheHostsStamps(t *testing.T) {
	var kept []byte
	r := trial.Runner{RunID: "test", Dir: t.TempDir(), Groups: &noGroups{}, Sink: &records{}, Keep: func(seq int, console []byte) error {
		if seq != 3 {
			t.Errorf("the console of trial %d, want 3", seq)
		}
		kept = console
		return nil
	}}
	record, err := r.Run(t.Context(), trial.Job{Seq: 3, Driver: machines{fake.New("fake", nil)}, Timeout: 10 * time.Second})
	if err != nil || record.Failure != nil {
		t.Fatalf("error %v, failure %+v", err, record.Failure)
	}
	want := regexp.MustCompile(`^\[0\.\d{6} 0\.\d{6}\] Linux version 6\.1\n\[\d+\.\d{6} \d+\.(0[2-9]|[1-9]\d)\d{4}\] Run /init as init process\n$`)
	if !want.Match(kept) {
		t.Errorf("the console is %q", kept)
	}
}
