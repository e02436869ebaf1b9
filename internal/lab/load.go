package lab

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/preflight"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/trial"
	"github.com/tarelab/tare/internal/workload"
)

// loadJob is what runs next to the instances of a level, on this machine.
type loadJob struct {
	job    workload.Job
	limits driver.Limits
	copies int
}

// newLoadJob resolves a load on a machine where these CPUs may be used.
func newLoadJob(l study.Load, allowed []int) (loadJob, error) {
	job, err := workload.Resolve(l.Kind, l.Params, nil)
	if err != nil {
		return loadJob{}, err
	}
	if job.Turns == nil {
		return loadJob{}, fmt.Errorf("kind %s cannot take turns with these parameters, and so cannot run next to others: take one that can, such as unix-dhrystone2 or slice-memory-bandwidth (docs/slices.md)", l.Kind)
	}
	set, usable, err := preflight.CPUsOf(l.Environment(), allowed)
	if err != nil {
		return loadJob{}, err
	}
	out := loadJob{job: job.InTurns(), limits: limitsOf(l.Environment()), copies: len(usable)}
	out.limits.CPUSet = set
	switch l.Instances {
	case study.PerCPU:
	case "":
		out.copies = 1
	default:
		if out.copies, err = strconv.Atoi(l.Instances); err != nil {
			return out, errors.New("instances: " + err.Error())
		}
	}
	return out, nil
}

// load is what runs next to a cell's instances; nil for nothing.
func (p *Plan) load(c study.Cell) *trial.Load {
	if c.Limits.Load == nil {
		return nil
	}
	l := p.loads[c.Environment]
	return &trial.Load{
		Driver: p.drivers[c.Limits.Load.On()], Copies: l.copies, Turn: l.job.Turns.Name, Timeout: p.Manifest.Study.Timeout,
		Spec: driver.Spec{
			Rootfs: p.root.Rootfs, Image: p.root.Layout, Mounts: p.root.Mounts, Args: l.job.Args,
			Env: environment(l.job.Env, nil), Limits: l.limits, Disk: l.job.Disk, Direct: l.job.Direct,
		},
	}
}
