package textfile_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/textfile"
)

func packed(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// numbers are lines that gzip cannot make short.
func numbers(random *rand.Rand, bytes int) string {
	var out strings.Builder
	for out.Len() < bytes {
		for range 60 {
			out.WriteByte(byte('!' + random.IntN(90)))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestRead(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	long := numbers(random, 100_000)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(random.IntN(256))
	}
	whole := packed(t, long)
	for name, c := range map[string]struct {
		in  string
		cut bool
		err error
		say string // in the error, or the text
	}{
		"plain":          {"a\r\nb", false, nil, "a\r\nb"},
		"serial noise":   {"\x00\xff\x1b[0m" + strings.Repeat("a line\n", 10), false, nil, "a line"},
		"latin 1":        {"Ger\xe4t bereit\n", false, nil, "bereit"},
		"gzip":           {whole, false, nil, long},
		"cut short":      {whole[:len(whole)/2], true, nil, long[:1000]},
		"without end":    {whole[:len(whole)-4], true, nil, long},
		"cut to nothing": {whole[:20], false, nil, "cut short in its first line"},
		"only its magic": {whole[:3], false, nil, "no whole gzip file"},
		"damaged":        {whole[:len(whole)-8] + "12345678", false, gzip.ErrChecksum, "read: "},
		"empty":          {"", false, textfile.ErrEmpty, ""},
		"packed nothing": {packed(t, ""), false, textfile.ErrEmpty, ""},
		"too long":       {packed(t, strings.Repeat("x\n", 1<<20)), false, textfile.ErrTooLong, "more than 1 MiB"},
		"random":         {string(noise), false, textfile.ErrNotText, ""},
		"a program":      {"\x7fELF" + strings.Repeat("\x00", 5000), false, textfile.ErrNotText, ""},
		"xz":             {"\xfd7zXZ\x00\x00\x04", false, textfile.ErrNotText, "compressed with xz: take what xz -dc prints"},
		"PowerShell":     {"\xff\xfe[\x00 \x000\x00.\x000\x00]\x00\r\x00\n\x00", false, textfile.ErrNotText, "iconv -f UTF-16"},
		"journal file":   {"LPKSHHRH\x00\x00", false, textfile.ErrNotText, "journalctl -b -o json --file"},
	} {
		text, cut, err := textfile.Read(strings.NewReader(c.in), 1<<20)
		switch {
		case c.err != nil && !errors.Is(err, c.err), err == nil && c.err != nil:
			t.Errorf("%s: %v, want %v", name, err, c.err)
		case err != nil && !strings.Contains(err.Error(), c.say):
			t.Errorf("%s: %v, want %q", name, err, c.say)
		case err == nil && (cut != c.cut || !strings.Contains(string(text), c.say)):
			t.Errorf("%s: cut %v, want %v; %d bytes", name, cut, c.cut, len(text))
		case cut && !strings.HasSuffix(string(text), "\n"):
			t.Errorf("%s: ends in half a line", name)
		}
	}
}
