package vmmcompare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// publishedClaims recomputes what the publication concludes, and asks of this
// machine what it can answer.
func publishedClaims(d *source, c *comparison) []finding.Claim {
	return []finding.Claim{
		residentClaim(c).AskedHere(hereRatios(c, tableFootprint, sample.PayloadRSS, sample.PayloadRSS, 0, 1/3.)),
		speedClaim(c),
		tailClaim(c).AskedHere(hereRatios(c, tableCPU, "16 threads", sample.LatencyP95, 3, math.Inf(1))),
		bootClaim(d),
		cacheClaim(c),
		fasterClaim(c),
	}
}

// find gives a row of the tables, nil for none.
func (c *comparison) find(table tableName, name, metric string) *comparedRow {
	i := slices.IndexFunc(c.Rows, func(r comparedRow) bool { return r.Table == table && r.Name == name && r.Metric.Name == metric })
	if i < 0 {
		return nil
	}
	return &c.Rows[i]
}

// hereRatios ask of each pair here whether StratoVirt by QEMU lies between two
// ratios: by its whole interval, and where the run's noise forbids no claim.
func hereRatios(c *comparison, table tableName, name, metric string, low, high float64) []finding.Answer {
	r := c.find(table, name, metric)
	if r == nil {
		return nil
	}
	var out []finding.Answer
	for _, p := range c.Pairs {
		e, ok := r.Ratios[p.Machine]
		h := finding.Answer{Target: p.StratoVirt, Computed: p.Refused, Verdict: finding.Refused}
		if ok {
			ratio := stats.Estimate{Value: e.Ratio, Interval: e.Interval}
			h.Computed = fmt.Sprintf("%.3g times %s's%s", e.Ratio, p.QEMU, cmp.Or(quantity.Span(ratio, "%.3g", 1), " (no interval)"))
			if e.Verdict != analysis.NotComparable {
				h.Verdict = finding.Within(ratio, low, high)
			}
		}
		if ok || p.Refused != "" {
			out = append(out, h)
		}
	}
	return out
}

func residentClaim(c *comparison) finding.Claim {
	r := c.find(tableFootprint, sample.PayloadRSS, sample.PayloadRSS)
	ratio := 1 / r.PublishedRatio()
	return finding.Judged(ratio > 3.5 && ratio < 4.5, "QEMU needs four times StratoVirt's resident memory.",
		"%.0f MB against %.0f MB: %.2f times; judged as 3.5 to 4.5", r.PublishedQEMU/1e6, r.PublishedStratoVirt/1e6, ratio)
}

// speedClaim: mean speed and latency of the CPU agree.
func speedClaim(c *comparison) finding.Claim {
	worst := 0.
	for _, r := range c.Rows {
		if r.Table == tableCPU && (r.Metric.Name == sample.Events || r.Metric.Name == sample.LatencyMean) {
			worst = max(worst, r.PublishedRatio()-1, 1-r.PublishedRatio())
		}
	}
	return finding.Judged(worst < 0.05, "Both have the same mean CPU speed and latency.", "at most %.1f %% apart at any number of threads; judged as below 5 %%", 100*worst)
}

// tailClaim: the 95th percentile at 16 threads and more.
func tailClaim(c *comparison) finding.Claim {
	var parts []string
	ok := true
	for _, threads := range []string{"4 threads", "16 threads", "32 threads", "64 threads"} {
		r := c.find(tableCPU, threads, sample.LatencyP95).PublishedRatio()
		parts = append(parts, fmt.Sprintf("%s: %.1f", threads, r))
		if threads == "4 threads" {
			ok = ok && r > 1.7 && r < 2.1
		} else {
			ok = ok && r > 3.5 && r < 4.1
		}
	}
	return finding.Judged(ok, "StratoVirt's 95th percentile is 1.9 times QEMU's with 4 threads and 3.7 to 3.9 times with 16 and more.", "%s", strings.Join(parts, ", "))
}

func bootClaim(d *source) finding.Claim {
	boots := publishedBoots(d)
	s, q := boots[0], boots[1]
	return finding.Judged(s.Total.Value > 10*q.Total.Value, "StratoVirt boots far slower than QEMU.",
		"in all %.1f s against %.1f s, but userspace alone takes %.1f s and %.1f s: a unit of the guest that waits, which is no cost of a monitor; the kernel takes %.2f s and %.2f s",
		s.Total.Value, q.Total.Value, s.Phases[1].Seconds, q.Phases[2].Seconds, s.Phases[0].Seconds, q.Phases[0].Seconds)
}

// cacheClaim: what is read of 20 MB is memory.
func cacheClaim(c *comparison) finding.Claim {
	r := c.find(tableThroughput, "rndrd", sample.ReadThroughput)
	const gib = 1 << 30
	return finding.Judged(min(r.PublishedStratoVirt, r.PublishedQEMU) > 5*gib, "20 MB of files lie in the page cache, so reads run at memory speed.",
		"%.1f and %.1f GiB/s of random reads, more than any disk of such a machine gives", r.PublishedStratoVirt/gib, r.PublishedQEMU/gib)
}

// fasterClaim counts who leads where.
func fasterClaim(c *comparison) finding.Claim {
	leads := func(table tableName, pick func(comparedRow) bool) (n, of int) {
		for _, r := range c.Rows {
			if r.Table != table || !pick(r) || r.PublishedRatio() == 0 {
				continue
			}
			of++
			if (r.PublishedRatio() > 1) == (r.Metric.Better == "higher") {
				n++
			}
		}
		return n, of
	}
	all := func(comparedRow) bool { return true }
	sequential, ofSequential := leads(tableMemory, func(r comparedRow) bool { return strings.HasSuffix(r.Name, "seq") })
	throughput, ofThroughput := leads(tableThroughput, all)
	iops, ofIOPS := leads(tableIOPS, all)
	latency, ofLatency := leads(tableLatency, func(r comparedRow) bool { return r.Metric.Name == sample.LatencyMean })
	return finding.Judged(sequential == ofSequential && throughput == ofThroughput && 2*iops > ofIOPS && latency == 0,
		"StratoVirt is faster in sequential memory access, file throughput and most operations a second, QEMU in the latency of a single thread.",
		"StratoVirt leads in %d of %d sequential memory rows, %d of %d throughputs, %d of %d rates of operations, and %d of %d mean latencies that were not cut to 0",
		sequential, ofSequential, throughput, ofThroughput, iops, ofIOPS, latency, ofLatency)
}
