package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/tarelab/tare/internal/sample"
)

// Each record carries a checksum of its own, so that one flipped bit costs one record
// and none is taken for another: the line ends with ,"crc":"XXXXXXXX"}, CRC-32C of the
// line before that, in hexadecimal. A reader that does not know it takes it for a key
// like others.
const (
	sumName  = "crc32c"
	sumKey   = `,"crc":"`
	sumBytes = len(sumKey) + 8 + len(`"}`)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Line is a record as a run with checksums has it, with its line's end.
func Line(r sample.Record) ([]byte, error) {
	line, err := plainLine(r)
	if err != nil {
		return nil, err
	}
	return append(seal(line[:len(line)-1]), '\n'), nil
}

// plainLine is a record's line without a checksum.
func plainLine(r sample.Record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("record %d (%s) cannot be written: %w", r.Seq, r.Cell, err)
	}
	return append(line, '\n'), nil
}

// sumOf is the checksum of a record's line up to its key, in hexadecimal.
func sumOf(body []byte) (text [8]byte) {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.Checksum(body, castagnoli))
	hex.Encode(text[:], sum[:])
	return text
}

// seal puts the checksum into a record's line.
func seal(line []byte) []byte {
	body := line[:len(line)-1] // without its closing brace
	sum := sumOf(body)
	return slices.Concat(body, []byte(sumKey), sum[:], []byte(`"}`))
}

var (
	errNoSum  = errors.New("the record has no checksum, and those of this run have one")
	errBadSum = errors.New("the record is not what its checksum says")
)

// unseal checks a line's checksum and takes it off, in place. One without is as it is:
// sealed is false.
func unseal(line []byte) (record []byte, sealed bool, err error) {
	at := len(line) - sumBytes
	if at < 0 || string(line[at:at+len(sumKey)]) != sumKey || string(line[len(line)-2:]) != `"}` {
		return line, false, nil
	}
	if sum := sumOf(line[:at]); !bytes.Equal(sum[:], line[at+len(sumKey):len(line)-2]) {
		return nil, true, errBadSum
	}
	line[at] = '}'
	return line[:at+1], true, nil
}
