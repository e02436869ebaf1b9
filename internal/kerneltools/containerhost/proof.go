package containerhost

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/vm"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/vmm"
)

// proofScript says of a running container host what works in it.
//
//go:embed proof.sh
var proofScript string

// The checks that the script cannot make itself.
const (
	bootCheck     = "boot" // only of a kernel that fails it
	shutdownCheck = "clean shutdown"
)

// proofBundle is the configuration of the container that runtimes prove
// themselves by.
func proofBundle() []byte {
	return bundleOf(driver.Spec{Args: []string{"/bin/busybox", "true"}, Env: hostEnv})
}

// proofMemory is what the proof's machine has at least. Fifty containers' shims and
// the clients that start them fill a host of 1 GiB: the distribution's kernel then
// took 18 minutes to start fewer, which is no fault of a kernel's.
const proofMemory = 2 << 30

// telling makes the kernel tell of its initcalls: the boot of the proof is the
// one that is taken apart, as no time of it is shown as a trial's. Their lines do
// not go to the console, which would take longer than they.
var telling = []string{"initcall_debug", "log_buf_len=4M"}

// proofSign stands in the script's output between the boot's journal and the checks.
const proofSign = "-- proof --\n"

// proofFile keeps a kernel's proof, by all that it holds for.
func (m *hostParts) proofFile(a arm, k vmm.Kernel) string {
	return filepath.Join(m.dir, "proof-"+vm.Digest(k.Digest, a.machine, m.baseDir(), a.leftOut()+proofScript, strings.Join(telling, " "))[:16]+".json")
}

// leftOut is set for the script where a whole proof is not asked for: what a
// distribution ships is no result of trimming, and stands there to be compared with.
func (a arm) leftOut() string {
	if a.stock() {
		return quickSet
	}
	return ""
}

// journalFile is the journal beside a proof.
func journalFile(proof string) string { return strings.TrimSuffix(proof, ".json") + ".journal" }

// prove puts an arm's kernel to the proof, once, and keeps what came of it. A kernel
// that fails a check is no error: its reports say so.
func (m *hostParts) prove(ctx context.Context, h *Host, disk string, tell func(string)) error {
	a := h.arm
	a.append = telling
	k, err := m.kernelOf(ctx, a)
	if err != nil {
		return err
	}
	file := m.proofFile(a, k)
	if _, err := os.Stat(file); err == nil {
		return m.locate(ctx, file, tell)
	}
	long := "some ten minutes"
	if a.leftOut() != "" {
		long = "a minute or two"
	}
	tell(fmt.Sprintf("proving that containers run in it (one boot; without KVM %s, more where something else runs)", long))
	journal, checks, err := m.proofOf(ctx, h, a, disk, journalSet+a.leftOut(), tell)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(checks, "", "  ")
	if err == nil {
		err = os.WriteFile(journalFile(file), journal, 0o644)
	}
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return driver.Labf("keep the proof: %w", err)
	}
	return m.locate(ctx, file, tell)
}

// locate keeps where the code of the initcalls of a proof's boot is, so that their cost
// counts for Kconfig symbols: where a source is at hand, which none is fetched for. That
// of the trimmed kernel stands for the distribution's, whose package it is of.
func (m *hostParts) locate(ctx context.Context, proof string, tell func(string)) error {
	file := symbolsFile(proof)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	tree := m.sourceTree()
	journal, err := os.ReadFile(journalFile(proof))
	if errors.Is(err, os.ErrNotExist) || tree == nil {
		return nil
	}
	var found map[string][]kbuild.Origin
	if err == nil {
		tell("looking for the code of its initcalls in " + hostSource)
		found, err = tree.Find(ctx, initcallNames(journal))
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(found)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return driver.Labf("symbols of the proof's initcalls: %w", err)
	}
	return nil
}

// symbolsFile is where locate keeps what it found, beside a proof.
func symbolsFile(proof string) string { return strings.TrimSuffix(proof, ".json") + ".symbols" }

// initcallNames are those of a journal; none of one that holds no boot.
func initcallNames(journal []byte) []string {
	boots, err := bootlog.Parse(bytes.NewReader(journal))
	if err != nil {
		return nil
	}
	var names []string
	for i := range boots {
		names = append(names, bootlog.New(&boots[i]).CallNames()...)
	}
	return names
}

// What is set for the script.
const (
	journalSet  = "journal=yes\n"
	quickSet    = "quick=yes\n"
	untilFailed = "first=only\n"
)

// proofOf boots an arm with systemd and puts its kernel to the proof. What the
// kernel is to blame for is a check that failed.
func (m *hostParts) proofOf(ctx context.Context, h *Host, a arm, disk, set string, tell func(string)) (journal []byte, checks []driver.ProofCheck, err error) {
	a.systemd, a.memory = true, max(proofMemory, a.memory, h.lab.Guest.Memory)
	out, err := m.once(ctx, h, a, []vmm.Disk{{Path: disk}}, set+proofScript, tell)
	var cannot *driver.CannotError
	switch {
	case err == nil:
	case ctx.Err() != nil, driver.IsLab(err), errors.As(err, &cannot):
		return nil, nil, err
	case errors.Is(err, context.DeadlineExceeded): // a busy machine is no kernel's fault
		return nil, nil, driver.Labf("the proof had not ended after %v: make it when nothing else runs: %w", mostOnce, err)
	}
	journal, text, begun := bytes.Cut(out.text, []byte(proofSign))
	out.text = text
	return journal, proofChecks(out, begun, err), nil
}

// prove is ContainerHost.Prove.
func (h *Host) prove(ctx context.Context, o driver.ProofOptions, tell func(string)) ([]driver.ProofCheck, error) {
	a := h.armWith(o.Kernel)
	disk, err := h.diskFor(ctx, a, tell)
	if err != nil {
		return nil, err
	}
	set, long := "", "some ten minutes"
	if o.Quick {
		set, long = quickSet, "a minute"
	}
	if o.UntilFailed {
		set += untilFailed
	}
	tell(fmt.Sprintf("booting it, to see whether containers run in it (without KVM %s, more where something else runs)", long))
	_, checks, err := h.parts.proofOf(ctx, h, a, disk, set, tell)
	return checks, err
}

// proofChecks reads what the script printed, once it has begun. failed is why the
// machine ended early, nil where it did not.
func proofChecks(out outcome, begun bool, failed error) []driver.ProofCheck {
	var checks []driver.ProofCheck
	for line := range strings.Lines(string(out.text)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 4 {
			continue // what else is said there
		}
		c := driver.ProofCheck{Name: fields[0], Result: fields[1]}
		began, berr := strconv.ParseFloat(fields[2], 64)
		ended, eerr := strconv.ParseFloat(fields[3], 64)
		if berr == nil && eerr == nil {
			c.Seconds = math.Round((ended-began)*100) / 100
		}
		checks = append(checks, c)
	}
	last := driver.ProofCheck{Name: shutdownCheck, Result: driver.ProofPassed}
	switch {
	case failed != nil && !begun:
		last.Name, last.Result = bootCheck, "failed: "+failed.Error()
	case failed != nil:
		last.Result = "failed: " + failed.Error()
	case !out.off:
		last.Result = fmt.Sprintf("failed: it had not powered off after %v", hostOff)
	}
	return append(checks, last)
}

// bootLog is ContainerHost.BootLog: the journal of the boot that was the proof.
func (h *Host) bootLog(ctx context.Context) (told driver.BootLog, err error) {
	if !h.arm.toProve() {
		return told, nil
	}
	k, err := h.parts.kernelOf(ctx, h.arm)
	if err != nil {
		return told, err
	}
	proof := h.parts.proofFile(h.arm, k)
	for file, text := range map[string]*[]byte{journalFile(proof): &told.Log, symbolsFile(proof): &told.Symbols} {
		if *text, err = os.ReadFile(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return told, driver.Labf("what the proof's boot told: %w", err)
		}
	}
	return told, nil
}

// proven adds what was proven of an arm's kernel to its facts, numbered, because
// facts have no order.
func (m *hostParts) proven(a arm, k vmm.Kernel, notes map[string]string) error {
	text, err := os.ReadFile(m.proofFile(a, k))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var checks []driver.ProofCheck
	if err == nil {
		err = json.Unmarshal(text, &checks)
	}
	if err != nil {
		return driver.Labf("the kept proof: %w", err)
	}
	for i, c := range checks {
		line, _, _ := strings.Cut(c.Result, "\n")
		notes[fmt.Sprintf("proof %02d %s", i+1, c.Name)] = strings.TrimSuffix(line, ", and the console ends:")
	}
	return nil
}
