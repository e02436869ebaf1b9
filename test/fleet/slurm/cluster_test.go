package slurm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is a Slurm cluster on this machine. The controller and each node are
// namespaces of their own (network, host name, mounts, processes), which end with this
// process. Kernel and cgroups are those of the machine.
type cluster struct {
	t          *testing.T
	dir        string // shared by all
	controller *box
	nodes      map[string]*box
}

// box is the first process of a set of namespaces.
type box struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// newBox begins a set of namespaces, in which script runs once it is released.
func newBox(log, script string, env ...string) (*box, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd := exec.Command("/bin/sh", "-c", "read -r go; mount --make-rprivate /; mount -t proc proc /proc; mount -t tmpfs tmpfs /run/lock; ip link set lo up\n"+script)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &box{cmd, in}, cmd.Start()
}

func (b *box) release() error {
	_, err := io.WriteString(b.in, "go\n")
	return errors.Join(err, b.in.Close())
}

// kill ends all processes of a box, as a power cut ends those of a machine.
func (b *box) kill() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

func (b *box) pid() string { return strconv.Itoa(b.cmd.Process.Pid) }

const network = "10.77.0."

// newCluster makes a cluster of n nodes, node1 to nodeN, in a partition lab, and a
// partition urgent that takes nodes from it. Slurm's commands are in bin.
func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	for _, name := range []string{"slurmctld", "slurmd", "munged", "sbatch"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("%v: scripts/setup.sh fleet installs it", err)
		}
	}
	dir, err := os.MkdirTemp("", "tare-slurm-") // short: sockets have paths of 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: dir, nodes: map[string]*box{}}
	t.Cleanup(c.down)
	c.files(n)
	controller, err := newBox(c.path("log/controller"), `set -e
hostname ctl
ip link add br0 type bridge
ip addr add `+network+`1/24 dev br0
ip link set br0 up
munged --foreground --force --key-file=$D/munge/key --socket=$D/munge/socket --pid-file=$D/munge/pid --log-file=$D/munge/log --seed-file=$D/munge/seed &
until [ -S $D/munge/socket ]; do sleep 0.1; done
slurmctld -D &
wait`, "D="+dir, "SLURM_CONF="+c.path("slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	c.controller = controller
	if err := errors.Join(os.WriteFile(c.path("controller"), []byte(controller.pid()), 0o644), controller.release()); err != nil {
		t.Fatal(err)
	}
	c.wait("the controller", func() bool { return c.command("scontrol", "ping") == nil })
	for i := range n {
		if err := c.begin(fmt.Sprintf("node%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	c.idle(n)
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// files writes what the daemons read, and the commands for this side.
func (c *cluster) files(n int) {
	var nodes strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "NodeName=node%d NodeHostname=node%d NodeAddr=%s%d CPUs=2 RealMemory=2000 Feature=virtual State=UNKNOWN\n", i+1, i+1, network, i+11)
	}
	for _, name := range []string{"state", "log", "munge", "bin", "jobs"} {
		if err := os.MkdirAll(c.path(name), 0o711); err != nil {
			c.t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(c.path(name), []byte(text), mode); err != nil {
			c.t.Fatal(err)
		}
	}
	write("munge/key", strings.Repeat("a key that is for this test alone ", 4), 0o400)
	write("slurm.conf", strings.ReplaceAll(configuration, "$D", c.dir)+nodes.String(), 0o644)
	for _, name := range []string{"sbatch", "squeue", "scancel", "scontrol", "sinfo"} {
		write("bin/"+name, fmt.Sprintf("#!/bin/sh\nSLURM_CONF=%s exec nsenter --net=/proc/$(cat %s)/ns/net /usr/bin/%s \"$@\"\n", c.path("slurm.conf"), c.path("controller"), name), 0o755)
	}
	for _, path := range []string{c.dir, c.path("munge")} {
		if err := os.Chmod(path, 0o711); err != nil {
			c.t.Fatal(err)
		}
	}
	c.t.Setenv("PATH", c.path("bin")+":"+os.Getenv("PATH"))
}

// configuration has short times, so that a dead node is noticed soon.
const configuration = `ClusterName=tare
SlurmctldHost=ctl(` + network + `1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge/socket
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool-%n
SlurmctldLogFile=$D/log/slurmctld
SlurmdLogFile=$D/log/slurmd-%n
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
ReturnToService=2
SlurmdTimeout=45
MessageTimeout=30
KillWait=5
MinJobAge=600
JobRequeue=0
PartitionName=lab Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=NO PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP OverSubscribe=NO PriorityTier=10
`

// begin starts a node. Its state of tare is its own, as a disk is.
func (c *cluster) begin(name string) error {
	for _, dir := range []string{"spool-" + name, "disk-" + name} {
		if err := os.MkdirAll(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	number := strings.TrimPrefix(name, "node")
	i, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	b, err := newBox(c.path("log/"+name), fmt.Sprintf(`set -e
hostname %s
mkdir -p /var/lib/tare
mount --bind $D/disk-%s /var/lib/tare
ip addr add %s%d/24 dev eth0
ip link set eth0 up
exec slurmd -D`, name, name, network, i+10), "D="+c.dir, "SLURM_CONF="+c.path("slurm.conf"))
	if err != nil {
		return err
	}
	c.nodes[name] = b
	out, err := exec.Command("nsenter", "--net=/proc/"+c.controller.pid()+"/ns/net", "sh", "-c",
		fmt.Sprintf("ip link del v%s 2>/dev/null; ip link add v%s type veth peer name eth0 netns %s && ip link set v%s master br0 up", number, number, b.pid(), number)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("link of %s: %w: %s", name, err, out)
	}
	return b.release()
}

// die has a node lose its power. What it returns starts it again.
func (c *cluster) die(name string) (func() error, error) {
	c.nodes[name].kill()
	return func() error {
		if err := c.begin(name); err != nil {
			return err
		}
		c.wait(name, func() bool { return c.states()[name] == "idle" })
		return nil
	}, nil
}

func (c *cluster) command(name string, args ...string) error {
	out, err := exec.Command(c.path("bin/"+name), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return nil
}

// states are what sinfo says of each node.
func (c *cluster) states() map[string]string {
	out, _ := exec.Command(c.path("bin/sinfo"), "--noheader", "--Node", "--partition=lab", "--format=%N %T").Output()
	all := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, state, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			all[name] = state
		}
	}
	return all
}

// idle waits until n nodes are idle.
func (c *cluster) idle(n int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%d idle nodes", n), func() bool {
		count := 0
		for _, state := range c.states() {
			if state == "idle" {
				count++
			}
		}
		return count == n
	})
}

// wait asks for something for two minutes.
func (c *cluster) wait(what string, ready func() bool) {
	c.t.Helper()
	for range 600 {
		if ready() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	log, _ := exec.Command("sh", "-c", "tail -n 20 "+c.path("log")+"/*").CombinedOutput()
	c.t.Fatalf("%s: not within two minutes (nodes: %v)\n%s", what, c.states(), log)
}

// down takes everything away.
func (c *cluster) down() {
	for _, b := range c.nodes {
		b.kill()
	}
	if c.controller != nil {
		c.controller.kill()
	}
	if err := os.RemoveAll(c.dir); err != nil {
		c.t.Errorf("clean-up: %v", err)
	}
}
