package limit_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tarelab/tare/internal/limit"
)

func TestReader(t *testing.T) {
	l := limit.Limit{Input: "input", Bytes: 10}
	for _, n := range []int{0, 1, 9, 10, 11, 1000} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader, "data with EOF": iotest.DataErrReader,
		} {
			want := strings.Repeat("x", n)
			got, err := l.ReadAll(wrap(strings.NewReader(want)))
			var exceeded *limit.Error
			if long := n > 10; long != errors.As(err, &exceeded) || !long && (err != nil || string(got) != want) {
				t.Errorf("%d bytes, %s: got %d bytes, %v", n, name, len(got), err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := l.ReadAll(io.MultiReader(strings.NewReader("0123456789"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("an error at the limit: got %v", err)
	}
	if got, err := (limit.Limit{}).ReadAll(bytes.NewReader(make([]byte, 1<<20))); len(got) != 1<<20 || err != nil {
		t.Errorf("no limit: got %d bytes, %v", len(got), err)
	}
}

func TestChecks(t *testing.T) {
	l := limit.Limit{Input: "input", Bytes: 3, Items: 3, Depth: 3}
	for what, check := range map[string]func(int) error{
		"bytes": func(n int) error { return l.CheckBytes(int64(n)) }, "entries": l.CheckItems, "levels": l.CheckDepth,
	} {
		if err := check(3); err != nil {
			t.Errorf("3 %s: %v", what, err)
		}
		if err := check(4); err == nil || err.Error() != "input has more than 3 "+what {
			t.Errorf("4 %s: %v", what, err)
		}
	}
}

var sink []byte

func TestAlloc(t *testing.T) {
	l := limit.Limit{Input: "input", Alloc: 1 << 20}
	if err := l.CheckAlloc(func() { sink = make([]byte, 1<<10) }); err != nil {
		t.Error(err)
	}
	if err := l.CheckAlloc(func() { sink = make([]byte, 4<<20) }); err == nil {
		t.Error("4 MiB passed a limit of 1 MiB")
	}
}

// TestTable: a row that bounds nothing, or that errors cannot name, is a mistake.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range []limit.Limit{
		limit.ImageDocument, limit.ImageJSON, limit.ImageArchive, limit.ImagePath, limit.ImagePaths, limit.ImageLayers, limit.PackageControl, limit.Accounts, limit.Program, limit.CLibrary, limit.OwnProgram, limit.Symbols,
		limit.Study, limit.Need, limit.Kconfig, limit.ModuleInfo, limit.SSHKeys, limit.BootLog,
		limit.RunManifest, limit.RunRecord, limit.RunEnd, limit.RunName, limit.RunArchive, limit.Profile, limit.ProfileNames, limit.ProfileWaits, limit.RunProfile, limit.RunProfiles, limit.History, limit.FleetPlan, limit.FleetJobs, limit.RunSide, limit.RunSeries, limit.RunWatched, limit.EngineAnswer, limit.JobPatch,
		limit.DaemonAnswer, limit.DaemonError, limit.MonitorLine, limit.AgentFrame, limit.ErrandText, limit.GuestCode, limit.PayloadJSON, limit.Console, limit.PeerMessage, limit.PeerEnds, limit.SessionProof,
	} {
		if l.Input == "" || seen[l.Input] {
			t.Errorf("%+v has no name of its own", l)
		}
		seen[l.Input] = true
		if l.Bytes <= 0 && l.Items <= 0 {
			t.Errorf("%s bounds neither bytes nor items", l.Input)
		}
	}
}
