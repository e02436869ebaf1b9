package workload

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Copies of iperf3 that share a network and have a PID namespace each take different
// ports, and listen on the loopback alone.
func TestCopiesOfIperf3(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: PID namespaces cannot be made")
	}
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	stub := "#!/bin/sh\necho \"$*\" >>" + said + "\n"
	if err := os.WriteFile(filepath.Join(dir, "iperf3"), []byte(stub), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const copies = 3 // random ones: two may be equal
	for range copies {
		if out, err := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "/bin/sh", "-c", iperf3Script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "-s ") {
			continue
		}
		servers[line] = true
		if !strings.Contains(line, "-B 127.0.0.1 ") {
			t.Errorf("a server listens everywhere: %s", line)
		}
	}
	if len(servers) < 2 {
		t.Errorf("%d copies took the ports of %v", copies, servers)
	}
}
