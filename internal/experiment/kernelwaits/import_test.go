package kernelwaits

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/published"
)

// churnText is a profile like the published one, of a hundred samples of cycles.
func churnText(t *testing.T) profile.Profile {
	t.Helper()
	var text strings.Builder
	for _, s := range []struct {
		n      int
		frames string
	}{
		{58, "osq_lock rwsem_optimistic_spin down_write filename_create do_mkdirat do_syscall_64"},
		{12, "osq_lock __mutex_lock cgroup_kn_lock_live cgroup_mkdir do_mkdirat do_syscall_64"},
		{20, "osq_lock __mutex_lock cgroup_kn_lock_live cgroup_file_write ksys_write do_syscall_64"},
		{10, "rwsem_spin_on_owner rwsem_optimistic_spin down_write filename_create do_mkdirat do_syscall_64"},
	} {
		for range s.n {
			text.WriteString("churn 1 [000] 1.0: 1000 cycles: \n")
			for f := range strings.FieldsSeq(s.frames) {
				fmt.Fprintf(&text, "\tffffffff81000001 %s+0x1 ([kernel.kallsyms])\n", f)
			}
			text.WriteString("\n")
		}
	}
	p, err := profile.Import(strings.NewReader(text.String()), "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestImportedProfileStandsNextToThePublishedOne(t *testing.T) {
	s, err := published.Read(name, publishedFile, new(source))
	if err != nil {
		t.Fatal(err)
	}
	w := waitsOf("stacks", imported, churnText(t))
	tables := importedTables(w, *s)
	if len(tables) != 2 {
		t.Fatalf("%d tables", len(tables))
	}
	at := slices.IndexFunc(tables[1].Rows, func(r []string) bool { return r[0] == "osq_lock" })
	if want := []string{"osq_lock", "57.66", "90.00", "57.06", "90.00"}; at < 0 || !slices.Equal(tables[1].Rows[at], want) {
		t.Errorf("%q, want %q", tables[1].Rows, want)
	}
	if found := timesFinding(w); !strings.Contains(found, "100 samples of cycles (90 % osq_lock") || strings.Contains(found, "asleep") {
		t.Errorf("%q", found)
	}
	if g := timesGrid(w); g.Head[2] != "of all cycles %" || g.Rows[0][2] != "90.00" {
		t.Errorf("%q %q", g.Head, g.Rows[0])
	}
	locks := waitsOf("locks", imported, churnText(t).Estimate("a test"))
	if g := waitsGrid(locks); !strings.HasPrefix(g.Rows[0][0], profile.Directory) || g.Rows[0][3] != "68.00" {
		t.Errorf("%q %q", g.Head, g.Rows[0])
	}
	other := profile.Profile{Source: profile.SourcePerf, Samples: []profile.Sample{{State: profile.OnCPU, Stack: 0, User: -1, Count: 1, Total: 1}}, Stacks: [][]string{{"sort"}}}
	if tables := importedTables(waitsOf("stacks", imported, other), *s); len(tables) != 1 {
		t.Error("a profile of something else stands next to the published one")
	}
}

// The shares of functions are those that perf itself reports of the same records.
func TestImportAgreesWithPerf(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("perf is not installed")
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	record := exec.Command("perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", "999", "-g", "--", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); [ -e /proc/self ]; done")
	if out, err := record.CombinedOutput(); err != nil {
		t.Skipf("perf cannot record here: %v: %s", err, out)
	}
	p, err := readProfile(context.Background(), strings.NewReader("PERFILE2"), data, "")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("perf", "report", "-q", "-i", data, "--stdio", "--no-children", "-g", "none", "-F", "overhead,sym").Output()
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]float64{} // perf lists a function's parts (getname_flags.part.0) apart
	for _, m := range regexp.MustCompile(`(?m)^\s*([0-9.]+)%\s+\[k\] ([a-z_0-9]+)(\.\S+)?\s*$`).FindAllStringSubmatch(string(out), -1) {
		share, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		parts[m[2]] = append(parts[m[2]], share)
	}
	functions := p.Functions()
	for name, shares := range parts {
		share, at := 0.0, slices.IndexFunc(functions, func(f profile.FunctionShare) bool { return f.Name == name })
		for _, s := range shares {
			share += s
		}
		if at < 0 || math.Abs(100*functions[at].Self-share) > 0.01*float64(1+len(shares)) { // perf rounds each
			t.Errorf("perf has %s %g %%, the import %+v", name, shares, functions[max(at, 0)])
		}
	}
	if len(parts) == 0 {
		t.Errorf("perf reports no function of the kernel:\n%s", out)
	}
}

func TestImportTellsWhatPerfSaid(t *testing.T) {
	_, err := readProfile(context.Background(), strings.NewReader("PERFILE2 and nothing else"), "-", "")
	if !errors.Is(err, profile.ErrNoProfile) || !strings.Contains(err.Error(), "cannot be read from a pipe") {
		t.Error(err)
	}
	_, err = readProfile(context.Background(), strings.NewReader("PERFILE2"), filepath.Join(t.TempDir(), "none"), "")
	if !errors.Is(err, profile.ErrNoProfile) {
		t.Error(err)
	}
	_, err = readProfile(context.Background(), strings.NewReader("\x1f\x8b\x08\x00 and more"), "x", "")
	if !errors.Is(err, profile.ErrNoProfile) || !strings.Contains(err.Error(), "gzip -d") {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = readProfile(context.Background(), strings.NewReader("PERFILE2"), "x", "")
	if !errors.Is(err, profile.ErrNoProfile) || !strings.Contains(err.Error(), "perf script -i perf.data > profile.txt") {
		t.Error(err)
	}
}
