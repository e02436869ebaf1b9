package vm

import (
	"bytes"
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/target"
	"github.com/tarelab/tare/internal/vmm"
)

// proofScript says of a running container host what works in it.
//
//go:embed proof.sh
var proofScript string

// shutdownCheck is the check that the script cannot make itself.
const shutdownCheck = "clean shutdown"

// proofBundle is the configuration of the container that runtimes prove
// themselves by.
func proofBundle() []byte {
	return bundleOf(target.Spec{Args: []string{"/bin/busybox", "true"}, Env: hostEnv})
}

// A proofLine is one check and what came of it: "ok", or what failed.
type proofLine struct {
	Check  string `json:"check"`
	Result string `json:"result"`
}

// telling makes the kernel tell of its initcalls: the boot of the proof is the
// one that is taken apart, as no time of it is shown as a trial's. Their lines do
// not go to the console, which would take longer than they.
var telling = []string{"initcall_debug", "log_buf_len=4M"}

// proofSign stands in the script's output between the boot's journal and the checks.
const proofSign = "-- proof --\n"

// proofFile keeps a kernel's proof, by all that it holds for.
func (m *made) proofFile(a arm, k vmm.Kernel) string {
	return filepath.Join(m.dir, "proof-"+digest(k.Digest, a.machine, m.baseDir(), proofScript, strings.Join(telling, " "))[:16]+".json")
}

// journalFile is the journal beside a proof.
func journalFile(proof string) string { return strings.TrimSuffix(proof, ".json") + ".journal" }

// prove boots an arm's kernel with systemd once and runs the proof in it. A kernel
// that fails a check is no error: its reports say so.
func (m *made) prove(ctx context.Context, h *Host, disk string, tell func(string)) error {
	a := h.arm
	a.systemd, a.append = true, telling
	k, err := m.kernelOf(ctx, a)
	if err != nil {
		return err
	}
	file := m.proofFile(a, k)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	tell("proving that containers run in it (one boot; without KVM some ten minutes, more where something else runs)")
	out, err := m.once(ctx, h, a, vmm.Disk{Path: disk}, proofScript)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// A busy machine is no kernel's fault: what is kept is kept for good.
		return target.Labf("the proof had not ended after %v: make it when nothing else runs", mostOnce)
	}
	var journal []byte
	journal, out.text, _ = bytes.Cut(out.text, []byte(proofSign))
	lines := proofLines(out, err)
	text, err := json.MarshalIndent(lines, "", "  ")
	if err == nil {
		err = os.WriteFile(journalFile(file), journal, 0o644)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return target.Labf("keep the proof: %w", err)
	}
	return nil
}

// ProvesOn implements target.Prover.
func (h *Host) ProvesOn() string { return h.arm.machine }

// Proof implements target.Prover.
func (h *Host) Proof() string { return proofScript }

// untilFailed has the script end at the first check that fails.
const untilFailed = "first=only\n"

// Prove implements target.Prover.
func (h *Host) Prove(ctx context.Context, kernel string, tell func(string)) (string, error) {
	var disk string
	err := h.made.locked(ctx, tell, func() (err error) {
		disk, err = h.made.disk(ctx, h, h.lab.TestImage, tell)
		return err
	})
	if err != nil {
		return "", err
	}
	a := arm{name: "proof", machine: h.arm.machine, image: kernel, systemd: true}
	out, err := h.made.once(ctx, h, a, vmm.Disk{Path: disk}, untilFailed+proofScript)
	_, checks, _ := bytes.Cut(out.text, []byte(proofSign))
	out.text = checks
	if err != nil {
		return "", fmt.Errorf("%w; checks passed: %s", err, strings.Join(passed(proofLines(out, nil)), ", "))
	}
	for _, l := range proofLines(out, nil) {
		if l.Result != "ok" {
			return l.Check + ": " + l.Result, nil
		}
	}
	return "", nil
}

// passed are the names of checks that passed.
func passed(lines []proofLine) []string {
	var names []string
	for _, l := range lines {
		if l.Result == "ok" {
			names = append(names, l.Check)
		}
	}
	return names
}

// proofLines reads what the script printed. failed is why it ended early, nil
// where it did not.
func proofLines(out outcome, failed error) []proofLine {
	var lines []proofLine
	for line := range strings.Lines(string(out.text)) {
		if check, result, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			lines = append(lines, proofLine{check, result})
		}
	}
	off := "ok"
	switch {
	case failed != nil:
		off = "failed: " + firstLine(failed)
	case !out.off:
		off = fmt.Sprintf("failed: it had not powered off after %v", hostOff)
	}
	return append(lines, proofLine{shutdownCheck, off})
}

// BootLog implements target.Profiled: the journal of the boot that was the proof.
func (h *Host) BootLog(ctx context.Context) ([]byte, error) {
	if !h.arm.toProve() {
		return nil, nil
	}
	k, err := h.made.kernelOf(ctx, h.arm)
	if err != nil {
		return nil, err
	}
	journal, err := os.ReadFile(journalFile(h.made.proofFile(h.arm, k)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, target.Labf("the proof's journal: %w", err)
	}
	return journal, nil
}

// proven adds what was proven of an arm's kernel to its facts, numbered, because
// facts have no order.
func (m *made) proven(a arm, k vmm.Kernel, notes map[string]string) error {
	text, err := os.ReadFile(m.proofFile(a, k))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var lines []proofLine
	if err == nil {
		err = json.Unmarshal(text, &lines)
	}
	if err != nil {
		return target.Labf("the kept proof: %w", err)
	}
	for i, l := range lines {
		notes[fmt.Sprintf("proof %02d %s", i+1, l.Check)] = l.Result
	}
	return nil
}
