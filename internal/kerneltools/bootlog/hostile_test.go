package bootlog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/bootlog"
	"github.com/tarelab/tare/internal/limit"
)

// gzipped packs a line many times: a small file that holds a long log.
func gzipped(t testing.TB, line string, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	for range times {
		if _, err := z.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestHostileLogs: a small file may not take much memory. On a2ee321 a log took 567
// MB for a million lines, and 64 KB that unpack to 32 million lines took 18 GB.
func TestHostileLogs(t *testing.T) {
	for name, c := range map[string]struct {
		log     []byte
		refused bool
	}{
		"four million lines":    {gzipped(t, "a\n", 4<<20), true},
		"a million empty lines": {gzipped(t, "\n", 1<<20), true},
		"as many as are read":   {gzipped(t, "[    1.000000] x\n", limit.BootLog.Items-1), false},
		"lines in one record":   {[]byte(`{"dmesg": [{"time": 1.0, "msg": "` + strings.Repeat(`\n`, 4<<20) + `"}]}`), true},
		"a record's length":     {[]byte("__CURSOR=a\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xffx\n[    1.0] x\n"), false},
		"stamps in every line":  {gzipped(t, strings.Repeat("[    1.000000] ", 100)+"\n", 20_000), true},
	} {
		var err error
		if over := limit.BootLog.CheckAlloc(func() { _, err = bootlog.Parse(bytes.NewReader(c.log)) }); over != nil {
			t.Errorf("%s (%d bytes): %v", name, len(c.log), over)
		}
		if refused := errors.As(err, new(*limit.Error)); refused != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
