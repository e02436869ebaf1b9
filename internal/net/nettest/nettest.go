// Package nettest gives the tests of networks a network namespace of their own, so that
// what others do to the machine's network meanwhile does not count as theirs.
package nettest

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// entered is set for a process that is in a namespace of its own already: to its
// descriptor of the machine's.
const entered = "TARE_TEST_NETWORK"

var machine = -1

// Main runs the tests of a package in a new network namespace, which stands for the
// machine's: what they leave in the machine's network, they leave in it. Without root,
// which making one takes, such tests skip.
func Main(m *testing.M) {
	if os.Geteuid() != 0 {
		m.Run()
		return
	}
	if os.Getenv(entered) == "" {
		log.Fatalf("a network namespace for the tests: %v", enter())
	}
	var err error
	if machine, err = strconv.Atoi(os.Getenv(entered)); err == nil {
		err = os.Unsetenv(entered)
	}
	if err != nil {
		log.Fatal(err)
	}
	unix.CloseOnExec(machine)
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		log.Fatalf("the loopback of the tests' network namespace: %v: %s", err, out)
	}
	m.Run()
}

// enter starts this program anew: the threads that the runtime has by now would stay in
// the old namespace.
func enter() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	old, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), fmt.Sprintf("%s=%d", entered, old)))
}

// Machine runs f in the machine's own namespace: some settings of the kernel are there alone.
func Machine(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(own) }() // nothing was written to it
	if err := unix.Setns(machine, unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	f()
	if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
		panic(err) // a thread in the wrong namespace must run no other test
	}
}

// counters are what rules have counted.
var counters = regexp.MustCompile(`packets \d+ bytes \d+`)

// State is what must be the same in the machine's network after a test as before: links,
// routes, rules, settings, and the named namespaces that have this process's number.
func State(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, argv := range [][]string{{"ip", "-o", "link"}, {"ip", "route"}, {"nft", "list", "ruleset"}, {"sysctl", "-a", "--pattern", "^net.(bridge|ipv4.ip_forward)"}} {
		fmt.Fprintf(&all, "%v: %s\n", argv, counters.ReplaceAllString(output(t, argv), ""))
	}
	for _, name := range strings.Split(output(t, []string{"ip", "netns"}), "\n") {
		if strings.Contains(name, strconv.Itoa(os.Getpid())) {
			fmt.Fprintf(&all, "network namespace %s\n", name)
		}
	}
	return all.String()
}

func output(t *testing.T, argv []string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		if argv[0] == "ip" {
			t.Fatalf("%v: %v: %s", argv, err, out)
		}
		return fmt.Sprintf("%v: %s", err, out) // a kernel may lack what it asks for
	}
	return string(out)
}
