package containerhost

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// TestCodePipe: all that a machine writes is read, also by one that wrote nothing, and
// nothing of it stays.
func TestCodePipe(t *testing.T) {
	dir := t.TempDir()
	for _, write := range []bool{true, false} {
		p, err := openCode(dir)
		if err != nil {
			t.Fatal(err)
		}
		var want []uint64
		if write {
			machine, err := os.OpenFile(p.path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := machine.WriteString(strings.Repeat("IN: \n0xffffffff81000110:  90  nop\n", 10_000) + "IN: \n0xffffffff81000200:  90  nop\n"); err != nil {
				t.Fatal(err)
			}
			machine.Close()
			want = []uint64{0xffffffff81000110, 0xffffffff81000200}
		}
		if got := p.end(); !slices.Equal(got, want) {
			t.Errorf("%#x, want %#x", got, want)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestTooManyWords: a guest that prints without end is ended, and what it printed is
// bounded.
func TestTooManyWords(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	w, err := listen(end)
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 1<<20)
	for ctx.Err() == nil {
		if _, err := w.to.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	text := w.end()
	var long *limit.Error
	if !errors.As(context.Cause(ctx), &long) || int64(len(text)) > limit.ErrandText.Bytes {
		t.Errorf("%d bytes, %v", len(text), context.Cause(ctx))
	}
}

// TestCopyGiven: what is no regular file is not read, and no name is taken twice.
func TestCopyGiven(t *testing.T) {
	dir := t.TempDir()
	file, to := filepath.Join(dir, "file"), filepath.Join(dir, "to")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := copyGiven(to, file); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := copyGiven(to, file); !errors.Is(err, os.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := copyGiven(filepath.Join(dir, "other"), dir); err == nil {
		t.Error("a directory was copied")
	}
}
