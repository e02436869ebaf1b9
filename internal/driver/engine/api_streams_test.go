package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"
)

// frame is a piece of output as an engine sends it.
func frame(stream stdcopy.StdType, text string) string {
	header := make([]byte, frameHeader)
	header[0] = byte(stream)
	binary.BigEndian.PutUint32(header[4:], uint32(len(text)))
	return string(header) + text
}

// Both streams come as they were written, whatever the pieces' size.
func TestFrames(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 6<<10)
	for name, c := range map[string]struct {
		sent, stdout, stderr, fails string
	}{
		"nothing":      {},
		"in turn":      {sent: frame(stdcopy.Stdout, "a") + frame(stdcopy.Stderr, "b") + frame(stdcopy.Stdout, "c"), stdout: "ac", stderr: "b"},
		"an empty one": {sent: frame(stdcopy.Stdout, "") + frame(stdcopy.Stdout, "a"), stdout: "a"},
		"a long one":   {sent: frame(stdcopy.Stderr, long) + frame(stdcopy.Stdout, "a"), stdout: "a", stderr: long},
		"an error":     {sent: frame(stdcopy.Stdout, "a") + frame(stdcopy.Systemerr, "no space left"), stdout: "a", fails: "no space left"},
		"no frame":     {sent: frame(9, "a"), fails: "unknown stream, 9"},
		"a cut one":    {sent: frame(stdcopy.Stdout, "abc")[:10], stdout: "ab", fails: "unexpected EOF"},
		"a cut header": {sent: frame(stdcopy.Stdout, "a")[:5], fails: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := frames(strings.NewReader(c.sent), &stdout, &stderr)
			if stdout.String() != c.stdout || stderr.String() != c.stderr {
				t.Errorf("%d bytes on stdout and %d on stderr, want %d and %d", stdout.Len(), stderr.Len(), len(c.stdout), len(c.stderr))
			}
			if c.fails == "" && !errors.Is(err, io.EOF) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%v, want %q", err, c.fails)
			}
		})
	}
}
