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
	qemuMemory = driver.GuestMemoryFile
	qemuState  = "state"
)

// qemuSaved gives a machine the memory that it is saved with or restored from.
func qemuSaved(m Machine) (args []string, machine string) {
	dir, share := m.SaveTo, "on"
	if m.From != "" {
		dir, share = m.From, "off"
	}
	if dir == "" {
		return nil, ""
	}
	file := strings.ReplaceAll(filepath.Join(dir, qemuMemory), ",", ",,")
	args = []string{"-object", fmt.Sprintf("memory-backend-file,id=memory,size=%dM,mem-path=%s,share=%s,merge=%s", mebibytes(m.Memory), file, share, onOff(m.Mergeable))}
	if m.From != "" {
		args = append(args, "-incoming", "defer")
	}
	return args, ",memory-backend=memory"
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
