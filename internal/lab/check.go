package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// checkTimeout bounds one driver's proof on a real CPU. On a machine with builds on all
// CPUs runc's took longer than 8 s.
const checkTimeout = 30 * time.Second

// emulatedSlowness is how many times longer things may take on an emulated CPU: a
// runtime takes seconds for what takes milliseconds elsewhere, and the host is busy.
const emulatedSlowness = 10

// startsPerCheck is the time that a proof gets beside that, in starts of its
// target: a virtual machine boots twice, on a machine that is busy with the
// other proofs.
const startsPerCheck = 30

// proofsPerCPU is how many proofs are under way at once for each CPU: more, and a
// guest's boot on an emulated CPU takes the time of the engines' proofs beside it.
const proofsPerCPU = 3

// Finding is what a driver's check said.
type Finding struct {
	Target string       `json:"target"`
	Facts  driver.Facts `json:"facts"`
	Cached bool         `json:"cached,omitempty"` // proven earlier since this boot, by the same binary
	Err    error        `json:"-"`
}

// cached is a proof that is kept: it holds for the same binary, the same boot
// and the same tare.
type cached struct {
	Facts driver.Facts `json:"facts"`
	Tool  string       `json:"tool"`
	Boot  string       `json:"boot"`
	Root  bool         `json:"root"`
	Guest driver.Guest `json:"guest"`
	// Cannot is what a proof that failed said, and Failures how often in a row
	// it did: once may have been a moment's load.
	Cannot   *driver.CannotError `json:"cannot,omitempty"`
	Failures int                 `json:"failures,omitempty"`
}

// believedFrom is how many failures in a row are believed without another proof.
const believedFrom = 2

// holds reports whether a kept proof need not be made again.
func (c cached) holds() bool { return c.Cannot == nil || c.Failures >= believedFrom }

// err is the kept failure, with how to have another proof; nil for success.
func (c cached) err() error {
	if c.Cannot == nil {
		return nil
	}
	e := *c.Cannot
	e.Remedy = strings.TrimPrefix(e.Remedy+"; ", "; ") + "seen " + strconv.Itoa(c.Failures) + " times since boot; tare check --fresh tries again"
	return &e
}

// Check proves the drivers, some in parallel, and keeps what came of it: success, and
// the failure of a binary that is there once it was seen twice, since such a
// proof takes seconds. With fresh, nothing kept is used.
func (l *Lab) Check(ctx context.Context, drivers []driver.Driver, fresh bool) []Finding {
	if mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter("/")); err == nil && len(mounts) == 0 {
		return unproven(drivers)
	}
	host := hostinfo.Gather()
	boot := host.BootID
	tool, err := sys.FileDigest("/proc/self/exe")
	if err != nil {
		fresh = true
	}
	if fresh {
		l.forget(drivers)
	}
	known := l.readChecks()
	findings := make([]Finding, len(drivers))
	var all sync.WaitGroup
	turn := make(chan struct{}, proofsPerCPU*runtime.NumCPU())
	for i, d := range drivers {
		c, ok := known[d.Name()]
		if !fresh && ok && c.holds() && c.Tool == tool && c.Boot == boot && c.Root == l.place.Root && c.Guest == l.place.Guest && sameBinary(d, c.Facts) && !stale(d, c.Facts) {
			findings[i] = Finding{Target: d.Name(), Facts: c.Facts, Cached: true, Err: c.err()}
			continue
		}
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			bounded, cancel := context.WithTimeout(ctx, l.place.AtMost(checkTimeout+startsPerCheck*d.Properties().StartTime+d.Properties().CheckTime))
			defer cancel()
			if findings[i] = (Finding{Target: d.Name(), Err: lacksCall(d)}); findings[i].Err == nil {
				findings[i].Facts, findings[i].Err = d.Check(bounded)
			}
		})
	}
	all.Wait()
	for _, f := range findings {
		if f.Cached {
			continue
		}
		now := cached{Facts: f.Facts, Tool: tool, Boot: boot, Root: l.place.Root, Guest: l.place.Guest}
		switch {
		case f.Err == nil:
			known[f.Target] = now
		case errors.As(f.Err, &now.Cannot) && f.Facts.Digest != "" && ctx.Err() == nil:
			if before := known[f.Target]; !fresh && before.Boot == boot && before.Facts.Digest == f.Facts.Digest {
				now.Failures = before.Failures
			}
			now.Failures++
			known[f.Target] = now
		default:
			delete(known, f.Target)
		}
	}
	l.writeChecks(known)
	return findings
}

// lacksCall refuses a driver whose own program needs a system call that this kernel has
// not: it would fail in words of its own, or hang.
func lacksCall(d driver.Driver) error {
	for _, c := range sys.MissingCalls() {
		if slices.Contains(d.Properties().Calls, c.Name) {
			return &driver.CannotError{Target: d.Name(), Lacks: fmt.Sprintf("this kernel has no %s (Linux %s), which its program needs", c.Name, c.Since),
				Remedy: "a newer kernel, or another target"}
		}
	}
	return nil
}

// unproven says of each driver that a chroot cannot prove it.
func unproven(drivers []driver.Driver) []Finding {
	var findings []Finding
	for _, d := range drivers {
		findings = append(findings, Finding{Target: d.Name(), Err: &driver.CannotError{Target: d.Name(),
			Lacks: "this / is a chroot and no mount point, so no target's mounts can be kept apart", Remedy: "mount --bind ROOT ROOT before chroot ROOT"}})
	}
	return findings
}

// kvmFact is the name of hostinfo's fact.
const kvmFact = "KVM"

// ProveKVM completes the fact KVM by what the checks of virtual machines found:
// whether a guest reached user mode under it, or why none did.
func ProveKVM(facts []hostinfo.Fact, found []Finding) {
	i := slices.IndexFunc(facts, func(f hostinfo.Fact) bool { return f.Name == kvmFact })
	if i < 0 {
		return
	}
	for _, f := range found {
		switch notes := f.Facts.Notes; {
		case notes[driver.NoteAccel] == "kvm" && notes[driver.NoteBootsTo] == "":
			facts[i].OK, facts[i].Value = true, "a guest of "+f.Target+" reached user mode"
			facts[i].Why, facts[i].Remedy = "", ""
			return
		case notes[driver.NoteNoKVM] != "":
			facts[i].Why = notes[driver.NoteNoKVM]
		}
	}
}

func (l *Lab) checksFile() string { return filepath.Join(l.config.StateDir, "checks.json") }

// readChecks reads the kept proofs. A file that cannot be read is as good as
// none: everything is proven again.
func (l *Lab) readChecks() map[string]cached {
	known := map[string]cached{}
	data, err := sys.ReadForeign(l.checksFile(), limit.RunManifest)
	if err != nil || json.Unmarshal(data, &known) != nil || known == nil {
		return map[string]cached{}
	}
	return known
}

// writeChecks keeps proofs. It is a cache: where it cannot be written (another
// user's state directory), the next check takes longer and nothing is lost.
func (l *Lab) writeChecks(known map[string]cached) {
	data, err := json.MarshalIndent(known, "", "\t")
	if err != nil {
		return
	}
	temporary := l.checksFile() + "." + l.session.name
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) // follows no link that is there already
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if errors.Join(err, f.Close()) == nil && os.Rename(temporary, l.checksFile()) == nil {
		return
	}
	if err := os.Remove(temporary); err != nil {
		l.notes = append(l.notes, "the cache of checks could not be written: "+err.Error())
	}
}

// stale asks a driver that knows what its check depended on beside its binary.
func stale(d driver.Driver, found driver.Facts) bool {
	s, ok := driver.As[driver.Staler](d)
	return ok && s.Stale(found)
}

// forget has drivers drop what they keep of their own checks.
func (l *Lab) forget(drivers []driver.Driver) {
	for _, d := range drivers {
		machine := d.Properties().Machine
		if machine == nil {
			continue
		}
		if err := machine.Forget(); err != nil {
			l.notes = append(l.notes, fmt.Sprintf("what is kept of %s could not be removed: %v", d.Name(), err))
		}
	}
}

// sameBinary reports whether a proof was made with the program that is found now.
func sameBinary(d driver.Driver, f driver.Facts) bool {
	if l, ok := driver.As[driver.Located](d); ok {
		if path, err := l.Locate(); err != nil || path != f.Path {
			return false
		}
	}
	if f.Path == "" || f.Digest == "" {
		return true // a target without a binary of its own: tare's digest covers it
	}
	digest, err := sys.FileDigest(f.Path)
	return err == nil && digest == f.Digest
}
