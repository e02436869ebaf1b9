package study

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults of a study's rules.
const (
	DefaultControl = "host"
	DefaultBlocks  = 12               // where the exact interval of the median gives way to the bootstrap
	DefaultMost    = 100              // blocks of a study that ends by its precision or budget
	DefaultMargin  = 0.02             // as a fraction
	DefaultAlpha   = 0.05             // family-wise, of a table
	DefaultTimeout = 60 * time.Second // of one trial
	DefaultRounds  = 100              // of a block, for workloads that do nothing but take turns
	DefaultSlice   = time.Millisecond
)

// PerCPU stands in a whole-number parameter, and in a load's number of instances, for
// the number of CPUs that may be used.
const PerCPU = "cpus"

// PerCPUTimes reads a whole-number parameter that follows the CPUs: PerCPU is 1 time their
// number, "4xcpus" 4 times. ok is false for a value that does not.
func PerCPUTimes(value string) (times int, ok bool) {
	if value == PerCPU {
		return 1, true
	}
	number, ok := strings.CutSuffix(value, "x"+PerCPU)
	if times, err := strconv.Atoi(number); ok && err == nil && times > 0 {
		return times, true
	}
	return 0, false
}

// AllTargets stands in Targets for every driver that works on the machine.
const AllTargets = "all"

// Bounds of a plan. They are far above what a machine can measure in a day, and
// keep a mistyped study from filling the memory.
const (
	maxBlocks = 1_000_000
	maxCopies = 4096
	maxCells  = 10_000
	maxTrials = 10_000_000
	maxRounds = 10_000
	// Each variant is a study of its own in memory.
	maxVariants = 64
	// MaxRuns bounds the trials of one cell in one block.
	MaxRuns = 100

	minSlice = 100 * time.Microsecond // below, the turn takes longer than the slice
	maxSlice = 10 * time.Second

	// The kernel's MIN_SHARES and MAX_SHARES of version 1 (kernel/sched/sched.h).
	minShares = 2
	maxShares = 1 << 18

	minCPUs   = 0.01    // the kernel's smallest quota is 1 ms, and a period has 100 ms
	minMemory = 1 << 20 // bytes: a static program with its page tables needs about half
)

// Known are the names that a study may use on this build of tare.
type Known struct {
	Targets []string // of drivers
	Paths   []string // between two places, on which a driver may stand
	Kinds   []string // of workloads
}

// WithDefaults fills in what a study leaves open.
func (s Study) WithDefaults() Study {
	if s.ID == "" && s.src != nil {
		s.ID = s.src.stem()
	}
	s.Title = cmp.Or(s.Title, s.ID)
	if len(s.Kernels) > 0 && len(s.Targets) > 0 {
		s.Control = cmp.Or(s.Control, s.Targets[0])
	}
	s.Control = cmp.Or(s.Control, DefaultControl)
	if s.Precision > 0 || s.Budget > 0 {
		s.Blocks = cmp.Or(s.Blocks, DefaultMost)
	}
	s.Blocks = cmp.Or(s.Blocks, DefaultBlocks)
	s.Margin = cmp.Or(s.Margin, DefaultMargin)
	s.Alpha = cmp.Or(s.Alpha, DefaultAlpha)
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.Slice = cmp.Or(s.Slice, DefaultSlice)
	s.View = cmp.Or(s.View, ViewPriceList)
	for _, setting := range []**bool{&s.AA, &s.Cold, &s.Counters} {
		if *setting == nil {
			yes := true
			*setting = &yes
		}
	}
	s.Workloads = slices.Clone(s.Workloads)
	for i, w := range s.Workloads {
		s.Workloads[i].Name = cmp.Or(w.Name, w.Kind)
	}
	return s
}

// stem is the file's name without directories and ".yaml".
func (s *source) stem() string {
	name := s.name[strings.LastIndexByte(s.name, '/')+1:]
	return strings.TrimSuffix(strings.TrimSuffix(name, ".yaml"), ".yml")
}

// Validate checks a study, with its defaults filled in, against the names that
// this build knows. The error is an *Error with every problem found, with line
// and column where the study was parsed.
func (s Study) Validate(known Known) error {
	c := &checker{src: s.src, problems: append(s.check(), s.names(known)...)}
	c.variants(s, func(v Study) []Problem { return v.names(known) })
	c.limitCells(s, known)
	return s.src.report("study "+s.ID, c.problems)
}

// names finds the names in a study that this build does not know.
func (s Study) names(known Known) []Problem {
	c := &checker{src: s.src}
	withAll := known
	withAll.Targets = append([]string{AllTargets}, known.Targets...)
	c.target("targets", s.Targets, withAll)
	c.target("optional", s.Optional, known)
	c.target("beside", s.Beside, known)
	c.paths("paths", s.Paths, known.Paths)
	c.paths("optional-paths", s.OptionalPaths, known.Paths)
	if problem := known.Problem(s.Control); problem != "" && !slices.Contains(s.Targets, s.Control) { // said of the targets
		c.fail("control", "%s", problem)
	}
	for i, w := range s.Workloads {
		if w.Kind != "" {
			c.known(fmt.Sprintf("workloads[%d].kind", i), "workload", w.Kind, known.Kinds)
		}
		c.target(fmt.Sprintf("workloads[%d].except", i), w.Except, known)
	}
	c.loads("environments", s.Environments, known)
	c.loads("optional-environments", s.OptionalEnvironments, known)
	return c.problems
}

// loads checks the names in levels' loads.
func (c *checker) loads(key string, levels []Environment, known Known) {
	for i, l := range levels {
		if l.Load == nil || l.Load.Kind == "" {
			continue
		}
		at := fmt.Sprintf("%s[%d].load", key, i)
		c.known(at+".kind", "workload", l.Load.Kind, known.Kinds)
		if problem := known.Problem(l.Load.On()); problem != "" {
			c.fail(at+".target", "%s", problem)
		}
	}
}

// check finds what is wrong with a study in itself.
func (s Study) check() []Problem {
	c := &checker{src: s.src}
	if !plain.MatchString(s.ID) {
		c.fail("id", "%q is no id: use lower-case letters, digits and dashes, at most 64, beginning with a letter or digit", s.ID)
	}
	c.targets(s)
	c.workloads(s.Workloads)
	for i, w := range s.Workloads {
		if at := fmt.Sprintf("workloads[%d].except", i); slices.Contains(w.Except, s.Control) {
			c.fail(at, "the control %q cannot be left out: every ratio refers to it", s.Control)
		} else {
			c.distinct(at, w.Except)
		}
	}
	c.environments("environments", s.Environments, nil)
	c.environments("optional-environments", s.OptionalEnvironments, s.Environments)
	c.optionalEnvironments(s.OptionalEnvironments)
	c.environmentsOf(s)
	c.distinctEnvironments(s)
	c.instances("instances", s.Copies)
	c.instances("control-instances", s.ControlCopies)
	c.instances("concurrency", s.Concurrency)
	c.distinct("kernels", s.Kernels)
	c.rules(s)
	c.limits(s.Limits)
	c.size(s)
	for _, name := range slices.Sorted(maps.Keys(s.Variants)) {
		if !plain.MatchString(name) {
			c.fail("variants."+name, "%q is not a name for a variant: use lower-case letters, digits and dashes, at most 64", name)
		}
	}
	c.variants(s, Study.check)
	return c.problems
}

// variants adds the problems of variants that are not the study's too.
func (c *checker) variants(s Study, problems func(Study) []Problem) {
	type what struct{ key, message string }
	own := map[what]bool{}
	for _, p := range c.problems {
		own[what{p.Key, p.Message}] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.Variants)) {
		for _, p := range problems(s.Variants[name]) {
			if !own[what{p.Key, p.Message}] {
				p.Key = join("variants."+name, p.Key)
				c.problems = append(c.problems, p)
			}
		}
	}
}

type checker struct {
	src      *source
	problems []Problem
}

func (c *checker) fail(key, format string, args ...any) {
	c.problems = append(c.problems, c.src.problem(key, fmt.Sprintf(format, args...)))
}

func (c *checker) known(key, what, name string, known []string) {
	if !slices.Contains(known, name) {
		c.fail(key, "%s", unknown(what, name, known))
	}
}

// target checks names of targets, with or without a path.
func (c *checker) target(key string, names []string, known Known) {
	for i, name := range names {
		if problem := known.Problem(name); problem != "" {
			c.fail(fmt.Sprintf("%s[%d]", key, i), "%s", problem)
		}
	}
}

func (c *checker) paths(key string, names, known []string) {
	c.distinct(key, names)
	for i, name := range names {
		c.known(fmt.Sprintf("%s[%d]", key, i), "path", name, known)
	}
}

// Problem says what is wrong with a target's name, with or without a path, and
// names the nearest; "" when nothing is.
func (k Known) Problem(name string) string {
	base, path, placed := strings.Cut(name, PathSign)
	target, _, program := strings.Cut(base, kernelSign)
	switch {
	case program && slices.Contains(k.Targets, target) && !slices.Contains(k.Targets, base):
		return fmt.Sprintf("target %q takes no program and no kernel: OCI runtimes take a program, virtual machines a kernel", target)
	case !slices.Contains(k.Targets, base):
		return unknown("target", base, k.Targets)
	case placed && !slices.Contains(k.Paths, path):
		return unknown("path", path, k.Paths)
	}
	return ""
}

var (
	// A study's id becomes part of its runs' names, of files and of cgroups.
	plain = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)
	// A workload's name becomes part of cells' ids, where / + and ~ part the levels.
	noLevel = regexp.MustCompile(`[/+~\s\pC]`)
	// cpuset(7), list format without the stride.
	cpuList = regexp.MustCompile(`^([0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*|first(-[1-9][0-9]{0,4})?|rest|node-[0-9]{1,5})$`)
	memList = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$`)
)

// NameOf makes the name of a workload out of a text: what no name holds becomes _, and
// what is too long is cut.
func NameOf(text string) string {
	name := []rune(noLevel.ReplaceAllString(text, "_"))
	return string(name[:min(len(name), 64)])
}

// isLevel reports whether text is such a name. An expression that counts the characters
// itself would be a tenth of all that tare takes before it does anything.
func isLevel(text string) bool { return text != "" && NameOf(text) == text }

func (c *checker) targets(s Study) {
	if len(s.Targets)+len(s.Optional) == 0 {
		c.fail("targets", "the plan is empty: name at least one target, or all")
	}
	c.distinct("targets", s.Targets)
	c.distinct("optional", s.Optional)
	c.distinct("beside", s.Beside)
	if slices.Contains(s.Optional, s.Control) {
		c.fail("control", "the control %q cannot be optional: every ratio refers to it", s.Control)
	}
}

func (c *checker) distinct(key string, names []string) {
	seen := map[string]bool{}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case name == "":
			c.fail(at, "is empty")
		case seen[name]:
			c.fail(at, "%q stands twice", name)
		}
		seen[name] = true
	}
}

func (c *checker) workloads(workloads []Workload) {
	if len(workloads) == 0 {
		c.fail("workloads", "the plan is empty: name at least one workload")
	}
	if len(workloads) > 0 && !slices.ContainsFunc(workloads, func(w Workload) bool { return !w.Extra }) {
		c.fail("workloads", "the plan is empty: every workload is extra, which is off by default")
	}
	seen := map[string]bool{}
	for i, w := range workloads {
		at := fmt.Sprintf("workloads[%d]", i)
		if w.Kind == "" {
			c.fail(at+".kind", "a workload needs its kind")
			continue
		}
		if !isLevel(w.Name) {
			c.fail(at+".name", "%q is not a name for a workload: use at most 64 characters without blanks, slashes, + and ~", w.Name)
		}
		if seen[w.Name] {
			c.fail(at+".name", "a second workload is named %q: give each a name of its own", w.Name)
		}
		seen[w.Name] = true
		c.distinct(at+".metrics", w.Metrics)
		c.instances(at+".instances", w.Copies)
		if w.Blocks < 0 {
			c.fail(at+".blocks", "%d blocks: a workload is in at least 1", w.Blocks)
		}
		if w.Runs < 0 || w.Runs > MaxRuns {
			c.fail(at+".runs", "%d runs: a block has 1 to %d of each target", w.Runs, MaxRuns)
		}
		if w.Within < 0 || w.Within > 0 && w.Runs < 2 {
			c.fail(at+".within", "%v: it bounds the time of a target's runs in a block, so runs must be 2 or more", w.Within)
		}
		if w.Rounds != nil {
			c.roundsOf(at+".rounds", *w.Rounds)
		}
		c.instances(at+".concurrency", w.Concurrency)
		for name := range w.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				c.fail(at+".env."+name, "%q is not a name for an environment variable", name)
			}
		}
	}
}

// environments checks levels; before are others of the study.
func (c *checker) environments(key string, levels, before []Environment) {
	for i, l := range levels {
		at := fmt.Sprintf("%s[%d]", key, i)
		c.shares(at, l)
		c.network(at+".network", l.Network)
		c.load(at+".load", l.Load)
		if l.PageCache != "" && l.PageCache != PageCacheCold {
			c.fail(at+".page-cache", "%s", unknown("value", l.PageCache, []string{PageCacheCold}))
		}
		if l.Guest != nil && (l.Guest.KSM || l.Guest.HugePages) && l.Network != nil && l.Network.Limit > 0 {
			c.fail(at+".guest", "a level changes one thing of the whole machine: guest.ksm and guest.huge-pages, or network.neighbour-limit")
		}
		c.levelName(at, l, slices.Concat(before, levels[:i]))
	}
}

// shares checks what a level's instances get of the machine.
func (c *checker) shares(at string, l Environment) {
	if l.CPUs < 0 {
		c.fail(at+".cpus", "%g is negative", l.CPUs)
	}
	if l.CPUs > 0 && l.CPUs < minCPUs {
		c.fail(at+".cpus", "%g of a CPU is less than %g, the smallest limit of the kernel: give at least that", l.CPUs, minCPUs)
	}
	if l.Memory < 0 {
		c.fail(at+".memory", "%d is negative", l.Memory)
	}
	if l.Memory > 0 && l.Memory < minMemory {
		c.fail(at+".memory", "%s is less than %s, in which no process starts", formatSize(l.Memory), formatSize(minMemory))
	}
	if l.Pids < 0 {
		c.fail(at+".pids", "%d is negative", l.Pids)
	}
	if l.CPUSet != "" && !cpuList.MatchString(l.CPUSet) {
		c.fail(at+".cpuset", "%q is not a list of CPUs: write it as 0-1 or 0,2, or as first or first-4 for the first of the CPUs that tare may use, as rest for all but the first, or as node-0 for those of a NUMA node", l.CPUSet)
	}
	if l.Mems != "" && !memList.MatchString(l.Mems) {
		c.fail(at+".mems", "%q is not a list of NUMA nodes: write it as 0 or 0-1", l.Mems)
	}
	if l.Shares != 0 && (l.Shares < minShares || l.Shares > maxShares) {
		c.fail(at+".shares", "%d shares: the kernel takes %d to %d, and 1024 is its default", l.Shares, minShares, maxShares)
	}
	if l.Idle && l.Shares != 0 {
		c.fail(at+".idle", "a group that is idle has no shares: leave one of idle and shares out")
	}
}

// load checks what runs next to a level's instances.
func (c *checker) load(at string, l *Load) {
	if l == nil {
		return
	}
	if l.Kind == "" {
		c.fail(at+".kind", "a load needs the kind of its workload")
	}
	c.shares(at, l.Environment())
	if l.Instances == "" || l.Instances == PerCPU {
		return
	}
	if n, err := strconv.Atoi(l.Instances); err != nil || n < 1 || n > maxCopies {
		c.fail(at+".instances", "%q is not a number of instances: write 1 to %d, or %s for one for each CPU", l.Instances, maxCopies, PerCPU)
	}
}

// environmentsOf wants the environments that workloads name to be the study's, and one
// for each workload that names none.
func (c *checker) environmentsOf(s Study) {
	var names []string
	all := slices.Concat(s.Environments, s.OptionalEnvironments)
	for _, l := range all {
		names = append(names, l.Name)
	}
	onlyExtra := len(all) > 0 && !slices.ContainsFunc(all, func(l Environment) bool { return !l.Extra })
	for i, w := range s.Workloads {
		if onlyExtra && len(w.Environments) == 0 {
			c.fail(fmt.Sprintf("workloads[%d].environments", i), "all environments of the study are extra: the workload must name those that it is measured in, or one must not be extra (environments: [{}] is the machine as it is)")
		}
		for j, name := range w.Environments {
			c.known(fmt.Sprintf("workloads[%d].environments[%d]", i, j), "environment of the study", name, names)
		}
	}
}

// optionalEnvironments wants names for levels that may be skipped.
func (c *checker) optionalEnvironments(levels []Environment) {
	for i, l := range levels {
		if l.Name == "" {
			c.fail(fmt.Sprintf("optional-environments[%d]", i), "an optional level needs a name: a report names those that are skipped")
		}
	}
}

// distinctEnvironments wants names for levels of which one may stand for another.
func (c *checker) distinctEnvironments(s Study) {
	for i, l := range s.Environments { // optional ones have names anyway
		if s.DistinctEnvironments && l.Name == "" {
			c.fail(fmt.Sprintf("environments[%d]", i), "a level needs a name where distinct-environments is set: a report names those that come to the same")
		}
	}
}

// levelName keeps levels apart: by their names, or by what they limit.
func (c *checker) levelName(at string, l Environment, before []Environment) {
	switch {
	case l.Name == "" && l.Network != nil:
		c.fail(at+".network", "a level with a network needs a name, by which its cells are told from others")
	case l.Name == "" && l.Guest != nil:
		c.fail(at+".guest", "a level with a guest needs a name, by which its cells are told from others")
	case l.Name == "" && l.Load != nil:
		c.fail(at+".load", "a level with a load needs a name, by which its cells are told from others")
	case l.Name == "" && l.Image+l.PageCache != "":
		c.fail(at, "a level with an image or a page cache needs a name, by which its cells are told from others")
	case l.Name == "" && len(l.Params) > 0:
		c.fail(at+".params", "a level with parameters needs a name, by which its cells are told from others")
	case l.Name != "" && !isLevel(l.Name):
		c.fail(at+".name", "%q is not a name for a level: use at most 64 characters without blanks, slashes, + and ~", l.Name)
	}
	for _, b := range before {
		switch {
		case b.Name != l.Name:
		case l.Name != "":
			c.fail(at+".name", "a second level is named %q: give each a name of its own", l.Name)
		case suffix(b, 1) == suffix(l, 1):
			c.fail(at, "the same limits stand twice")
		}
	}
}

func (c *checker) instances(key string, copies []int) {
	for i, n := range copies {
		at := fmt.Sprintf("%s[%d]", key, i)
		if n < 1 || n > maxCopies {
			c.fail(at, "%d instances: between 1 and %d can run at once", n, maxCopies)
		}
		if slices.Contains(copies[:i], n) {
			c.fail(at, "%d stands twice", n)
		}
	}
}

func (c *checker) rules(s Study) {
	if s.Blocks < 1 || s.Blocks > maxBlocks {
		c.fail("blocks", "%d blocks: a study needs at least 1 and at most %d", s.Blocks, maxBlocks)
	}
	if f := s.FewerBlocks; f != (FewerBlocks{}) && (f.Blocks < 1 || f.From < 1) {
		c.fail("fewer-blocks", "needs from and blocks, both at least 1: from so many instances on, so many blocks")
	}
	if !(s.Margin > 0 && s.Margin < 1) {
		c.fail("margin", "%g is not between 0 and 1", s.Margin)
	}
	if !(s.Alpha > 0 && s.Alpha <= 0.5) {
		c.fail("alpha", "%g is not between 0 and 0.5", s.Alpha)
	}
	if s.Precision < 0 || s.Precision >= 1 {
		c.fail("precision", "%g is not between 0 and 1", s.Precision)
	}
	if s.Budget < 0 {
		c.fail("budget", "%s is negative", s.Budget)
	}
	if s.Timeout <= 0 {
		c.fail("timeout", "%s is not above zero", s.Timeout)
	}
	c.roundsOf("rounds", s.Rounds)
	if s.Slice < minSlice || s.Slice > maxSlice {
		c.fail("slice", "%s is not between %s and %s", s.Slice, minSlice, maxSlice)
	}
	if len(s.Beside) > 0 && s.View != ViewLadder {
		c.fail("beside", "only a ladder has a chain that targets can stand beside: set view: ladder, or leave it out")
	}
	c.interventions(s)
	c.probes("probes", s.Probes)
	c.probes("optional-probes", s.OptionalProbes)
	if s.WatchedBlocks < 0 {
		c.fail("watched-blocks", "%d blocks: must be at least 1, or left out for all", s.WatchedBlocks)
	}
	if s.WatchedFrom < 0 {
		c.fail("watched-from", "%d instances: must be at least 1, or left out for any number", s.WatchedFrom)
	}
	if views := []string{string(ViewPriceList), string(ViewLadder)}; !slices.Contains(views, string(s.View)) {
		c.fail("view", "%s", unknown("view", string(s.View), views))
	}
}

func (c *checker) roundsOf(key string, rounds int) {
	if rounds < 0 || rounds > maxRounds {
		c.fail(key, "%d rounds: a block has at most %d, or 0 for a window", rounds, maxRounds)
	}
}

func (c *checker) probes(key string, names []string) {
	c.distinct(key, names)
	for i, p := range names {
		if p != "" {
			c.known(fmt.Sprintf("%s[%d]", key, i), "probe", p, []string{ProbeLocks, ProbeStacks})
		}
	}
}

// size bounds the plan that Expand and the schedule would make.
func (c *checker) size(s Study) {
	cells, ofBlock := 0, 0
	each := (len(s.Targets) + len(s.Optional) + 2) * max(1, len(s.Paths)+len(s.OptionalPaths)) * max(1, len(s.Environments)+len(s.OptionalEnvironments))
	each *= 1 + len(s.Probes) + len(s.OptionalProbes)
	for _, w := range s.Workloads {
		n := each * (len(s.copiesOf(w)) + len(s.ControlCopies)) * len(s.levelsOfConcurrency(w))
		cells, ofBlock = cells+n, ofBlock+n*max(1, w.Runs)
	}
	if cells > maxCells {
		c.fail("", "the factors give about %d cells: at most %d can be planned; leave out levels", cells, maxCells)
	} else if trials := ofBlock * (s.Blocks + 1); trials > maxTrials {
		c.fail("blocks", "the plan would have about %d trials: at most %d can be planned", trials, maxTrials)
	}
}

// interventions must each be another thing than the control, and measured.
func (c *checker) interventions(s Study) {
	targets := []string{s.Control}
	for _, t := range slices.Concat(s.Targets, s.Optional) {
		if t != s.Control {
			targets = append(targets, t)
		}
	}
	names := s.workloadNames()
	for i, v := range s.Interventions {
		at := fmt.Sprintf("interventions[%d]", i)
		if v.Name == "" {
			c.fail(at+".name", "an intervention needs a name")
		}
		if v.Target != "" {
			c.known(at+".target", "target of the study", v.Target, targets)
		}
		switch {
		case v.Workload != "":
			c.known(at+".workload", "workload of the study", v.Workload, names)
			c.known(at+".against", "workload of the study", v.Against, names)
		case v.Against != "":
			c.known(at+".against", "target of the study", v.Against, targets)
		}
		arm, against := cmp.Or(v.Target, s.Control), cmp.Or(v.Against, s.Control)
		if v.Workload != "" && v.Workload == v.Against || v.Workload == "" && arm == against && (v.Concurrency == 0 || v.Against != "") {
			c.fail(at, "it is the control itself: name a target, a concurrency, or two workloads")
		}
		c.known(at+".expect", "expectation", string(v.Expect), []string{string(ExpectFaster), string(ExpectSlower), string(ExpectNone)})
	}
	for i, w := range s.Workloads {
		for j, t := range w.Targets {
			c.known(fmt.Sprintf("workloads[%d].targets[%d]", i, j), "target of the study", t, targets)
		}
	}
}
