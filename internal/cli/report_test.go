package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/experiment"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/report"
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/store"
)

// planted is what a shared report of planted runs must not have, besides what is each
// machine's own.
var planted = []string{"alicia", "mallory", "private", "far-secret", "198.51.100.7", "2001:db8::5"}

// TestShare looks for what identifies machines in reports of each format: with --share
// it is in none, for one run and for two of other machines.
func TestShare(t *testing.T) {
	secrets := map[string][]string{ // of the manifest's host, and the manifest
		"first":  {"secret-of-first", "0a1b2c3d-boot-first", "/srv/private-first/work", "keyed-id-first", "ip=secret-first"},
		"second": {"secret-of-second", "0a1b2c3d-boot-second", "/srv/private-second/work", "keyed-id-second", "ip=secret-second"},
	}
	dirs := map[string]string{}
	for name, s := range secrets {
		dirs[name] = madeOn(t, filepath.Join(t.TempDir(), "private-directory"), s)
	}
	for _, format := range report.Formats() {
		for _, runs := range [][]string{{"first"}, {"first", "second"}} {
			args := []string{"report", "--salvage", "--format", string(format), "--all"}
			for _, r := range runs {
				args = append(args, dirs[r])
			}
			shared, shown := reportOf(t, append(args, "--share")), ""
			if format == report.FormatJSON || format == report.FormatCSV {
				shown = reportOf(t, args)
			}
			for _, secret := range slices.Concat(planted, secrets["first"], secrets["second"]) {
				if at := strings.Index(shared, secret); at >= 0 {
					t.Errorf("%s of %v with --share has %q: %s", format, runs, secret, shared[max(0, at-100):min(len(shared), at+100)])
				}
				if format == report.FormatJSON && len(runs) == 2 && !strings.Contains(shown, secret) {
					t.Errorf("%s of %v without --share has no %q: the test looks for the wrong words", format, runs, secret)
				}
			}
			if len(runs) == 2 && format == report.FormatText && !strings.Contains(shared, "machine 2") {
				t.Errorf("the two machines have no numbers:\n%s", shared)
			}
			if format == report.FormatCSV {
				named := strings.NewReplacer(oneProgram, "native", otherProgram, "native-2").Replace(shown)
				if d := cmp.Diff(samples(t, named), samples(t, shared)); d != "" {
					t.Errorf("%s of %v with --share differs: %s", format, runs, d)
				}
			}
		}
	}
}

// samples are the columns of a CSV report that no bootstrap, whose seed depends on names,
// has a part in.
func samples(t *testing.T, text string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i] = rows[i][:15]
	}
	return rows
}

// The programs of the planted runs' targets.
const (
	oneProgram   = "/home/alicia/private/native"
	otherProgram = "/opt/private(old)/native"
)

// madeOn makes the run of a machine with these names, in which each text that people or
// programs write names more of it, and returns its directory.
func madeOn(t *testing.T, root string, names []string) string {
	t.Helper()
	text := "open /home/alicia/private/x.conf on " + names[0] + ": mallory@far-secret: denied, 198.51.100.7:22 refused, /srv/private dir/root/bin/x"
	from, err := store.Open("testdata/runs/planted")
	if err != nil {
		t.Fatal(err)
	}
	m := renamed(t, from.Manifest())
	m.Host.Hostname, m.Host.BootID, m.Dir, m.Host.Machine, m.Host.CommandLine = names[0], names[1], names[2], names[3], names[4]
	m.Command = []string{"tare", "run", "/srv/private/few.yaml", "--peer", "ssh://mallory@far-secret/home/mallory/tare", "--state=/home/alicia", "-o/home/alicia/x.html", "--on=native=" + oneProgram, "--", "/home/alicia/private/x", names[0]}
	m.Targets["host"] = driver.Facts{Path: "/home/alicia/private/host", Notes: map[string]string{"here": "2001:db8::5 and 198.51.100.7, " + oneProgram}}
	m.LeftOut, m.MissingCounters = map[string]string{"crun=/srv/private/crun": text}, map[string]string{"cycles": text}
	m.Rootfs, m.ImageSource = "/srv/private dir/root", "/home/alicia/image.tar"
	m.Guest = &driver.Guest{Kernel: "/home/alicia/private/vmlinuz", Rootfs: "/srv/private disk/root.qcow2"}
	m.Peer = &store.Peer{Here: "2001:db8::5", There: "198.51.100.7", Host: hostinfo.Host{Hostname: "far-secret.example.org"}}
	run, err := store.Create(root, m)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range from.Records() {
		if err != nil {
			t.Fatal(err)
		}
		r = renamed(t, r)
		if strings.Contains(r.Cell, otherProgram) && r.Block == 3 {
			r.Failure = &sample.Failure{Fault: sample.FaultTarget, Phase: "start", Message: text, Stderr: text, Each: []sample.CopiesFailure{{Message: text}}}
		}
		r.Warnings = []sample.Warning{{Kind: sample.Note, Text: text}}
		if err := run.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.OpenFile(filepath.Join(run.Dir(), "records.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	if _, err := damaged.WriteString("this is a line that is no record\n"); err != nil {
		t.Fatal(err)
	}
	return run.Dir()
}

// renamed is a copy of what has targets, with others.
func renamed[T any](t *testing.T, v T) (out T) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		text := strings.NewReplacer(`"native/spawn`, `"native=`+otherProgram, `/native/spawn`, `/native=`+otherProgram, `"native`, `"native=`+oneProgram, `/native`, `/native=`+oneProgram).Replace(string(data))
		err = json.Unmarshal([]byte(text), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reportOf(t *testing.T, args []string) string {
	t.Helper()
	var out, said bytes.Buffer
	env := Env{Args: args, Stdout: &out, Stderr: &said, Getenv: func(string) string { return "" }}
	if code := Main(env); code != exitOK {
		t.Fatalf("tare %s: exit code %d\n%s", strings.Join(args, " "), code, said.String())
	}
	return out.String()
}

// TestReportOfALiveRun: who reads a run while it is measured is not sent to resume it,
// which would fail; who measured it, and was interrupted, is.
func TestReportOfALiveRun(t *testing.T) {
	from, err := store.Open("testdata/runs/planted")
	if err != nil {
		t.Fatal(err)
	}
	run, err := store.Create(t.TempDir(), from.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for r, err := range from.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if r.Block < 6 {
			if err := run.Append(r); err != nil {
				t.Fatal(err)
			}
		}
	}
	const live, left, advice = "eing measured: 24 of 48", "ncomplete: 24 of 48", "tare resume"
	for _, format := range []report.Format{report.FormatText, report.FormatMarkdown, report.FormatJSON, report.FormatHTML} {
		args := []string{"report", "--format", string(format), run.Dir()}
		if out := reportOf(t, args); !strings.Contains(out, live) || strings.Contains(out, left) || strings.Contains(out, advice) {
			t.Errorf("%s of a run that is being measured does not say so, or has %q:\n%s", format, advice, out[:min(len(out), 2000)])
		}
	}
	if in, err := (experiment.List{}).Report(run); err != nil || in.Live {
		t.Errorf("who measures a run takes it for another's: live %v, error %v", in.Live, err)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	if out := reportOf(t, []string{"report", run.Dir()}); strings.Contains(out, live) || !strings.Contains(out, left) || !strings.Contains(out, advice) {
		t.Errorf("of a run that was cut off:\n%s", out)
	}
}
