package ebpf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/profile"
)

// TestObjectIsOfItsSource builds the programs again, as generate.go says, and
// compares.
func TestObjectIsOfItsSource(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the BPF compiler is not installed: %v", err)
		}
	}
	source, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for line := range strings.Lines(string(source)) {
		directive, found := strings.CutPrefix(line, "//go:generate go ")
		if !found {
			continue
		}
		words := strings.Fields(directive)
		args := append(words[:2:2], "-output-dir", dir)
		for _, w := range words[2:] {
			args = append(args, strings.Trim(w, `"`))
		}
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, name := range []string{"locks_bpfel.o", "locks_bpfel.go", "stacks_bpfel.o", "stacks_bpfel.go"} {
		committed, err1 := os.ReadFile(name)
		built, err2 := os.ReadFile(filepath.Join(dir, name))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, built) {
			t.Errorf("%s is not what its sources give: run go generate ./internal/probe/ebpf, and commit what it writes", name)
		}
	}
}

// TestVerifierHasRoom keeps the programs far from what the verifier gives up at,
// on kernels whose verifier finds more paths, too: an armed probe is loaded anew
// for each trial, and the verifier's work is most of that.
func TestVerifierHasRoom(t *testing.T) {
	needsKernel(t)
	const most = 100_000 // of the kernel's 1,000,000
	for _, read := range []func() (*ebpf.CollectionSpec, error){loadLocks, loadStacks} {
		spec, err := read()
		if err != nil {
			t.Fatal(err)
		}
		if err := (Selection{cgroups: map[uint64]int{1: 3}, pids: []int{1}}).constants(spec); err != nil {
			t.Fatal(err)
		}
		loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
		if err != nil {
			t.Fatal(err)
		}
		defer loaded.Close()
		for name, p := range loaded.Programs {
			var n int
			_, processed, found := strings.Cut(p.VerifierLog, "processed ")
			if _, err := fmt.Sscan(processed, &n); err != nil || !found {
				t.Fatalf("%s: the verifier's log tells no number: %v\n%s", name, err, p.VerifierLog)
			}
			if n > most {
				t.Errorf("%s: the verifier looks at %d instructions, of which %d may be", name, n, most)
			}
		}
	}
}

// needsKernel skips a test where the kernel or the user cannot.
func needsKernel(t *testing.T) {
	t.Helper()
	stop, err := RecordLocks(Selection{})
	var cannot *driver.CannotError
	if errors.As(err, &cannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := stop()
	if err != nil {
		t.Fatal(err)
	}
	if p.Way != profile.ByPrograms {
		t.Skipf("waits are %s: %q", p.Way, p.Notes)
	}
}
