package engine

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// labelKey is the label of all that is made in an engine; its value is the
// owner.
const labelKey = driver.Label + ".owner"

// owner names this process for the time that it lives: its pid, when it was
// started, in which PID namespace and since which boot, and a random key that only the
// session's note has, "1234-5678-4026531836-70c3114c5a3f4e1b-9f86d081884c7d65".
// What carries the name of a process that has ended was left by a run that was
// killed.
var owner = sync.OnceValue(func() string {
	self, err := sys.Self()
	if err != nil {
		self = sys.Identity{} // without /proc nobody is ever taken for dead
	}
	var key [8]byte
	_, _ = rand.Read(key[:]) // it never fails (crypto/rand)
	return nameOf(self, hex.EncodeToString(key[:]))
})

// bootDigits of a boot id tell boots apart: containerd's namespaces take 76 letters.
const bootDigits = 16

func nameOf(i sys.Identity, key string) string {
	return fmt.Sprintf("%d-%d-%d-%s-%s", i.PID, i.Start, i.Namespace, shortBoot(i.Boot), key)
}

func shortBoot(id string) string {
	id = strings.ReplaceAll(id, "-", "")
	return id[:min(len(id), bootDigits)]
}

// alive reports whether the process of that name may still run. It is proven dead only
// by the kernel that it ran on. One of another boot may be of another machine, whose tare
// shares the engine through a forwarded socket; one in another PID namespace, as of a
// tare in a container, cannot be seen from here. Neither is ours to judge, nor is what
// is not such a name. What this machine left before a reboot is found by its session's
// note.
func alive(name string) bool {
	self, err := sys.Self()
	if err != nil {
		return true
	}
	var boot, key string
	i := self
	n, err := fmt.Sscanf(strings.ReplaceAll(name, "-", " "), "%d %d %d %s %s", &i.PID, &i.Start, &i.Namespace, &boot, &key)
	if n != 5 || err != nil || nameOf(i, key) != name || boot != shortBoot(self.Boot) {
		return true
	}
	life, err := i.Life()
	return err != nil || life != sys.Ended
}

// repository is the name of images that an owner has loaded.
func repository(owner string) string { return "localhost/" + driver.Label + "-" + owner }
