package sys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Identity is what tells a process from every other that has had its pid, on this
// machine and on others.
type Identity struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start"`     // in ticks since the boot
	Namespace uint64 `json:"namespace"` // inode of its PID namespace
	Boot      string `json:"boot"`      // the kernel's boot id
	Machine   string `json:"machine"`   // digest of what stays the same over boots
}

// Life is whether a process still runs, as far as that can be proven from here.
type Life int

// The answers of Identity.Life.
const (
	Unknown  Life = iota // it belongs to another machine, or to a PID namespace that cannot be seen from here
	Running              // it runs
	Ended                // it has ended while the machine ran
	Rebooted             // the machine was booted since
)

func (l Life) String() string { return [...]string{"unknown", "running", "ended", "rebooted"}[l] }

// Self is this process. The error is of a machine without /proc.
var Self = sync.OnceValues(func() (Identity, error) {
	self := Identity{PID: os.Getpid(), Machine: machine()}
	var namespace unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &namespace); err != nil {
		return self, fmt.Errorf("identity of this process: PID namespace: %w", err)
	}
	self.Namespace = namespace.Ino
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return self, fmt.Errorf("identity of this process: %w", err)
	}
	self.Boot = strings.TrimSpace(string(boot))
	if self.Start, err = startOf(self.PID); err == nil && self.Start == 0 {
		err = errors.New("/proc does not show this process")
	}
	if err != nil {
		return self, fmt.Errorf("identity of this process: %w", err)
	}
	return self, nil
})

// startOf is when a process was started; 0 where none has the pid, and of one that has
// ended and was not waited for yet.
func startOf(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			return 0, nil
		}
		return 0, err
	}
	stat, err := p.Stat()
	if gone(err) || err == nil && (stat.State == "Z" || stat.State == "X") {
		return 0, nil
	}
	return stat.Starttime, err
}

// machine is a digest of the machine's id and name.
func machine() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		id = nil // a small system has none: its name has to do
	}
	name, err := os.Hostname()
	if err != nil {
		name = ""
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id)) + "\n" + name))
	return hex.EncodeToString(sum[:8])
}

// Life proves whether the process of this identity has ended. A process of another boot
// has ended only if it was of this machine: what reaches this one by a forwarded socket
// or a shared directory may live elsewhere.
func (i Identity) Life() (Life, error) {
	self, err := Self()
	switch {
	case err != nil:
		return Unknown, err
	case i.Boot != self.Boot && i.Machine == self.Machine && i.Boot != "":
		return Rebooted, nil
	case i.Boot != self.Boot, i.Namespace != self.Namespace:
		return Unknown, nil
	}
	start, err := startOf(i.PID)
	switch {
	case err != nil:
		return Unknown, err
	case start == i.Start && start != 0:
		return Running, nil
	}
	return Ended, nil
}
