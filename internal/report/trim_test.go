package report_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/report/reporttest"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/study"
	"github.com/tarelab/tare/published"
)

// bootsOf is a run of two targets, the second twice as fast, with the console
// that bootlog's tests have.
func bootsOf(t *testing.T) report.Input {
	t.Helper()
	d, err := published.LoadAs[*published.ContainerVMTrim]("container-vm-trim")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Open("../kerneltools/bootlog/testdata/stock-serial.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	boots, err := bootlog.Parse(log)
	if err != nil {
		t.Fatal(err)
	}
	boots[0].Processes = []bootlog.Process{{PID: 341, Parent: 1, Name: "dockerd", Start: 4 * time.Second, End: 8 * time.Second, CPU: 3 * time.Second}}
	profile := bootlog.New(&boots[0])
	text := "[    0.000000] Linux version 6.1.0\n[    0.500000] calling  rtc_init+0x0/0x10 @ 1\n[    0.507000] initcall rtc_init+0x0/0x10 returned 0 after 7000 usecs\n"
	if boots, err = bootlog.Parse(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	told := bootlog.New(&boots[0])
	told.Attribute(map[string][]bootlog.Origin{"rtc_init": {{Object: "drivers/rtc/class.o", Symbol: "RTC_CLASS"}}})
	var cells []study.Cell
	targets := []string{"vm/stock", "vm/trimmed"}
	for i, target := range targets {
		cells = append(cells, study.Cell{ID: target + "/boot", Target: target, Workload: "boot", Group: "boot", Copies: 1, Control: i == 0})
	}
	data := analysis.NewData(cells, 0)
	for block := range 8 {
		for i, c := range cells {
			values := map[string][]float64{}
			for metric, at := range map[string]float64{"kernel-byte": 1, "kernel": 1.2, "kernel-up": 3, "init": 3.2, "root": 5, "modules": 9, "docker0-up": 20, "ready": 30} {
				values[metric] = []float64{at / float64(i+1)}
			}
			data.Add(&sample.Record{Block: block, Cell: c.ID, Values: values})
		}
	}
	in := reporttest.Survey()
	in.Claims = analysis.Analyze(analysis.Input{Cells: cells, Data: data, Seed: 1})
	in.Claims.Trim = analysis.TrimStudy(analysis.TrimInput{
		Input: analysis.Input{Cells: cells, Data: data, Seed: 1}, Control: "vm/stock", Published: d,
		Boots: map[string]analysis.TrimBoot{"vm/stock": {Profile: profile, Values: map[string][]float64{"ready": {30}}, Told: told, Modules: []string{"ext4", "fuse"}}, "vm/trimmed": {Profile: profile}},
		Parts: map[string]map[string]string{"vm/stock": {"initrd-bytes": "20000000"}, "vm/trimmed": {"kernel-bytes": "5000000", "proof 01 docker run": "ok", "proof 02 crun": "failed: no device"}},
	})
	return in
}

func TestTrimSectionShowsBeforeAndAfter(t *testing.T) {
	in := bootsOf(t)
	var out bytes.Buffer
	if err := report.Write(&out, report.FormatMarkdown, in, report.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"How many times less than vm/stock", "| kernel up | 2.00", "The proof: what containers need", "failed: no device",
		"Costliest steps of vm/stock", "published, before", "47.7 s",
		"| stock calls | own ms |", "| vm/stock | 1 | 0.007 | 2 | ext4 fuse |", "| RTC\\_CLASS | 1 | 7.0 | drivers/rtc/class.o |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("Markdown lacks %q:\n%s", want, out.String())
		}
	}
	b := open(t, in, desktop)
	b.shoot("trim-light")
	b.clean()
	if n := b.count("#container-vm-trim .boots svg"); n != 2 {
		t.Errorf("%d boots are drawn, want 2", n)
	}
	if n := b.count("#container-vm-trim .flame .frame"); n != 4 {
		t.Errorf("%d frames, want all, the part, its symbol and the initcall", n)
	}
	if n := b.count(`#container-vm-trim .boots rect[fill-opacity="0.7125"]`); n != 2 { // 0.15 + 0.75 of three quarters of a CPU
		t.Errorf("the process dockerd is drawn %d times, want once a boot", n)
	}
}
