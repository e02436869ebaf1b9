package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tarelab/tare/internal/limit"
)

// A stream is a run as lines of text, written while it is measured: the manifest, each
// record once it is on the disk, and the end. It crosses what keeps a job's output:
//
//	tare1 NUMBER CRC +PIECE     a document of JSON goes on with the next line
//	tare1 NUMBER CRC =PIECE     it ends here
//
// NUMBER counts the lines from 0, and CRC is the CRC-32 (IEEE) of "NUMBER +PIECE". A
// line without that mark is somebody else's, such as a banner, and is passed over. A
// number that is missing is an error; a stream without its end is of a run that was cut
// off, which the store can read.
const (
	streamMark = "tare1 "
	streamLine = 8 << 10 // bytes of a piece: CRI and syslog cut longer lines
	// longestStreamLine is more than any line of a stream: a longer one is not of one.
	longestStreamLine = 64 << 10
)

// streamEnd is the last document of a stream.
type streamEnd struct {
	Records int    `json:"records"`
	SHA256  string `json:"sha256"`          // of all records' lines
	Early   *End   `json:"early,omitempty"` // why the run ended before its last block
	Exit    int    `json:"exit"`            // code of the process
}

// Stream writes a run as a stream.
type Stream struct {
	to      io.Writer
	number  int
	records int
	sum     hash.Hash
	err     error
}

// NewStream begins the stream of a run that has no record yet, and has the run's records
// follow as they are appended. What cannot be written is the error of Close: the run
// itself goes on.
func NewStream(w io.Writer, r *Run) (*Stream, error) {
	if len(r.Done()) > 0 {
		return nil, fmt.Errorf("run %s has records already: a stream begins with a run", r.manifest.ID)
	}
	s := &Stream{to: w, sum: sha256.New()}
	r.mu.Lock()
	r.follow = s.lines
	r.mu.Unlock()
	return s, s.document(struct {
		Manifest Manifest `json:"manifest"`
	}{r.manifest})
}

// lines writes records that the disk has.
func (s *Stream) lines(lines []byte) {
	for line := range bytes.Lines(lines) {
		s.records++
		s.sum.Write(line)
		s.text(bytes.TrimSuffix(line, []byte("\n")))
	}
}

// Close writes the end of the stream: after the run's last record, with the exit code
// that the process will have.
func (s *Stream) Close(r *Run, exit int) error {
	early, over, err := r.End()
	if err != nil {
		return err
	}
	end := streamEnd{Records: s.records, SHA256: hex.EncodeToString(s.sum.Sum(nil)), Exit: exit}
	if over {
		end.Early = &early
	}
	return s.document(struct {
		End streamEnd `json:"end"`
	}{end})
}

func (s *Stream) document(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	s.text(text)
	return s.err
}

// text writes one document. After an error nothing more is written.
func (s *Stream) text(text []byte) {
	var out []byte
	for {
		sign, piece := byte('='), text
		if len(text) > streamLine {
			cut := streamLine
			for !utf8.RuneStart(text[cut]) { // what carries the lines may want whole characters
				cut--
			}
			sign, piece = '+', text[:cut]
		}
		text = text[len(piece):]
		out = append(append(out, streamMark...), frame(s.number, sign, piece)...)
		s.number++
		if sign == '=' {
			break
		}
	}
	if s.err == nil {
		if _, err := s.to.Write(out); err != nil {
			s.err = fmt.Errorf("stream: %w", err)
		}
	}
}

func frame(number int, sign byte, piece []byte) []byte {
	body := append([]byte(strconv.Itoa(number)+" "+string(sign)), piece...)
	return fmt.Appendf(nil, "%d %08x %c%s\n", number, crc32.ChecksumIEEE(body), sign, piece)
}

// errNotFrame says that a line is not of a stream.
var errNotFrame = errors.New("not a line of a stream")

// unframe reads a line after its mark.
func unframe(line string) (number int, sign byte, piece string, err error) {
	first, rest, ok := strings.Cut(line, " ")
	sum, text, also := strings.Cut(rest, " ")
	if !ok || !also || text == "" || text[0] != '+' && text[0] != '=' {
		return 0, 0, "", errNotFrame
	}
	number, err = strconv.Atoi(first)
	if err != nil || number < 0 || strconv.Itoa(number) != first || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(first+" "+text))) {
		return 0, 0, "", errNotFrame
	}
	return number, text[0], text[1:], nil
}

// unstream writes the files of a run that a stream holds.
func unstream(root *os.Root, in io.Reader) error {
	s := &unstreamer{root: root, sum: sha256.New()}
	defer func() {
		if s.records != nil {
			_ = s.records.Close() // an error before has a reason that is nearer
		}
	}()
	for line, err := range streamLines(in) {
		if err != nil {
			return fmt.Errorf("the stream of a run: %w", err)
		}
		at := strings.Index(line, streamMark)
		if at < 0 || !strings.HasSuffix(line, "\n") { // a last line without its end was cut off
			continue
		}
		if err := s.line(strings.TrimRight(line[at+len(streamMark):], "\r\n"), at > 0); err != nil {
			return fmt.Errorf("the stream of a run: %w", err)
		}
	}
	return s.finish()
}

// streamLines walks the lines of what may be a stream, with their ends. A line that is too
// long for one gives its beginning, without its end. The last element carries the error,
// if there is one.
func streamLines(in io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		lines := bufio.NewReaderSize(limit.RunArchive.Reader(in), longestStreamLine)
		for {
			text, err := lines.ReadSlice('\n')
			line := string(text)
			for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is too long
				_, err = lines.ReadSlice('\n')
			}
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", err)
				return
			}
			if !yield(line, nil) || err != nil {
				return
			}
		}
	}
}

// unstreamer is a stream that is being read.
type unstreamer struct {
	root    *os.Root
	next    int // number of the next line
	text    []byte
	records *os.File
	sum     hash.Hash
	count   int
	over    bool
}

// line takes one line after its mark. One that stands behind other text, and is not a
// whole line of a stream, is other text, too.
func (s *unstreamer) line(text string, behind bool) error {
	number, sign, piece, err := unframe(text)
	switch {
	case err != nil && behind:
		return nil
	case err != nil:
		return fmt.Errorf("%w: a line after line %d is damaged: %.60q", ErrCorrupt, s.next-1, text)
	case number > s.next:
		return fmt.Errorf("%w: lines %d to %d are missing", ErrCorrupt, s.next, number-1)
	case number < s.next:
		return fmt.Errorf("%w: line %d comes again after line %d: two attempts are in one stream, which are never mixed", ErrCorrupt, number, s.next-1)
	case s.over:
		return fmt.Errorf("%w: line %d comes after the end", ErrCorrupt, number)
	}
	s.next++
	if s.text = append(s.text, piece...); int64(len(s.text)) > limit.RunManifest.Bytes {
		return &limit.Error{Limit: limit.RunManifest, What: "bytes", Max: limit.RunManifest.Bytes}
	}
	if sign == '+' {
		return nil
	}
	document := s.text
	s.text = s.text[:0]
	return s.document(document)
}

// document takes a document of JSON: the first is the manifest, and the last may be the end.
func (s *unstreamer) document(text []byte) (err error) {
	if s.records == nil {
		var first struct {
			Manifest json.RawMessage `json:"manifest"`
		}
		if err := json.Unmarshal(text, &first); err != nil || first.Manifest == nil {
			return fmt.Errorf("%w: it does not begin with a manifest", ErrCorrupt)
		}
		err := replace(s.root, manifestFile, 0o644, func(w io.Writer) error {
			_, err := w.Write(first.Manifest)
			return err
		})
		if err != nil {
			return err
		}
		s.records, err = s.root.OpenFile(recordsFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		return NoSpace(err)
	}
	if bytes.HasPrefix(text, []byte(`{"end":`)) {
		return s.end(text)
	}
	s.count++
	line := append(bytes.Clone(text), '\n')
	s.sum.Write(line)
	_, err = s.records.Write(line)
	return NoSpace(err)
}

func (s *unstreamer) end(text []byte) error {
	var last struct {
		End streamEnd `json:"end"`
	}
	if err := json.Unmarshal(text, &last); err != nil {
		return fmt.Errorf("%w: its end: %w", ErrCorrupt, err)
	}
	if sum := hex.EncodeToString(s.sum.Sum(nil)); last.End.Records != s.count || last.End.SHA256 != sum {
		return fmt.Errorf("%w: it has %d records with the sum %.12s, and its end says %d with %.12s", ErrCorrupt, s.count, sum, last.End.Records, last.End.SHA256)
	}
	s.over = true
	if last.End.Early == nil {
		return nil
	}
	return writeJSON(s.root, endFile, 0o644, last.End.Early)
}

func (s *unstreamer) finish() error {
	if s.records == nil && s.next > 0 {
		return fmt.Errorf("%w: the stream of a run ends within its manifest, after line %d", ErrCorrupt, s.next-1)
	}
	if s.records == nil {
		return fmt.Errorf("%w: it is neither the archive of a run (gzip, by tare runs export) nor the stream of one (tare run --stream)", ErrNotRun)
	}
	err := errors.Join(s.records.Sync(), s.records.Close())
	s.records = nil
	return NoSpace(err)
}

// StreamView is what can be seen of a stream that may still grow.
type StreamView struct {
	Begun   bool // the manifest is whole
	Records int
	Ended   bool
	Exit    int // code of the process; where Ended
	// Other are the last lines that are not of the stream: what the process wrote to
	// standard error, where that came the same way.
	Other []string
}

// otherLines bounds StreamView.Other, and otherLength each of its lines.
const (
	otherLines  = 5
	otherLength = 400
)

// ViewStream reads a stream without checking that it is whole.
func ViewStream(in io.Reader) (StreamView, error) {
	var v StreamView
	for line, err := range streamLines(in) {
		if err != nil {
			return v, err
		}
		v.line(line)
	}
	return v, nil
}

func (v *StreamView) line(line string) {
	at := strings.Index(line, streamMark)
	if at >= 0 && strings.HasSuffix(line, "\n") {
		if _, sign, piece, err := unframe(strings.TrimRight(line[at+len(streamMark):], "\r\n")); err == nil {
			v.document(sign, piece)
			line = line[:at]
		}
	}
	if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, streamMark) {
		return
	}
	if len(line) > otherLength {
		line = strings.ToValidUTF8(line[:otherLength], "")
	}
	if v.Other = append(v.Other, line); len(v.Other) > otherLines {
		v.Other = v.Other[1:]
	}
}

// document counts what ends with this piece.
func (v *StreamView) document(sign byte, piece string) {
	if sign != '=' {
		return
	}
	var last struct {
		End *streamEnd `json:"end"`
	}
	switch {
	case !v.Begun:
		v.Begun = true
	case strings.HasPrefix(piece, `{"end":`) && json.Unmarshal([]byte(piece), &last) == nil && last.End != nil:
		v.Ended, v.Exit = true, last.End.Exit
	default:
		v.Records++
	}
}
