package vmm

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/driver"
)

// A saved guest of QEMU is two files: its memory, which is the guest's own memory while
// it runs, and the state of its devices, as a migration writes it. Those restored from
// them map the memory privately: what none of them has written to is one page for all.
// That is how Kata Containers makes its templates (x-ignore-shared, from QEMU 4.0 on).
const (
	savedMemory = driver.GuestMemoryFile
	qemuState   = "state"
)

// qemuBackend is the name of a guest's memory where that is an object of its own.
const qemuBackend = "memory"

// qemuMemory gives a machine the memory that it is saved with or restored from, that
// another process serves a device in, or that has huge pages.
func qemuMemory(m Machine) (args []string, machine string) {
	size, merge := fmt.Sprintf("id=%s,size=%dM", qemuBackend, mebibytes(m.Memory)), ",merge="+onOff(m.Devices.Mergeable)
	file := func(dir string) string {
		return ",mem-path=" + strings.ReplaceAll(filepath.Join(dir, savedMemory), ",", ",,")
	}
	switch {
	case m.SaveTo != "":
		args = []string{"-object", "memory-backend-file," + size + file(m.SaveTo) + ",share=on" + merge}
	case m.From != "":
		args = []string{"-object", "memory-backend-file," + size + file(m.From) + ",share=off" + merge, "-incoming", "defer"}
	case m.Share != "" || m.Devices.HugePages:
		args = []string{"-object", fmt.Sprintf("memory-backend-memfd,%s,share=%s%s", size, onOff(m.Share != ""), merge)}
		if m.Devices.HugePages {
			args[1] += fmt.Sprintf(",hugetlb=on,hugetlbsize=%dM", driver.HugePage>>20)
		}
	default:
		return nil, ""
	}
	return args, ",memory-backend=" + qemuBackend
}

// withoutMemory leaves memory that is a file out of a migration.
func withoutMemory(q *qmp) error {
	type capability struct {
		Capability string `json:"capability"`
		State      bool   `json:"state"`
	}
	_, err := q.execute("migrate-set-capabilities", map[string][]capability{"capabilities": {{"x-ignore-shared", true}}})
	return err
}

func qemuSave(ctx context.Context, c control, m Machine) error {
	q := c.(*qmp)
	return q.bounded(ctx, func() error {
		if err := withoutMemory(q); err != nil {
			return err
		}
		return q.saveQMP(ctx, "exec:cat >"+shellQuoted(filepath.Join(m.SaveTo, qemuState)))
	})
}

func qemuRestore(ctx context.Context, c control, m Machine) error {
	q := c.(*qmp)
	return q.bounded(ctx, func() error {
		if err := withoutMemory(q); err != nil {
			return err
		}
		from := map[string]string{"uri": "exec:cat " + shellQuoted(filepath.Join(m.From, qemuState))}
		if _, err := q.execute("migrate-incoming", from); err != nil {
			return err
		}
		if _, err := q.await(ctx, "query-status", "inmigrate"); err != nil {
			return err
		}
		_, err := q.execute("cont", nil)
		return err
	})
}

// shellQuoted is a word that a shell takes as it is.
func shellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
