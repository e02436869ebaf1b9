package profile

import (
	"slices"
	"strings"
	"time"
)

// FunctionShare is how much of all samples on a CPU one function took.
type FunctionShare struct {
	Name string  `json:"name"`
	Self float64 `json:"self"` // the share in which it ran itself, 0 to 1
	All  float64 `json:"all"`  // the same, with what it called
}

// Functions are the functions of the samples on a CPU, of all threads, the largest
// share with callees first. A function that stands twice on a stack counts once.
func (p Profile) Functions() []FunctionShare {
	var whole time.Duration
	self, all := map[string]time.Duration{}, map[string]time.Duration{}
	for _, s := range p.Samples {
		if s.State != OnCPU {
			continue
		}
		whole += s.Total
		seen := map[string]bool{}
		for i, f := range slices.Concat(p.frames(s.Stack), p.frames(s.User)) {
			name := withoutSuffix(f)
			if i == 0 {
				self[name] += s.Total
			}
			if !seen[name] {
				seen[name] = true
				all[name] += s.Total
			}
		}
	}
	if whole == 0 {
		return nil
	}
	rows := make([]FunctionShare, 0, len(all))
	for name, total := range all {
		rows = append(rows, FunctionShare{name, float64(self[name]) / float64(whole), float64(total) / float64(whole)})
	}
	byTotal(rows, func(r FunctionShare) float64 { return r.All }, func(r FunctionShare) string { return r.Name })
	return rows
}

// suffixes are what compilers append to a function's name.
var suffixes = []string{".constprop.", ".isra.", ".part.", ".cold", ".llvm."}

// withoutSuffix is a function's name as its source has it; dots of other languages stay.
func withoutSuffix(function string) string {
	for _, s := range suffixes {
		function, _, _ = strings.Cut(function, s)
	}
	return function
}
