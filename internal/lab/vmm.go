package lab

import (
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
		claims.VMM.CannotHere = m.LeftOut["stratovirt/microvm"]
	}
	return nil
}
