package workload

import "github.com/tarelab/tare/internal/sample"

// general is the metrics of every workload, in the order of display, which the
// trial loop and the probes record. Times are of the host's CLOCK_MONOTONIC. CPU
// and memory cover all that belongs to the instance (payload and runtime);
// switches and faults cover the payload and the children that it waited for, as
// getrusage(2) counts them.
func general() []sample.Metric {
	return sample.Describe(
		sample.Ready, sample.Wall, sample.Run, sample.Created, sample.Started, sample.Detached, sample.Attached,
		sample.VMMExecuted, sample.VMMReady, sample.Restored, sample.Firmware, sample.KernelByte, sample.KernelBanner, sample.GuestInit, sample.Agent,
		sample.GuestKernel, sample.GuestAgent, sample.GuestAsked, sample.GuestExecuted,
		sample.CPU, sample.CPUUser, sample.CPUSystem, sample.PeakMemory,
		sample.VoluntarySwitches, sample.InvoluntarySwitches, sample.MinorFaults, sample.MajorFaults,
	)
}
