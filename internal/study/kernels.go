package study

import (
	"slices"
	"strings"
)

// kernelSign stands between a machine's name and the kernel that its guests have.
const kernelSign = "="

// OnKernels gives the targets the study's kernels: in the order of targets, and for each
// in the order of kernels. The control takes the first one. The result has no kernels left.
func (s Study) OnKernels() Study {
	if len(s.Kernels) == 0 {
		return s
	}
	if slices.Contains(s.Targets, s.Control) {
		s.Control = withKernels([]string{s.Control}, s.Kernels[:1])[0]
	}
	for _, names := range []*[]string{&s.Targets, &s.Optional, &s.Beside} {
		*names = withKernels(*names, s.Kernels)
	}
	s.Workloads = slices.Clone(s.Workloads)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for _, names := range []*[]string{&w.Targets, &w.Except} {
			*names = withKernels(*names, s.Kernels)
		}
	}
	s.Kernels = nil
	return s
}

// withKernels gives every target each kernel; one that names its kernel stays as it is.
func withKernels(targets, kernels []string) (all []string) {
	for _, t := range targets {
		base, path, placed := strings.Cut(t, PathSign)
		if strings.Contains(base, kernelSign) {
			all = append(all, t)
			continue
		}
		for _, k := range kernels {
			name := base + kernelSign + k
			if placed {
				name += PathSign + path
			}
			all = append(all, name)
		}
	}
	return all
}
