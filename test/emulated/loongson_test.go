// Package emulated proves tare in machines with other CPUs, emulated by QEMU. TestLoongson:
// Debian's kernels, busybox, runc and crun for mips64el and loong64, and inside them
// tare check and a measurement over host, native, runc and crun; `make
// test-loongson` runs it, and docs/loongson.md describes it. TestTrimmedARM64: containers
// in a kernel that tare trim build made for arm64.
package emulated

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

var (
	enabled = flag.Bool("loongson", false, "boot the emulated machines; fetches 250 MB of Debian packages the first time")
	docker  = flag.Bool("docker", false, "measure Docker, on machines that have dockerd, containerd and podman; fetches 350 MB more")
	skip    = flag.Bool("skip-lacking", false, "skip what takes packages that cannot be had, instead of failing")
	inGuest = flag.String("command", "", "what the guest measures, instead of the whole docker-on-loongson --quick")
	targets = flag.String("targets", "", "the targets that the measurement must hold (default host,native,runc,crun; with -docker host,runc,docker)")
	keep    = flag.String("keep", "", "directory that keeps each machine's console and results; its subdirectories mips64le and loong64 are replaced")
	limit   = flag.Duration("limit", 30*time.Minute, "time for one machine, from start to power-off: many times what it takes on an idle machine")
)

func TestLoongson(t *testing.T) {
	if !*enabled {
		t.Skip("the emulated machines run by `make test-loongson` (go test ./test/emulated -loongson)")
	}
	emulator := packages(t, "emulator")
	for _, m := range machines {
		t.Run(m.arch, func(t *testing.T) {
			if !*docker {
				t.Parallel() // neither keeps two CPUs busy
			}
			dir := m.boot(t, emulator)
			t.Run("steps", func(t *testing.T) { stepsEnded(t, dir) })
			t.Run("version", func(t *testing.T) { m.versionIsOurs(t, dir) })
			t.Run("check", func(t *testing.T) { m.checkIsTrue(t, dir) })
			t.Run("run", func(t *testing.T) { m.runIsWhole(t, dir) })
			if *docker {
				t.Run("image", func(t *testing.T) { imageRuns(t, dir) })
			}
			if *inGuest == "" {
				t.Run("scores", func(t *testing.T) { everyTestHasItsScore(t, dir) })
				t.Run("index", func(t *testing.T) { m.indexIsReported(t, dir) })
			}
		})
	}
}

// measuredTargets are those whose samples the measurement must hold.
func measuredTargets() []string {
	switch {
	case *targets != "":
		return strings.Split(*targets, ",")
	case *docker:
		return []string{"host", "runc", "docker"}
	}
	return []string{"host", "native", "runc", "crun"}
}

// workingTargets are those that tare check must find able.
func workingTargets() []string {
	if *docker {
		return append(measuredTargets(), "docker", "containerd", "podman")
	}
	return measuredTargets()
}

// mostContainers are as many as the measurement has at once.
func mostContainers(target string) int {
	if *docker && target != "host" {
		return 3
	}
	return 1
}

// notToBeHad is packages.sh's exit code where the archive, or a package, is out
// of reach.
const notToBeHad = 3

// packages fetches a set of Debian packages and returns their root.
func packages(t *testing.T, set ...string) string {
	t.Helper()
	var errs strings.Builder
	c := exec.Command("./packages.sh", set...)
	c.Stderr = &errs
	out, err := c.Output()
	if *skip && c.ProcessState != nil && c.ProcessState.ExitCode() == notToBeHad {
		t.Skipf("Debian packages for %s cannot be had: %s", set, &errs)
	}
	if err != nil {
		t.Fatalf("Debian packages for %s: %v\n%s", set, err, &errs)
	}
	dir := strings.TrimSpace(string(out))
	list, err := os.ReadFile(filepath.Join(dir, "packages"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		for _, name := range []string{"linux-image", "runc", "crun", "busybox", "docker.io", "containerd", "podman", "qemu-system-m", "qemu-efi"} {
			if strings.HasPrefix(line, name) {
				t.Log(set, strings.TrimSpace(line))
			}
		}
	}
	return filepath.Join(dir, "root")
}

// boot builds tare for the machine, boots it and returns the directory of the
// results.
func (m machine) boot(t *testing.T, emulator string) string {
	t.Helper()
	root, dir := packages(t, m.packages()...), t.TempDir()
	if *keep != "" {
		dir = filepath.Join(*keep, m.arch)
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	tare, initrd := filepath.Join(dir, "tare"), filepath.Join(dir, "initrd")
	buildTare(t, m.arch, tare)
	m.writeGuest(t, initrd, root, tare)
	err := m.started(t, emulator, root, initrd, dir)
	if errors.Is(err, errBroken) {
		t.Log(err, "\nIt is started once more.")
		err = m.started(t, emulator, root, initrd, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// started runs the machine once, from disks that are new. The console is kept in dir.
func (m machine) started(t *testing.T, emulator, root, initrd, dir string) error {
	t.Helper()
	var disks []string
	if *docker {
		disks = m.disks(t, root)
	}
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		return err
	}
	defer console.Close()
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	start := time.Now()
	kernel := m.kernel
	if kernel == "" {
		kernel = kernelImage(t, root)
	}
	if err := m.run(ctx, emulator, kernel, initrd, disks, dir, console); err != nil {
		return err
	}
	t.Logf("%s: %s from start to power-off (emulated: no figure of performance)", m.arch, time.Since(start).Round(100*time.Millisecond))
	return nil
}

// modules are those that the guest loads, in two lists: of the second it takes what its
// kernel's package has. A kernel of our own has what it needs built in.
func (m machine) modules() (need, may []string) {
	switch {
	case m.kernel != "":
		return nil, nil
	case *docker:
		return guestModules, engineModules
	}
	return guestModules, nil
}

// measured is the command that the guest measures by.
func (m machine) measured() string {
	if *docker && m.kernel == "" {
		return "tare run docker-on-loongson --quick --cpuset first-1 --on runc,docker --instances 0..3"
	}
	return m.measure
}

// packages are the sets that the machine is made of.
func (m machine) packages() []string {
	if *docker {
		return []string{m.arch, "engines"}
	}
	return []string{m.arch}
}

func buildTare(t *testing.T, arch, to string) {
	t.Helper()
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=test", "-o", to, "../../cmd/tare")
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build of cmd/tare for %s: %v\n%s", arch, err, out)
	}
}

// disks are those of a machine with engines: the file system that it runs from, and the
// image that is built for it here.
func (m machine) disks(t *testing.T, root string) []string {
	t.Helper()
	dir := t.TempDir()
	system, oci := filepath.Join(dir, "system"), filepath.Join(dir, "image.oci")
	if err := writeDisk(system, root); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(os.Getenv("HOME"), ".cache")), "tare")
	lack := (*lab.LackError)(nil)
	d, err := lab.BuildImage(t.Context(), lab.ImageOrder{Arch: m.arch, Cache: cache}, oci, oci+".cdx.json")
	if errors.As(err, &lack) && *skip {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the image for %s: %+v", m.arch, d)
	return []string{system, oci}
}

func (m machine) writeGuest(t *testing.T, initrd, root, tare string) {
	t.Helper()
	f, err := os.Create(initrd)
	if err != nil {
		t.Fatal(err)
	}
	need, may := m.modules()
	if err := writeInitramfs(f, root, tare, m.arch, cmp.Or(*inGuest, m.measured()), need, may); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// kernelImage is where Debian's packages put it: in /boot, or since 2026 with
// its modules.
func kernelImage(t *testing.T, root string) string {
	t.Helper()
	for _, pattern := range []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			return found[0]
		}
	}
	t.Fatalf("no kernel in the packages below %s", root)
	return ""
}

// imageRuns demands that dockerd has run both images that were built on this machine, and
// podman and containerd the base.
func imageRuns(t *testing.T, dir string) {
	said, err := os.ReadFile(filepath.Join(dir, "image.out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"base: Debian GNU/Linux", "\nIndex Score ", "podman: Debian GNU/Linux", "ctr: Debian GNU/Linux"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the image's containers did not say %q:\n%s", want, said)
		}
	}
	t.Logf("the image's containers said:\n%s", said)
}

func stepsEnded(t *testing.T, dir string) {
	steps := []string{"version", "check", "run", "report", "sweep"}
	if *docker {
		steps = append(steps, "image")
	}
	for _, step := range steps {
		read := func(suffix string) string {
			b, err := os.ReadFile(filepath.Join(dir, step+suffix))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if code := strings.TrimSpace(read(".code")); code != "0" {
			t.Errorf("%s: exit code %s in the guest\n%s%s", step, code, read(".err"), tail([]byte(read(".out")), 2000))
		}
	}
}

// versionIsOurs holds what tare says of its build against what was built.
func (m machine) versionIsOurs(t *testing.T, dir string) {
	var build struct{ Version, OS, Arch, Go, Guest string }
	readJSON(t, filepath.Join(dir, "version.out"), &build)
	if build.Version != "test" || build.OS != "linux" || build.Arch != m.arch || build.Go == "" || !strings.HasPrefix(build.Guest, "sha256:") {
		t.Errorf("tare version: %+v", build)
	}
}

// checkIsTrue holds what tare check said against what the machine is.
func (m machine) checkIsTrue(t *testing.T, dir string) {
	var found struct {
		Host    hostinfo.Host
		Facts   []hostinfo.Fact
		Targets []struct {
			Target string
			Works  bool
			Why    string
		}
	}
	readJSON(t, filepath.Join(dir, "check.out"), &found)
	m.hostIsRight(t, found.Host)
	works := map[string]bool{}
	for _, f := range found.Targets {
		works[f.Target] = f.Works
		if slices.Contains(workingTargets(), f.Target) && !f.Works {
			t.Errorf("target %s does not work: %s", f.Target, f.Why)
		}
	}
	for _, target := range workingTargets() {
		if _, told := works[target]; !told {
			t.Errorf("tare check does not name the target %s", target)
		}
	}
	facts := map[string]hostinfo.Fact{}
	for _, f := range found.Facts {
		t.Logf("%-24s %-5v %s %s", f.Name, f.OK, f.Value, f.Why)
		facts[f.Name] = f
	}
	for name, want := range m.truth {
		if f, told := facts[name]; !told || f.OK != want {
			t.Errorf("%s: told %v, is %v; tare says %v: %s%s", name, told, want, f.OK, f.Value, f.Why)
		}
	}
	for _, kind := range []string{"mnt", "pid", "net", "uts", "ipc", "cgroup"} {
		if !slices.Contains(strings.Fields(facts["namespaces"].Value), kind) {
			t.Errorf("namespaces: no %s in %q", kind, facts["namespaces"].Value)
		}
	}
}

func (m machine) hostIsRight(t *testing.T, h hostinfo.Host) {
	t.Helper()
	if !strings.HasPrefix(h.CPU, m.cpu) {
		t.Errorf("CPU: %q, want %q...", h.CPU, m.cpu)
	}
	if h.Arch != m.arch || h.Cgroup != "v2" {
		t.Errorf("arch %s, cgroup %s; want %s, v2", h.Arch, h.Cgroup, m.arch)
	}
	if !strings.Contains(h.Emulated, m.emulator) {
		t.Errorf("emulated: %q; the numbers of this machine must be labelled with %s", h.Emulated, m.emulator)
	}
	if want := map[string]int{"mips64le": 1, "loong64": 2, "arm64": 2}[m.arch]; h.CPUs != want {
		t.Errorf("%d CPUs, want %d", h.CPUs, want)
	}
	if most := int64(memory()) << 20; h.Memory < most/2 || h.Memory > most {
		t.Errorf("memory of %d bytes on a machine with %d MiB", h.Memory, memory())
	}
}

// openRun opens the guest's run directory as any run is opened.
func openRun(t *testing.T, dir string) *store.Run {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*", "manifest.json"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs in the results, want 1 (%v)", len(runs), err)
	}
	run, err := store.Open(filepath.Dir(runs[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	return run
}

// everyTestHasItsScore demands the twelve scores of UnixBench on each target.
func everyTestHasItsScore(t *testing.T, dir string) {
	run := openRun(t, dir)
	of, have := map[string]study.Cell{}, map[string]float64{}
	for _, c := range run.Manifest().Cells {
		of[c.ID] = c
	}
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if scores := r.Values[sample.UnixScore]; len(scores) > 0 && slices.Min(scores) > 0 {
			have[of[r.Cell].Target+" "+of[r.Cell].Workload] = scores[0]
		}
	}
	tests := workload.UnixTestNames()
	if len(tests) != 12 {
		t.Fatalf("%d tests: %v", len(tests), tests)
	}
	for _, target := range measuredTargets() {
		for _, test := range tests {
			if have[target+" "+test] <= 0 {
				t.Errorf("%s has no score of %s", target, test)
			}
		}
	}
}

// indexData is what the report's JSON has of the Unix index, as far as it is tested.
type indexData struct {
	Refused string
	Curves  []struct {
		Target, Environment, Test, Clock string

		Tests  []string
		Points []struct {
			N    int
			Data struct{ Value float64 }
		}
	}
}

// hasIndex reports whether a target has an index over all tests, by wall time, of n
// instances at once.
func (d indexData) hasIndex(target, environment string, n int) bool {
	for _, c := range d.Curves {
		if c.Target != target || c.Environment != environment || c.Test != "index" || c.Clock != "wall" || len(c.Tests) != 12 {
			continue
		}
		for _, p := range c.Points {
			if p.N == n && p.Data.Value > 0 {
				return true
			}
		}
	}
	return false
}

// indexIsReported demands that the guest's report holds each target's index over
// all tests, in the three environments that are one there, and claims nothing of it.
func (m machine) indexIsReported(t *testing.T, dir string) {
	var got struct {
		Sections []struct {
			Data   indexData
			Claims []finding.Claim
		}
	}
	readJSON(t, filepath.Join(dir, "report.out"), &got)
	if len(got.Sections) != 1 {
		t.Fatalf("%d sections in the report, want 1", len(got.Sections))
	}
	u := got.Sections[0].Data
	for _, target := range measuredTargets() {
		for _, environment := range []string{"allcpu-ncopies", "1cpu-1copy", "allcpu-1copy"} {
			for n := 1; n <= mostContainers(target); n++ {
				if !u.hasIndex(target, environment, n) {
					t.Errorf("%s, %s, %d at once: the report's index is missing in %+v", target, environment, n, u.Curves)
				}
			}
		}
	}
	if !strings.Contains(u.Refused, m.emulator) {
		t.Errorf("an emulated CPU's scores are claimed: refused %q", u.Refused)
	}
	for _, claim := range got.Sections[0].Claims {
		for _, here := range claim.Here {
			if here.Verdict != finding.Refused {
				t.Errorf("an emulated CPU gives a verdict: %s: %+v", claim.Text, here)
			}
		}
	}
}

// runIsWhole reads the guest's run directory as any run is read.
func (m machine) runIsWhole(t *testing.T, dir string) {
	run := openRun(t, dir)
	manifest := run.Manifest()
	m.hostIsRight(t, manifest.Host)
	wanted := measuredTargets()
	for target, why := range manifest.LeftOut {
		if slices.Contains(manifest.Study.Optional, target) && !slices.Contains(wanted, target) {
			t.Logf("target %s was left out: %s", target, why) // an engine, which these machines do not have
			continue
		}
		t.Errorf("target %s was left out: %s", target, why)
	}
	samples, of := map[string]int{}, map[string]string{}
	for _, c := range manifest.Cells {
		of[c.ID] = c.Target
	}
	records := 0
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records++
		if failure := problem(r); failure != "" {
			t.Errorf("record %d of %s: %s", r.Seq, r.Cell, failure)
			continue
		}
		samples[of[r.Cell]]++
	}
	if records != manifest.Trials {
		t.Errorf("%d records of %d trials", records, manifest.Trials)
	}
	for _, target := range wanted {
		if samples[target] == 0 {
			t.Errorf("no sample of %s", target)
		}
	}
	t.Logf("samples by target: %v", samples)
}

// problem says what is wrong with a record, "" where nothing is.
func problem(r sample.Record) string {
	if r.Failure != nil {
		return fmt.Sprintf("failed in %s, the %s's fault: %s %s", r.Failure.Phase, r.Failure.Fault, r.Failure.Message, r.Failure.Stderr)
	}
	if wall := r.Values["wall"]; len(wall) == 0 || slices.Min(wall) <= 0 {
		return fmt.Sprintf("wall time %v", wall)
	}
	return ""
}

func readJSON(t *testing.T, file string, to any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v\n%s", file, err, tail(b, 500))
	}
}
