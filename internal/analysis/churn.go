package analysis

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/profile"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// ChurnCell is a cell of a churn workload.
type ChurnCell struct {
	study.Cell
	Kind    string // of the workload
	Threads int
}

// Churn is what making and removing kernel objects from many tasks showed.
type Churn struct {
	Curves []ChurnCurve `json:"curves"`
	// Tree is the published call tree of cgroup churn beside this machine's, for
	// the largest number of threads; empty where no cgroup churn was watched.
	Tree []ChurnBranch `json:"tree,omitempty"`
}

// ChurnCurve is one workload over the number of threads.
type ChurnCurve struct {
	Workload string       `json:"workload"`
	Points   []ChurnPoint `json:"points"` // by rising number of threads
	// Locks are what its tasks waited for most, with the most threads that were
	// watched; empty where none were.
	Locks []LockShare `json:"locks,omitempty"`
}

// ChurnPoint is one workload with so many threads.
type ChurnPoint struct {
	Threads int          `json:"threads"`
	Rate    Summary      `json:"rate"` // whole cycles a second
	Phases  []ChurnPhase `json:"phases"`
}

// ChurnPhase is one step of a cycle; medians over blocks.
type ChurnPhase struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"` // a second, if all threads did nothing else
	P50  float64 `json:"p50"`  // seconds
	P99  float64 `json:"p99"`  // seconds; 0 of fewer than 100 cycles, whose Max is all that is known
	Max  float64 `json:"max"`  // seconds, the longest of a trial
}

// ChurnBranch is one way into a lock.
type ChurnBranch struct {
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

// ChurnOf reads the churn cells of a run. profiles are those of watched cells.
func ChurnOf(in Input, cells []ChurnCell, profiles map[string]profile.Profile, source *published.ConcurrentStart) *Churn {
	in = in.defaults()
	c := &Churn{}
	most := map[string]ChurnCell{}
	for _, cell := range cells {
		if cell.Probe != "" {
			if cell.Threads >= most[cell.Workload].Threads && len(profiles[cell.ID].Waits) > 0 {
				most[cell.Workload] = cell
			}
			continue
		}
		c.add(in, cell)
	}
	for i := range c.Curves {
		slices.SortFunc(c.Curves[i].Points, func(a, b ChurnPoint) int { return cmp.Compare(a.Threads, b.Threads) })
		c.Curves[i].Locks = lockShares(profiles[most[c.Curves[i].Workload].ID])
	}
	maps.DeleteFunc(most, func(_ string, cell ChurnCell) bool { return cell.Kind != "churn-cgroup" })
	if len(most) > 0 {
		c.Tree = churnTree(most, profiles, source)
	}
	return c
}

// lockShares are the locks that a profile's own threads waited for most.
func lockShares(p profile.Profile) []LockShare {
	locks, _ := largestWaits(p.Table(), func(r profile.Row) bool { return r.Kind != profile.Sleep })
	return locks
}

func (c *Churn) add(in Input, cell ChurnCell) {
	at := slices.IndexFunc(c.Curves, func(k ChurnCurve) bool { return k.Workload == cell.Workload })
	if at < 0 {
		at = len(c.Curves)
		c.Curves = append(c.Curves, ChurnCurve{Workload: cell.Workload})
	}
	point := ChurnPoint{Threads: cell.Threads, Rate: in.summary(cell.ID, sample.Cycles)}
	if point.Rate.N == 0 {
		return
	}
	for _, m := range in.Metrics[cell.Workload] {
		phase, isRate := strings.CutSuffix(m.Name, "-rate")
		if !isRate {
			continue
		}
		point.Phases = append(point.Phases, ChurnPhase{Name: phase, Rate: in.summary(cell.ID, m.Name).Median,
			P50: in.summary(cell.ID, phase+"-p50").Median, P99: in.summary(cell.ID, phase+"-p99").Median, Max: in.summary(cell.ID, phase+"-max").Median})
	}
	c.Curves[at].Points = append(c.Curves[at].Points, point)
}

// summary describes one metric of one cell.
func (in Input) summary(cell, metric string) Summary {
	return summarize(in.Data.cells[cell].series(metric).values, rand.New(rand.NewPCG(in.Seed, 1)))
}

// churnTree compares the ways into the locks of cgroupfs. The publication
// counts samples, of which spinning is the most on 104 CPUs; on few CPUs waiters
// sleep, so waits are compared by time.
func churnTree(cells map[string]ChurnCell, profiles map[string]profile.Profile, source *published.ConcurrentStart) []ChurnBranch {
	branches := []struct {
		path, within, lock string
		published          float64
	}{
		{"mkdir → the directory's i_rwsem", "do_mkdirat", profile.Directory, source.CallTree.Mkdirat.FilenameCreate["down_write"]},
		{"mkdir → cgroup_mkdir → cgroup_mutex", "do_mkdirat", profile.CgroupMutex, source.CallTree.Mkdirat.VFSMkdir["cgroup_kn_lock_live"]},
		{"write → cgroup_file_write", "vfs_write", "", source.CallTree.Write["cgroup_file_write"]},
		{"rmdir → the directory's i_rwsem", "do_rmdir", profile.Directory, 0},
		{"rmdir → cgroup_mutex", "do_rmdir", profile.CgroupMutex, 0},
	}
	var all float64
	for _, b := range branches {
		all += b.published
	}
	var tree []ChurnBranch
	for _, b := range branches {
		branch := ChurnBranch{Path: b.path, Published: b.published / 100, PublishedWait: b.published / max(all, 1e-9), Here: map[string]float64{}}
		for workload, cell := range cells {
			branch.Here[workload] = profiles[cell.ID].LockShare(b.within, b.lock)
		}
		tree = append(tree, branch)
	}
	rankBranches(tree)
	return tree
}

// rankBranches ranks the published branches by what they have in each place.
func rankBranches(tree []ChurnBranch) {
	rank := func(of func(ChurnBranch) float64, set func(*ChurnBranch, int)) {
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
	rank(func(b ChurnBranch) float64 { return b.Published }, func(b *ChurnBranch, n int) { b.PublishedRank = n })
	for workload := range tree[0].Here {
		rank(func(b ChurnBranch) float64 { return b.Here[workload] }, func(b *ChurnBranch, n int) {
			if b.Rank == nil {
				b.Rank = map[string]int{}
			}
			b.Rank[workload] = n
		})
	}
}
