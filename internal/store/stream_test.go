package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// streamed is a run of n records as a stream; the manifest takes several lines.
func streamed(t testing.TB, n int) (*Run, []byte) {
	t.Helper()
	m := manifest(max(n, 3))
	m.Study.Question = strings.Repeat("€ why? ", 3000)
	r, err := Create(t.TempDir(), m)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := NewStream(&out, r)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range n {
		if err := r.Append(record(seq)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Close(r, 0), r.Close()); err != nil {
		t.Fatal(err)
	}
	return r, out.Bytes()
}

func TestStreamIsImportedWhole(t *testing.T) {
	r, out := streamed(t, 5)
	for number, line := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if !strings.HasPrefix(line, fmt.Sprintf("tare1 %d ", number)) || len(line) > 8300 {
			t.Errorf("line %d has %d bytes: %.40q", number, len(line), line)
		}
	}
	// What a job's output has besides: a banner, lines of standard error, one of them in
	// front of a line of the stream, a carriage return.
	noisy := "Welcome to node1\n" + strings.ReplaceAll(string(out), "tare1 3 ", "warning: no tare1 here\nhalf a line tare1 3 ") + strings.Repeat("x", 200_000) + "\ntare1 over and out? no: tare is\n"
	noisy = strings.Replace(noisy, "tare1 over", "see tare1 over", 1)
	for name, text := range map[string]string{"as it is": string(out), "in a log": noisy, "by a terminal": strings.ReplaceAll(string(out), "\n", "\r\n")} {
		dir, err := Import(t.TempDir(), strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := Open(dir)
		must(t, err)
		want, err := os.ReadFile(filepath.Join(r.Dir(), recordsFile))
		must(t, err)
		if text, err := os.ReadFile(filepath.Join(dir, recordsFile)); err != nil || !bytes.Equal(text, want) || got.Manifest().Study.Question != r.Manifest().Study.Question {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if again, err := Resume(dir); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: a stranger's run may go on: %v, %v", name, again, err)
		}
	}
}

func TestStreamHasTheEarlyEnd(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	var out bytes.Buffer
	s, err := NewStream(&out, r)
	must(t, err)
	fill(t, r, 2)
	must(t, r.SetEnd(End{Blocks: 2, Reason: EndBudget}), s.Close(r, 0))
	dir, err := Import(t.TempDir(), &out)
	must(t, err)
	got, err := Open(dir)
	must(t, err)
	if end, over, err := got.End(); !over || end.Blocks != 2 || err != nil {
		t.Errorf("%+v, %v, %v", end, over, err)
	}
}

// A stream that is cut off is the run as far as it is whole.
func TestStreamThatIsCutOff(t *testing.T) {
	_, out := streamed(t, 5)
	lines := strings.SplitAfter(string(out), "\n")
	lines = lines[:len(lines)-1]
	for drop := 1; drop <= 3; drop++ {
		text := strings.Join(lines[:len(lines)-drop], "")
		dir, err := Import(t.TempDir(), strings.NewReader(text+lines[len(lines)-drop][:20]))
		must(t, err)
		got, err := Open(dir)
		must(t, err)
		if n := len(all(t, got)); n != 6-drop {
			t.Errorf("%d lines less: %d records", drop, n)
		}
	}
}

func TestStreamIsRefused(t *testing.T) {
	_, out := streamed(t, 5)
	_, other := streamed(t, 4)
	lines := strings.SplitAfter(string(out), "\n")
	lines = lines[:len(lines)-1]
	last := len(lines) - 1
	join := func(parts ...[]string) string {
		text := ""
		for _, p := range parts {
			text += strings.Join(p, "")
		}
		return text
	}
	flipped := lines[last-2][:30] + "~" + lines[last-2][31:]
	lastOfOther := strings.TrimSuffix(string(other), "\n")
	lastOfOther = lastOfOther[strings.LastIndexByte(lastOfOther, '\n')+1:] + "\n"
	_, body, _ := strings.Cut(lastOfOther, "=")
	foreign := streamMark + string(frame(last, '=', []byte(strings.TrimSuffix(body, "\n"))))
	for name, c := range map[string]struct{ text, says string }{
		"a gap":                {join(lines[:last-3], lines[last-1:]), fmt.Sprintf("lines %d to %d are missing", last-3, last-2)},
		"no beginning":         {join(lines[2:]), "lines 0 to 1 are missing"},
		"a bit":                {join(lines[:last-2], []string{flipped}, lines[last-1:]), "is damaged"},
		"two attempts":         {join(lines[:last-2], lines), "line 0 comes again"},
		"more after the end":   {join(lines, []string{streamMark + string(frame(last+1, '=', []byte("{}")))}), "after the end"},
		"the end of another":   {join(lines[:last], []string{foreign}), "its end says 4"},
		"half a manifest":      {join(lines[:1]), "within its manifest"},
		"nothing":              {"", "neither the archive"},
		"no manifest":          {streamMark + string(frame(0, '=', []byte(`{"seq":0}`))), "begin with a manifest"},
		"no record":            {join(lines[:last], []string{streamMark + string(frame(last, '=', []byte(`{"a":1}`)))}), "damaged"},
		"a manifest of nobody": {streamMark + string(frame(0, '=', []byte(`{"manifest":{"schema":1,"id":"../../x"}}`))), "id"},
	} {
		root := t.TempDir()
		if dir, err := Import(root, strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v; want %q", name, dir, err, c.says)
		}
		if entries, err := os.ReadDir(filepath.Join(root, "runs")); err != nil || len(entries) != 0 {
			t.Errorf("%s left %v, %v", name, entries, err)
		}
	}
}

// A reader that has gone costs the stream and not the run.
func TestStreamWithoutReader(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	w := &closing{after: 1}
	s, err := NewStream(w, r)
	must(t, err)
	fill(t, r, 2)
	if err := s.Close(r, 0); !errors.Is(err, os.ErrClosed) || w.writes != 2 || len(all(t, r)) != 2 {
		t.Errorf("%v after %d writes, %d records", err, w.writes, len(all(t, r)))
	}
	if _, err := NewStream(w, r); err == nil {
		t.Error("a stream began in the middle of a run")
	}
}

type closing struct{ after, writes int }

func (c *closing) Write(p []byte) (int, error) {
	if c.writes++; c.writes > c.after {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

// FuzzStream: whatever a stream holds, nothing stays of one that is refused.
func FuzzStream(f *testing.F) {
	_, out := streamed(f, 3)
	f.Add(out)
	f.Add([]byte(streamMark + string(frame(0, '=', []byte(`{"manifest":{}}`)))))
	f.Setenv("TMPDIR", "/dev/shm") // a disk would wait for each file
	f.Fuzz(func(t *testing.T, text []byte) {
		root := t.TempDir()
		_, err := Import(root, bytes.NewReader(text))
		entries, listed := os.ReadDir(filepath.Join(root, "runs"))
		if listed != nil || (err == nil) != (len(entries) == 1) {
			t.Errorf("%v: left %v, %v", err, entries, listed)
		}
	})
}

// A view counts what a stream has so far, and keeps the last other lines.
func TestViewStream(t *testing.T) {
	text := "banner\n" + string(frameLine(0, '+', `{"manifest"`)) + string(frameLine(1, '=', `:{}}`)) + string(frameLine(2, '=', `{"seq":0}`)) + "a\nb\nnoise " +
		string(frameLine(3, '=', `{"seq":1}`)) + "c\nd\ne\n"
	v, err := ViewStream(strings.NewReader(text))
	if err != nil || !v.Begun || v.Records != 2 || v.Ended || !slices.Equal(v.Other, []string{"b", "noise", "c", "d", "e"}) {
		t.Errorf("%+v (%v)", v, err)
	}
	v, err = ViewStream(strings.NewReader(text + string(frameLine(4, '=', `{"end":{"records":2,"sha256":"","exit":3}}`))))
	if err != nil || v.Records != 2 || !v.Ended || v.Exit != 3 {
		t.Errorf("%+v (%v)", v, err)
	}
	v, err = ViewStream(strings.NewReader(strings.Repeat("x", 1<<20) + "\n"))
	if err != nil || v.Begun || len(v.Other) != 1 || len(v.Other[0]) > 400 {
		t.Errorf("%+v (%v)", v, err)
	}
}

func frameLine(number int, sign byte, piece string) []byte {
	return append([]byte(streamMark), frame(number, sign, []byte(piece))...)
}

func FuzzViewStream(f *testing.F) {
	f.Add([]byte("banner\n" + string(frameLine(0, '=', `{"manifest":{}}`)) + string(frameLine(1, '=', `{"end":{"exit":3}}`))))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := ViewStream(bytes.NewReader(text))
		if err != nil || v.Ended && !v.Begun || len(v.Other) > 5 || v.Records > len(text) {
			t.Errorf("%+v (%v)", v, err)
		}
	})
}
