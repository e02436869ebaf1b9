// Package textfile reads the text files that people bring, such as a log or a
// configuration: plain or compressed with gzip, up to a limit. What it cannot
// read it refuses with what to do.
package textfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// What is no text that can be read.
var (
	ErrEmpty   = errors.New("it is empty")
	ErrNotText = errors.New("it is not a text file")
	ErrTooLong = errors.New("it is too long")
)

// CutShort is what to warn of where Read says that a file was cut short.
const CutShort = "the compressed file was cut short: what its end held is not known"

// packings are the files that hold text and are not read here, by their first
// bytes, each with the program whose output is.
var packings = []struct{ magic, what, instead string }{
	{"\xfd7zXZ\x00", "compressed with xz", "xz -dc"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc"},
	{"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc"},
	{"BZh", "compressed with bzip2", "bzip2 -dc"},
	{"PK\x03\x04", "a zip archive", "unzip -p"},
	{"LPKSHHRH", "journald's own file", "journalctl -b -o json --file"},
}

// Read reads all of a text, decompressed, of at most so many bytes; a longer one
// is ErrTooLong. A compressed file that was cut short is read up to its last whole
// line, and cut is true. Nothing is ErrEmpty, what is no text ErrNotText.
func Read(r io.Reader, most int64) (text []byte, cut bool, err error) {
	in := bufio.NewReader(r)
	var plain io.Reader = in
	if magic, err := in.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if plain, err = gzip.NewReader(in); err != nil {
			return nil, false, fmt.Errorf("decompress: %w: it is no whole gzip file", err)
		}
	}
	text, err = io.ReadAll(io.LimitReader(plain, most+1))
	if cut = plain != in && errors.Is(err, io.ErrUnexpectedEOF); cut {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	switch {
	case cut && len(text) == 0:
		return nil, false, fmt.Errorf("decompress: %w: the file was cut short in its first line", err)
	case err != nil && !cut:
		return nil, false, fmt.Errorf("read: %w", err)
	case int64(len(text)) > most:
		return nil, false, fmt.Errorf("%w: more than %d MiB", ErrTooLong, most>>20)
	case len(text) == 0:
		return nil, false, ErrEmpty
	}
	for _, p := range packings {
		if bytes.HasPrefix(text, []byte(p.magic)) {
			return nil, false, fmt.Errorf("%w but %s: take what %s prints of it", ErrNotText, p.what, p.instead)
		}
	}
	if !isText(text) {
		if bytes.HasPrefix(text, []byte("\xff\xfe")) {
			return nil, false, fmt.Errorf("%w of UTF-8 but of UTF-16, as PowerShell writes: take what iconv -f UTF-16 -t UTF-8 prints of it", ErrNotText)
		}
		return nil, false, ErrNotText
	}
	return text, cut, nil
}

// isText tells text by its bytes: a serial line's log may hold some that no text
// has, of a random file's nearly half are such.
func isText(text []byte) bool {
	odd := 0
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 || r < ' ' && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b", r) || r == 0x7f {
			odd++
		}
		rest = rest[size:]
	}
	return odd*5 <= len(text)
}
