// Package limit bounds what decoders accept from input that others made: images,
// archives, logs, run directories. The table in table.go has one row for each
// kind of input. A decoder reads through Reader or ReadAll, counts with
// CheckItems and CheckDepth, and its test and fuzz target prove CheckAlloc.
package limit

import (
	"fmt"
	"io"
	"runtime"
)

// Limit is what a decoder accepts at most of one input. A zero field is no limit.
type Limit struct {
	Input string // what is decoded, as error messages name it: "OCI document"
	Bytes int64  // length of the input after decompression
	Items int    // entries, records, lines: what the decoder counts
	Depth int    // nested levels
	// Alloc is how many bytes decoding one input may allocate in total, whether
	// they stay live or not. No decoder checks it at run time: it follows from the
	// other limits, and CheckAlloc proves it for hostile inputs.
	Alloc int64
}

// Error says that an input exceeds a limit.
type Error struct {
	Limit Limit
	What  string // "bytes", "entries", "levels", "bytes allocated"
	Max   int64  // the limit that was exceeded
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s has more than %d %s", e.Limit.Input, e.Max, e.What)
}

// CheckBytes refuses an input whose length is known to be n.
func (l Limit) CheckBytes(n int64) error { return l.check("bytes", n, l.Bytes) }

// CheckItems refuses the n-th item when it exceeds the limit; n counts from 1.
func (l Limit) CheckItems(n int) error { return l.check("entries", int64(n), int64(l.Items)) }

// CheckDepth refuses level n when it exceeds the limit; the outermost level is 1.
func (l Limit) CheckDepth(n int) error { return l.check("levels", int64(n), int64(l.Depth)) }

func (l Limit) check(what string, n, most int64) error {
	if most > 0 && n > most {
		return &Error{l, what, most}
	}
	return nil
}

// Reader passes on what r holds. Its Read fails with an *Error once r proves to be
// longer than Bytes: a longer input is never mistaken for a complete shorter one.
func (l Limit) Reader(r io.Reader) io.Reader {
	if l.Bytes <= 0 {
		return r
	}
	return &reader{from: r, left: l.Bytes, limit: l}
}

type reader struct {
	from  io.Reader
	left  int64
	limit Limit
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		var more [1]byte
		n, err := io.ReadFull(r.from, more[:])
		if n == 0 {
			return 0, err
		}
		return 0, &Error{r.limit, "bytes", r.limit.Bytes}
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// ReadAll reads all of r, or fails with an *Error where r is longer than Bytes.
func (l Limit) ReadAll(r io.Reader) ([]byte, error) { return io.ReadAll(l.Reader(r)) }

// CheckAlloc runs decode and returns an *Error when it allocated more than Alloc.
// It is for tests and fuzz targets. What other goroutines allocate meanwhile counts
// as well: call it where none are busy.
func (l Limit) CheckAlloc(decode func()) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	return l.check("bytes allocated", int64(after.TotalAlloc-before.TotalAlloc), l.Alloc)
}
