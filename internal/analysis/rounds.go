package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// blockSlices are what a cell did in the rounds of one block: by metric one value for
// each round, NaN where it has none.
type blockSlices struct {
	block  int32
	values map[string][]float64
}

// work is what all slices of a cell prove of the work that was done.
type work struct {
	bytes   float64 // moved, as the program says
	device  float64 // moved by devices
	counted bool    // devices' bytes are known of every block
	blocks  int
	slices  int
	stalled int // of them
	said    []string
}

// mostRound bounds the number of a round that a record may name.
const mostRound = 1 << 20

// addSlices takes the slices of one block. Lists of unequal lengths are cut to the
// shortest: what is beyond belongs to no slice.
func (c *column) addSlices(block int, s *sample.Slices) {
	n := min(len(s.Round), len(s.Count), len(s.Own), len(s.From), len(s.To))
	b := blockSlices{block: int32(block), values: map[string][]float64{}}
	for i := range n {
		if s.Round[i] < 0 || s.Round[i] > mostRound {
			continue
		}
		own, bracket := float64(s.Own[i]), float64(s.To[i]-s.From[i])
		b.set(sample.SliceRate, s.Round[i], s.Count[i]/own)
		b.set(sample.Turnaround, s.Round[i], bracket-own)
		if i < len(s.CPU) {
			b.set(sample.CPUEach, s.Round[i], float64(s.CPU[i])/s.Count[i])
		}
	}
	c.rounds = append(c.rounds, b)
	w := &c.work
	w.counted = s.Device != nil && (w.blocks == 0 || w.counted)
	w.blocks++
	w.slices, w.stalled = w.slices+n, w.stalled+min(n, len(s.Stalled))
	w.bytes += s.Bytes
	if s.Device != nil {
		w.device += *s.Device
	}
	for _, word := range s.Said {
		if !slices.Contains(w.said, word) && len(w.said) < maxKinds {
			w.said = append(w.said, word)
		}
	}
}

// set notes a round's value, where it has a logarithm.
func (b *blockSlices) set(metric string, round int, value float64) {
	if !finite(value) || value <= 0 {
		return
	}
	all := b.values[metric]
	for len(all) <= round {
		all = append(all, math.NaN())
	}
	all[round] = value
	b.values[metric] = all
}

// inRounds says whether a cell's metric is compared slice by slice.
func (c *column) inRounds(metric string) bool {
	return c != nil && slices.ContainsFunc(c.rounds, func(b blockSlices) bool { return len(b.values[metric]) > 0 })
}

func (c *column) slicesOf(block int32, metric string) []float64 {
	i := slices.IndexFunc(c.rounds, func(b blockSlices) bool { return b.block == block })
	if i < 0 {
		return nil
	}
	return c.rounds[i].values[metric]
}

// Where devices' bytes prove the work: at least, or at most, this share of the payload's.
const (
	deviceLeast = 0.9
	cachedMost  = 0.01
)

// unproven is why a cell cannot be compared with its control: they were measured in
// different ways, or its slices do not prove that it did the same work. It is "" where they
// do, or where the cell was not measured in rounds.
func (in Input) unproven(cell, control *column, cellName, controlName, workload string) string {
	return cmp.Or(otherWays(cell, control, cellName, controlName), in.otherWork(cell, control, cellName, controlName, workload))
}

// otherWork is why the slices of two cells do not prove the same work; "" where they do, or
// where a cell was not measured in rounds.
func (in Input) otherWork(cell, control *column, cellName, controlName, workload string) string {
	if cell == nil || control == nil || cell.work.blocks == 0 || control.work.blocks == 0 {
		return ""
	}
	kind := in.Evidence[workload]
	for _, side := range []struct {
		name string
		work work
	}{{controlName, control.work}, {cellName, cell.work}} {
		if why := side.work.lacks(kind); why != "" {
			return fmt.Sprintf("Not the same work: on %s %s.", side.name, why)
		}
	}
	if kind == sample.EvidenceSum && cell.work.check() != control.work.check() {
		return fmt.Sprintf("Not the same work: the checksum is %s on %s and %s on %s.", cell.work.check(), cellName, control.work.check(), controlName)
	}
	return ""
}

// lacks is why the work is not proven, "" where it is.
func (w work) lacks(kind sample.Evidence) string {
	switch kind {
	case sample.EvidenceSum:
		switch n := len(w.checks()); {
		case n == 0:
			return "the program named no checksum"
		case n > 1:
			return fmt.Sprintf("the checksum changed (%s)", strings.Join(w.checks(), ", "))
		}
	case sample.EvidenceCached, sample.EvidenceDevice:
		share := w.device / w.bytes
		switch {
		case slices.Contains(w.said, "direct=no"):
			return "the file system refused direct I/O"
		case w.bytes <= 0 || !finite(share):
			return "the program named no bytes that can be counted"
		case !w.counted:
			return "nothing counts what devices move for it"
		case kind == sample.EvidenceDevice && share < deviceLeast:
			return fmt.Sprintf("devices moved %s of the payload's bytes, so the rest came from memory", percent(share))
		case kind == sample.EvidenceCached && share > cachedMost:
			return fmt.Sprintf("devices moved %s of the payload's bytes, which were to come from memory", percent(share))
		}
	}
	return ""
}

// checks are the checksums that the program named.
func (w work) checks() []string {
	var all []string
	for _, word := range w.said {
		if sum, ok := strings.CutPrefix(word, "check="); ok {
			all = append(all, sum)
		}
	}
	return all
}

func (w work) check() string { return strings.Join(w.checks(), ", ") }
