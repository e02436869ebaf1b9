package main

import (
	"bufio"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/schedule"
	"github.com/tarelab/tare/internal/store"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/internal/workload"
)

// generate makes a finished run of about so many records in a state directory:
// six targets, one workload, the metrics that a real trial has. The records are
// written as the store writes them, without its flush after each.
func generate(state string, records int) error {
	st := study.Study{ID: "generated", Targets: []string{"host", "native", "runc", "crun", "youki"},
		Workloads: []study.Workload{{Name: "start", Kind: "start"}}}.WithDefaults()
	cells, _ := st.Expand(st.Targets)
	st.Blocks = records/len(cells) - 1
	job, err := workload.Resolve("start", nil, nil)
	if err != nil {
		return err
	}
	plan := schedule.Plan(cells, st.Blocks, 1)
	run, err := store.Create(state, store.Manifest{Created: time.Now().UTC(), Study: st, Cells: cells,
		Metrics: map[string][]sample.Metric{"start": job.Metrics}, Trials: len(plan)})
	if err != nil {
		return err
	}
	return errors.Join(write(filepath.Join(run.Dir(), "records.jsonl"), plan, cells, job.Metrics), run.Close())
}

func write(path string, plan []schedule.Trial, cells []study.Cell, metrics []sample.Metric) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	at := time.Now().UnixNano()
	for _, t := range plan {
		values := map[string][]float64{}
		for i, m := range metrics {
			values[m.Name] = []float64{float64(t.Cell+1) * float64(i+1) * 1e-3 * (1 + 0.1*random.NormFloat64())}
		}
		line, err := store.Line(sample.Record{Seq: t.Seq, Block: t.Block, Cell: cells[t.Cell].ID, At: at + int64(t.Seq)*1e6, Values: values})
		if err == nil {
			_, err = buffered.Write(line)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(buffered.Flush(), f.Close())
}
