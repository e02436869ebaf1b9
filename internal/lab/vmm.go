package lab

import (
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/published"
)

// vmmPublished is the publication that comparisons of machine monitors stand
// beside.
const vmmPublished = "stratovirt-vs-qemu"

// vmmClaims puts a run beside the published comparison of StratoVirt and QEMU.
func vmmClaims(run *store.Run, claims *analysis.Claims) error {
	if run.Manifest().Study.Published != vmmPublished {
		return nil
	}
	d, err := published.LoadAs[*published.StratoVirtQEMU](vmmPublished)
	if err != nil {
		return err
	}
	in, err := input(run)
	if err != nil {
		return err
	}
	m := run.Manifest()
	claims.VMM = analysis.VMMStudy(in, claims.Tables, m.Study.Control, d)
	if !claims.VMM.Measured("stratovirt") {
		claims.VMM.CannotHere = withoutStratoVirt(m)
	}
	return nil
}

// withoutStratoVirt says why a run that asked for StratoVirt has no numbers of it; ""
// for one that did not ask.
func withoutStratoVirt(m store.Manifest) string {
	why := ""
	for _, name := range slices.Concat(m.Study.Targets, m.Study.Optional) {
		if !strings.HasPrefix(name, "stratovirt/") {
			continue
		}
		if left := m.LeftOut[name]; left != "" {
			return left
		}
		if _, worked := m.Targets[name]; worked {
			return "its trials gave no numbers"
		}
		why = "tare knows none for " + m.Host.Arch
	}
	return why
}
