package unixbench

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/tarelab/tare/internal/claim"
	"github.com/tarelab/tare/internal/finding"
)

// Names of the tables of docker-on-loongson.
const (
	all4CPUs  = "containers-4cpu-4copies"
	oneCPU    = "containers-1cpu-1copy"
	one4CPUs  = "containers-4cpu-1copy"
	platform1 = "platforms-1copy"
	platformN = "platforms-ncopies"
)

// claimsOf are the sentences of docker-on-loongson. A cell that is missing is an error.
func claimsOf(d *source) (*claim.Claims, error) {
	cells := map[string]float64{
		"text.dhrystone2_1copy": d.Text.Dhrystone2OneCopy, "text.dhrystone2_ncopies": d.Text.Dhrystone2NCopies,
		"onecopy.whetstone.8": d.EightContainers.WhetstoneOneCopy, "ncopies.whetstone.8": d.EightContainers.WhetstoneNCopies,
	}
	for short, table := range map[string]string{"onecpu": oneCPU, "ncopies": all4CPUs, "onecopy": one4CPUs, "platforms1": platform1, "platformsn": platformN} {
		t, ok := d.Tables[table]
		if !ok {
			continue // the claims about it are errors
		}
		columns := t.Hosts
		if t.Host != "" {
			columns = columnsOf(d.Method.Containers, func(n int) string { return fmt.Sprint(n) })
		}
		for _, test := range d.Tests {
			row := t.Row(test)
			for i, score := range row {
				cells[short+"."+test+"."+columns[i]] = score
			}
			if table == oneCPU {
				cells["decay."+test] = decay(row[1:])
			}
		}
	}
	return claim.Read(claimsFile, cells)
}

// decay is b of the least-squares fit of score = a/n^b to scores at n = 1, 2, ...
func decay(scores []float64) float64 {
	x, y := make([]float64, len(scores)), make([]float64, len(scores))
	for i, s := range scores {
		x[i], y[i] = math.Log(float64(i+1)), math.Log(s)
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return -slope
}

// checkClaims judges the publication's claims, and asks each that one machine can answer
// of every container target here.
func checkClaims(u *description, d *source) ([]finding.Claim, error) {
	all, err := claimsOf(d)
	if err != nil {
		return nil, err
	}
	var targets []claim.Target
	for _, target := range u.containerTargets() {
		targets = append(targets, claim.Target{Name: target, Cells: claim.Of(u.cells(target, d.Tests))})
	}
	return all.Judge(nil, targets...), nil
}
