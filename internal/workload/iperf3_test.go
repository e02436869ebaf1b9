package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Copies of iperf3 that live at once and share a network take different ports, with a
// PID namespace each or in one, and listen on the loopback alone.
func TestCopiesOfIperf3(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: PID namespaces cannot be made")
	}
	for name, in := range map[string][]string{
		"one PID namespace":        {"env"},
		"a PID namespace for each": {"unshare", "--pid", "--fork", "--mount-proc"},
	} {
		t.Run(name, func(t *testing.T) { copiesOfIperf3(t, in) })
	}
}

// copiesOfIperf3 starts the copies by a command.
func copiesOfIperf3(t *testing.T, in []string) {
	dir := t.TempDir()
	said, all := filepath.Join(dir, "said"), filepath.Join(dir, "all")
	// A client stays until all copies have said where their servers listen.
	stub := `#!/bin/sh
case $1 in
-s) echo "$*" >>"$SAID" ;;
-c) while [ ! -e "$ALL" ]; do sleep 0.05; done ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "iperf3"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SAID", said)
	t.Setenv("ALL", all)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var copies sync.WaitGroup
	const n = 20
	for range n {
		copies.Go(func() {
			args := append(slices.Clone(in[1:]), "/bin/sh", "-c", iperf3Script)
			if out, err := exec.CommandContext(t.Context(), in[0], args...).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	var servers []string
	for len(servers) < n && t.Context().Err() == nil && !t.Failed() {
		time.Sleep(10 * time.Millisecond)
		text, err := os.ReadFile(said)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		servers = strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), " ", "_"))
	}
	if err := os.WriteFile(all, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	copies.Wait()
	slices.Sort(servers)
	if len(slices.Compact(slices.Clone(servers))) != n {
		t.Errorf("%d copies listen at %v", n, servers)
	}
	for _, server := range servers {
		if !strings.Contains(server, "_-B_127.0.0.1_") {
			t.Errorf("a server listens everywhere: %s", server)
		}
	}
}
