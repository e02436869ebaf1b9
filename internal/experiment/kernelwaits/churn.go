package kernelwaits

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
)

// churnCgroup is the workload that the publication is about.
const churnCgroup = "churn-cgroup"

// churnCell is a cell of a churn workload.
type churnCell struct {
	study.Cell
	Kind    string // of the workload
	Threads int
	Name    string // of its curve
}

// named gives cells the names of their curves: the workload's, and the target's where there
// are several.
func named(cells []churnCell) {
	several := slices.ContainsFunc(cells, func(c churnCell) bool { return c.Target != cells[0].Target })
	for i := range cells {
		if cells[i].Name = cells[i].Workload; several {
			cells[i].Name += " on " + cells[i].Target
		}
	}
}

// churned is what making and removing kernel objects from many tasks showed.
type churned struct {
	Curves []churnCurve `json:"curves"`
	// Tree is the published call tree of cgroup churn beside this machine's, for
	// the largest number of threads; empty where no cgroup churn was watched.
	Tree []churnBranch `json:"tree,omitempty"`
}

// churnCurve is one workload over the number of threads.
type churnCurve struct {
	Workload string       `json:"workload"` // and its target, where a run has several: kernels, for instance
	Points   []churnPoint `json:"points"`   // by rising number of threads
	// Locks are what its tasks waited for most, with the most threads that were
	// watched; empty where none were.
	Locks []lockShare `json:"locks,omitempty"`
}

// churnPoint is one workload with so many threads.
type churnPoint struct {
	Threads int              `json:"threads"`
	Rate    analysis.Summary `json:"rate"` // whole cycles a second
	Phases  []churnPhase     `json:"phases"`
}

// churnPhase is one step of a cycle; medians over blocks.
type churnPhase struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"` // a second, if all threads did nothing else
	P50  float64 `json:"p50"`  // seconds
	P99  float64 `json:"p99"`  // seconds; 0 of fewer than 100 cycles, whose Max is all that is known
	Max  float64 `json:"max"`  // seconds, the longest of a trial
}

// churnBranch is one way into a lock.
type churnBranch struct {
	Path      string  `json:"path"`
	Published float64 `json:"published"` // share of all samples; 0 where it is not given
	// PublishedWait is the share among the published branches that have one, and
	// Here that of the lock waits of each workload on this machine.
	PublishedWait float64            `json:"publishedWait"`
	Here          map[string]float64 `json:"here"`
	// PublishedRank and Rank order the published branches among themselves, 1 the
	// largest; 0 of the others, and where nothing was waited for.
	PublishedRank int            `json:"publishedRank,omitempty"`
	Rank          map[string]int `json:"rank,omitempty"`
}

// churnOf reads the churn cells of a run. profiles are those of watched cells.
func churnOf(in analysis.Input, cells []churnCell, profiles map[string]profile.Profile, s *source) *churned {
	in = in.WithDefaults()
	c := &churned{}
	named(cells)
	most := map[string]churnCell{}
	for _, cell := range cells {
		if cell.Probe != "" {
			if cell.Threads >= most[cell.Name].Threads && len(profiles[cell.ID].Waits) > 0 {
				most[cell.Name] = cell
			}
			continue
		}
		c.add(in, cell)
	}
	for i := range c.Curves {
		slices.SortFunc(c.Curves[i].Points, func(a, b churnPoint) int { return cmp.Compare(a.Threads, b.Threads) })
		c.Curves[i].Locks = lockShares(profiles[most[c.Curves[i].Workload].ID])
	}
	maps.DeleteFunc(most, func(_ string, cell churnCell) bool { return cell.Kind != churnCgroup })
	if len(most) > 0 {
		c.Tree = churnTree(most, profiles, s)
	}
	return c
}

// lockShares are the locks that a profile's own threads waited for most.
func lockShares(p profile.Profile) []lockShare {
	locks, _ := largestWaits(p.Table(), func(r profile.Row) bool { return r.Kind != profile.Sleep })
	return locks
}

func (c *churned) add(in analysis.Input, cell churnCell) {
	at := slices.IndexFunc(c.Curves, func(k churnCurve) bool { return k.Workload == cell.Name })
	if at < 0 {
		at = len(c.Curves)
		c.Curves = append(c.Curves, churnCurve{Workload: cell.Name})
	}
	point := churnPoint{Threads: cell.Threads, Rate: in.Summary(cell.ID, sample.Cycles)}
	if point.Rate.N == 0 {
		return
	}
	for _, m := range in.Metrics[cell.Workload] {
		phase, isRate := strings.CutSuffix(m.Name, "-rate")
		if !isRate {
			continue
		}
		point.Phases = append(point.Phases, churnPhase{Name: phase, Rate: in.Summary(cell.ID, m.Name).Median,
			P50: in.Summary(cell.ID, phase+"-p50").Median, P99: in.Summary(cell.ID, phase+"-p99").Median, Max: in.Summary(cell.ID, phase+"-max").Median})
	}
	c.Curves[at].Points = append(c.Curves[at].Points, point)
}

// churnTree compares the ways into the locks of cgroupfs. The publication
// counts samples, of which spinning is the most on 104 CPUs; on few CPUs waiters
// sleep, so waits are compared by time.
func churnTree(cells map[string]churnCell, profiles map[string]profile.Profile, s *source) []churnBranch {
	branches := []struct {
		path, within, lock string
		published          float64
	}{
		{"mkdir → the directory's i_rwsem", "do_mkdirat", profile.Directory, s.CallTree.Mkdirat.FilenameCreate["down_write"]},
		{"mkdir → cgroup_mkdir → cgroup_mutex", "do_mkdirat", profile.CgroupMutex, s.CallTree.Mkdirat.VFSMkdir["cgroup_kn_lock_live"]},
		{"write → cgroup_file_write", "vfs_write", "", s.CallTree.Write["cgroup_file_write"]},
		{"rmdir → the directory's i_rwsem", "do_rmdir", profile.Directory, 0},
		{"rmdir → cgroup_mutex", "do_rmdir", profile.CgroupMutex, 0},
	}
	var all float64
	for _, b := range branches {
		all += b.published
	}
	var tree []churnBranch
	for _, b := range branches {
		branch := churnBranch{Path: b.path, Published: b.published / 100, PublishedWait: b.published / max(all, 1e-9), Here: map[string]float64{}}
		for workload, cell := range cells {
			branch.Here[workload] = profiles[cell.ID].LockShare(b.within, b.lock)
		}
		tree = append(tree, branch)
	}
	rankBranches(tree)
	return tree
}

// rankBranches ranks the published branches by what they have in each place.
func rankBranches(tree []churnBranch) {
	rank := func(of func(churnBranch) float64, set func(*churnBranch, int)) {
		for i := range tree {
			if tree[i].Published == 0 || of(tree[i]) == 0 {
				continue
			}
			place := 1
			for _, b := range tree {
				if b.Published > 0 && of(b) > of(tree[i]) {
					place++
				}
			}
			set(&tree[i], place)
		}
	}
	rank(func(b churnBranch) float64 { return b.Published }, func(b *churnBranch, n int) { b.PublishedRank = n })
	for workload := range tree[0].Here {
		rank(func(b churnBranch) float64 { return b.Here[workload] }, func(b *churnBranch, n int) {
			if b.Rank == nil {
				b.Rank = map[string]int{}
			}
			b.Rank[workload] = n
		})
	}
}
