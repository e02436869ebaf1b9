package emulated

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// packed is a results archive with one file.
func packed(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// asPrinted is what a guest's serial console shows of an archive.
func asPrinted(data []byte) string {
	text := base64.StdEncoding.EncodeToString(data)
	return fmt.Sprintf("[    1.5] Run /init\r\nguest: results begin %x\r\n%s\r\n%s\r\nguest: results end\r\n[    9.1] reboot: Power down\r\n",
		sha256.Sum256(data), text[:16], text[16:])
}

func TestResultsFromTheConsole(t *testing.T) {
	data := packed(t, "./run.code", "0\n")
	whole := asPrinted(data)
	for _, test := range []struct{ name, console, want string }{
		{"whole", whole, ""},
		{"the kernel wrote into it", strings.Replace(whole, "guest: results end", "[ 8.0] hrtimer: interrupt took 3 ns\r\nguest: results end", 1), "damaged"},
		{"a line is missing", strings.Replace(whole, base64.StdEncoding.EncodeToString(data)[:16]+"\r\n", "", 1), "damaged"},
		{"cut short", strings.Replace(whole, "guest: results end", "", 1), "no results"},
		{"a guest that died", "Kernel panic - not syncing\r\n", "no results"},
	} {
		got, err := results(strings.NewReader(test.console))
		switch {
		case test.want == "" && (err != nil || !bytes.Equal(got, data)):
			t.Errorf("%s: %d bytes, %v", test.name, len(got), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestUnpackStaysInside(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "inside")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unpack(packed(t, "../outside", "x"), inside); err == nil {
		t.Error("a name that leads out of the directory was unpacked")
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
		t.Error("a file was written outside")
	}
	if err := unpack(packed(t, "./run.code", "0\n"), inside); err != nil {
		t.Error(err)
	}
}

func TestStampedLines(t *testing.T) {
	var b strings.Builder
	s := &stamped{to: &b, start: time.Now()}
	for _, part := range []string{"gue", "st: one\ngues", "t: two\n", "unended"} {
		if _, err := s.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, line[len("   0.0 "):])
	}
	if want := []string{"guest: one\n", "guest: two\n"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// The words of a broken machine may come in two parts.
func TestBrokenMachineIsSeen(t *testing.T) {
	ended := 0
	w := &watched{words: "Disabling IRQ #23", end: func() { ended++ }}
	for _, part := range []string{"Disabling IRQ #", "2\nDisabl", "ing IRQ #2"} {
		if _, err := w.Write([]byte(part)); err != nil || ended > 0 {
			t.Fatalf("after %q: %v, ended %d times", part, err, ended)
		}
	}
	if _, _ = w.Write([]byte("3\n")); ended == 0 {
		t.Error("not seen")
	}
}
