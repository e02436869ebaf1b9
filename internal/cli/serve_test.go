package cli_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// delay is how long a frame takes over the link between the two machines of the tests,
// and of how many frames one is lost.
const (
	delay   = 3 * time.Millisecond
	lostOne = 50
)

// twoMachines are two network namespaces that stand for machines, 198.51.100.1 and .2,
// with a link between them that has delay and loss.
func twoMachines(t *testing.T) (here, there string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces are made: run this as root")
	}
	var ends [2]*os.File
	var names [2]string
	for i := range ends {
		names[i] = fmt.Sprintf("tare-test-%d-%d", os.Getpid(), i)
		link := fmt.Sprintf("tmt%d.%d", os.Getpid()%100000, i)
		ip(t, "netns", "add", names[i])
		t.Cleanup(func() { ip(t, "netns", "del", names[i]) })
		ends[i] = tap(t, link)
		ip(t, "link", "set", link, "netns", names[i])
		ip(t, "-n", names[i], "addr", "add", fmt.Sprintf("198.51.100.%d/24", i+1), "dev", link)
		ip(t, "-n", names[i], "link", "set", "lo", "up")
		ip(t, "-n", names[i], "link", "set", link, "up")
	}
	go carry(ends[0], ends[1])
	go carry(ends[1], ends[0])
	return "/run/netns/" + names[0], "/run/netns/" + names[1]
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// tap makes a tap device, whose frames the file has, also in another namespace.
func tap(t *testing.T, name string) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "/dev/net/tun")
	t.Cleanup(func() { f.Close() })
	return f
}

// carry brings frames over the link, each after the delay, and loses some.
func carry(from io.Reader, to io.Writer) {
	type frame struct {
		at   time.Time
		data []byte
	}
	under := make(chan frame, 1000)
	defer close(under)
	go func() {
		for f := range under {
			time.Sleep(time.Until(f.at))
			_, _ = to.Write(f.data) // a link that is down loses frames
		}
	}()
	for n := 1; ; n++ {
		data := make([]byte, 64<<10)
		length, err := from.Read(data)
		if err != nil {
			if errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EBADFD) {
				return
			}
			time.Sleep(delay) // it is not up yet
			continue
		}
		if n%lostOne != 0 {
			under <- frame{time.Now().Add(delay), data[:length]}
		}
	}
}

// tareIn is tare with a state directory, in a network namespace.
func tareIn(t *testing.T, namespace, state string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "nsenter", append([]string{"--net=" + namespace, "tare"}, args...)...)
	c.Env = append(os.Environ(), "TARE_STATE="+state)
	return c
}

// serving is a tare serve that has shown its first key.
type serving struct {
	*exec.Cmd
	lines *bufio.Scanner
	peer  string // the flag's value for the next run
}

func serve(t *testing.T, namespace, state string) *serving {
	t.Helper()
	s := &serving{Cmd: tareIn(t, namespace, state, "serve", "--listen", "198.51.100.2:7450")}
	s.Stderr = os.Stderr
	out, err := s.StdoutPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Process.Kill() // it may have ended
		_ = s.Wait()
	})
	s.lines = bufio.NewScanner(out)
	s.next(t)
	return s
}

// next waits for the next key.
func (s *serving) next(t *testing.T) {
	t.Helper()
	if !s.lines.Scan() {
		t.Fatalf("tare serve has ended: %v", s.lines.Err())
	}
	flag, value, _ := strings.Cut(s.lines.Text(), " ")
	if flag != "--peer" || !strings.HasPrefix(value, "198.51.100.2:7450#") {
		t.Fatalf("tare serve printed %q", s.lines.Text())
	}
	s.peer = value
}

// farEnds are the trials' far ends that a state directory's session has.
func farEnds(t *testing.T, state string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(state, "sessions", "*", "instances", "tare-s*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// listens reports whether a far end of the path remote runs: no other server has this
// address.
func listens(t *testing.T) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "serve\x00198.51.100.2:") {
			return true
		}
	}
	return false
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after 3 minutes: %s", what)
		}
	}
}

const machinesStudy = `
id: mine
title: two machines
question: what does the other machine cost?
targets: [native]
optional: [host]
paths: [%s]
control: host@%s
blocks: 1
cold: false
aa: false
timeout: 2m
workloads:
  - {name: rtt, kind: net-latency, params: {time: %s}}
`

func machinesFile(t *testing.T, paths, control, length string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, machinesStudy, paths, control, length), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// trialRecord is what the tests read of a record.
type trialRecord struct {
	Cell    string
	Values  map[string][]float64
	Failure *struct{ Message, Fault string }
}

// trials are the records of the newest run.
func trials(t *testing.T, state string) (all []trialRecord) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "runs", "*", "records.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no run: %v", err)
	}
	f, err := os.Open(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var one trialRecord
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// farSide is how the tests reach the other machine.
type farSide struct {
	state string
	peer  func() string // the flag's value for the next run
	kill  func()        // ends the tare of that side as kill -9 does
}

// TestTwoMachines measures over a link with delay and loss, then loses the other machine
// in a trial, and is killed in one itself. Nothing is left on either side.
func TestTwoMachines(t *testing.T) {
	here, there := twoMachines(t)
	far := farSide{state: t.TempDir()}
	s := serve(t, there, far.state)
	used := false
	far.peer = func() string {
		if used {
			s.next(t)
		}
		used = true
		return s.peer
	}
	far.kill = func() {
		_ = s.Process.Kill()
		_ = s.Wait()
	}
	measureWith(t, here, there, far)

	// An honest end: nothing is left for a sweep.
	s = serve(t, there, far.state)
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("ended by SIGTERM: %v", err)
	}
	if left := leavings(t, nil, far.state, t.TempDir()); len(left) > 0 {
		t.Errorf("left is %s", left)
	}
}

// TestTwoMachinesBySSH is TestTwoMachines without an open port of tare's: OpenSSH's client
// and a real server, with keys of their own.
func TestTwoMachinesBySSH(t *testing.T) {
	server, err := exec.LookPath("dropbear")
	if err != nil {
		t.Fatalf("%v: make test installs dropbear-bin", err)
	}
	client, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatalf("%v: make test installs openssh-client", err)
	}
	here, there := twoMachines(t)
	dir, far := t.TempDir(), farSide{state: t.TempDir()}
	write := func(name string, mode os.FileMode, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	command := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	own, hostKey := filepath.Join(dir, "own"), filepath.Join(dir, "host")
	command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own)
	command("dropbearkey", "-t", "ed25519", "-f", hostKey)
	public, err := os.ReadFile(own + ".pub")
	if err != nil {
		t.Fatal(err)
	}

	// The server finds its user's keys by the account, whose home is another one here.
	write("home/.ssh/authorized_keys", 0o600, string(public))
	passwd := write("passwd", 0o644, fmt.Sprintf("root:x:0:0:root:%s:/bin/sh\n", filepath.Join(dir, "home")))
	tare := write("tare", 0o700, fmt.Sprintf("#!/bin/sh\nTARE_STATE=%s PATH=%s exec tare \"$@\"\n", far.state, os.Getenv("PATH")))
	sshd := exec.Command("nsenter", "--net="+there, "unshare", "--mount", "sh", "-ec",
		`mount --bind "$1" /etc/passwd; exec "$2" -F -E -s -r "$3" -p 198.51.100.2:7422 -P ""`, "sh", passwd, server, hostKey)
	sshd.Stderr = os.Stderr
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sshd.Process.Kill() // it may have ended
		_ = sshd.Wait()
	})
	config := write("config", 0o600, fmt.Sprintf("Host *\nIdentityFile %s\nIdentitiesOnly yes\nBatchMode yes\nStrictHostKeyChecking accept-new\nUserKnownHostsFile %s\nConnectionAttempts 60\n", own, filepath.Join(dir, "known")))
	write("bin/ssh", 0o700, fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", client, config))
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))

	far.peer = func() string { return "ssh://root@198.51.100.2:7422" + tare }
	far.kill = func() {
		for _, pid := range servesStdio(t, far.state) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	measureWith(t, here, there, far)
}

// servesStdio are the processes of tare serve --stdio that have this state directory.
func servesStdio(t *testing.T, state string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // a process that has ended is none
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if strings.HasPrefix(string(text), "tare\x00serve\x00--stdio") && strings.Contains("\x00"+string(environ), "\x00TARE_STATE="+state+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func measureWith(t *testing.T, here, there string, far farSide) {
	t.Helper()
	stateHere := t.TempDir()
	peer := far.peer()
	run := tareIn(t, here, stateHere, "run", machinesFile(t, "remote, remote-vxlan", "remote", "500ms"))
	run.Env = append(run.Env, "TARE_PEER="+peer)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	measured := trials(t, stateHere)
	if len(measured) < 4 {
		t.Errorf("%d trials", len(measured))
	}
	for _, one := range measured {
		if rtt := one.Values["rtt"]; one.Failure != nil || len(rtt) != 1 || rtt[0] < 2*delay.Seconds() {
			t.Errorf("%s over a link of %v each way: %v, %+v", one.Cell, delay, rtt, one.Failure)
		}
	}
	_, key, keyed := strings.Cut(peer, "#")
	text, err := tareIn(t, here, stateHere, "report", "last", "--format", "md").Output()
	if err != nil || !strings.Contains(string(text), "198.51.100.1, 198.51.100.2") || keyed && strings.Contains(string(text), key) {
		t.Errorf("the report does not name the other machine, or has its key: %v: %s", err, text)
	}
	if left := farEnds(t, far.state); len(left) > 0 {
		t.Errorf("left after the run: %v", left)
	}

	// The run is killed: the other machine removes all by itself.
	begin := func() *exec.Cmd {
		run := tareIn(t, here, stateHere, "run", machinesFile(t, "remote", "remote", "60s"))
		run.Env = append(run.Env, "TARE_PEER="+far.peer())
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "no trial has begun", func() bool { return len(farEnds(t, far.state)) > 0 && listens(t) })
		return run
	}
	run = begin()
	_ = run.Process.Kill()
	_ = run.Wait()
	await(t, "the far end of a run that was killed is still there", func() bool { return len(farEnds(t, far.state)) == 0 && !listens(t) })
	sweep(t, here, stateHere)

	// The other machine's tare is killed: the trial fails, and so do those after it, at once.
	run = begin()
	far.kill()
	failed := new(exec.ExitError)
	if err := run.Wait(); !errors.As(err, &failed) {
		t.Errorf("a run that lost the other machine ended with %v", err)
	}
	lost := trials(t, stateHere)
	for _, one := range lost {
		if one.Failure == nil || !strings.Contains(one.Failure.Message, "the other machine was lost") || one.Failure.Fault != "laboratory" {
			t.Errorf("%s: %+v", one.Cell, one.Failure)
		}
	}
	if len(lost) < 2 {
		t.Errorf("%d trials are recorded", len(lost))
	}
	sweep(t, there, far.state)
	for _, state := range []string{stateHere, far.state} {
		for _, left := range leavings(t, nil, state, t.TempDir()) {
			t.Errorf("left is %s", left)
		}
	}
}

func sweep(t *testing.T, namespace, state string) {
	t.Helper()
	if out, err := tareIn(t, namespace, state, "sweep").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
