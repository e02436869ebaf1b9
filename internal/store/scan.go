package store

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// trialLine is one decoded line. Its bytes are only valid until the next batch.
type trialLine struct {
	seq, block int
	length     int // of the line with its end, in bytes
	at         int64
	cell       []byte
	metrics    []metricValues
	full       *sample.Record // set instead of the others where the line is not of the plain form
	err        error          // why the line is not a record
}

type metricValues struct {
	name   []byte
	values []float64
}

// record makes a sample.Record that shares no memory with the batch.
func (t *trialLine) record() sample.Record {
	if t.full != nil {
		return *t.full
	}
	r := sample.Record{Seq: t.seq, Block: t.block, Cell: string(t.cell), At: t.at, Values: make(map[string][]float64, len(t.metrics))}
	for _, m := range t.metrics {
		r.Values[string(m.name)] = slices.Clone(m.values)
	}
	return r
}

// batch is a stretch of whole lines, decoded. Its slices are used again, so
// that a long run is read in constant memory.
type batch struct {
	text    []byte
	lines   []trialLine
	metrics []metricValues
	values  []float64
}

// decode reads all lines of b.text; sums says that each has a checksum.
func (b *batch) decode(sums bool) {
	b.lines, b.metrics, b.values = b.lines[:0], b.metrics[:0], b.values[:0]
	for rest := b.text; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		line := b.line(rest[:end], sums)
		line.length = end + 1
		b.lines = append(b.lines, line)
		rest = rest[end+1:]
	}
}

func (b *batch) line(text []byte, sums bool) trialLine {
	if len(text) < shortestLine { // decoding each line of a file of such takes hours
		return trialLine{err: errShort}
	}
	text, sealed, err := unseal(text)
	if err == nil && sums && !sealed {
		err = errNoSum
	}
	if err != nil {
		return trialLine{err: err}
	}
	t, ok := b.plain(text)
	if !ok {
		if t, err = other(text); err != nil {
			return trialLine{err: err}
		}
	}
	return t
}

var errShort = errors.New("the line is shorter than any record")

// other decodes a line of any form that JSON allows.
func other(text []byte) (trialLine, error) {
	if err := limit.RunRecord.CheckJSON(text); err != nil {
		return trialLine{}, err
	}
	var r sample.Record
	if err := json.Unmarshal(text, &r); err != nil {
		return trialLine{}, err
	}
	return trialLine{seq: r.Seq, block: r.Block, cell: []byte(r.Cell), full: &r}, nil
}

// plain decodes a line of exactly the form that Append writes for a trial that
// gave samples and no warning: keys in the order of sample.Record, metrics in ascending
// order, no escapes, no blanks. That is nearly every line of a large run, and
// this is several times as fast as a general decoder; the fuzz test holds the
// two together. It reports false for every other line.
func (b *batch) plain(text []byte) (t trialLine, ok bool) {
	s := scanner{rest: text}
	metrics := len(b.metrics)
	s.expect(`{"seq":`)
	t.seq = s.integer()
	s.expect(`,"block":`)
	t.block = s.integer()
	s.expect(`,"cell":"`)
	t.cell = s.text()
	s.expect(`,"at":`)
	t.at = int64(s.integer())
	s.expect(`,"values":{`)
	b.metricsOf(&s)
	s.expect(`}`)
	t.metrics = b.metrics[metrics:]
	return t, !s.bad && len(s.rest) == 0
}

// metricsOf reads the values' object behind its opening brace.
func (b *batch) metricsOf(s *scanner) {
	var before []byte
	for more := true; more && !s.bad; more = s.comma() {
		s.expect(`"`)
		name := s.text()
		s.expect(`:[`)
		from := len(b.values)
		for more := true; more && !s.bad; more = s.comma() {
			b.values = append(b.values, s.number())
		}
		s.expect(`]`)
		if before != nil && bytes.Compare(before, name) >= 0 {
			s.bad = true // not in order: perhaps a name stands twice
		}
		before = name
		b.metrics = append(b.metrics, metricValues{name, b.values[from:]})
	}
	s.expect(`}`)
}

// scanner takes a line apart from its front. Once bad it stays so.
type scanner struct {
	rest []byte
	bad  bool
}

func (s *scanner) expect(token string) {
	if s.bad || len(s.rest) < len(token) || string(s.rest[:len(token)]) != token {
		s.bad = true
		return
	}
	s.rest = s.rest[len(token):]
}

func (s *scanner) comma() bool {
	if s.bad || len(s.rest) == 0 || s.rest[0] != ',' {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// text reads up to the closing quote: a JSON string without escapes.
func (s *scanner) text() []byte {
	wide := false
	for i, c := range s.rest {
		switch {
		case c == '"' && (!wide || utf8.Valid(s.rest[:i])):
			t := s.rest[:i:i]
			s.rest = s.rest[i+1:]
			return t
		case c < ' ' || c == '"' || c == '\\':
			s.bad = true
			return nil
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	s.bad = true
	return nil
}

// integer reads a JSON number that is written as a whole one.
func (s *scanner) integer() int {
	v, err := strconv.ParseInt(string(s.numeral()), 10, 64)
	if err != nil {
		s.bad = true
	}
	return int(v)
}

func (s *scanner) number() float64 {
	v, err := strconv.ParseFloat(string(s.numeral()), 64)
	if err != nil {
		s.bad = true
	}
	return v
}

// numeral takes a number in JSON's grammar (RFC 8259, section 6) off the front.
func (s *scanner) numeral() []byte {
	i := 0
	if s.at(i) == '-' {
		i++
	}
	whole := i
	i = s.digits(i)
	if s.at(whole) == '0' && i > whole+1 {
		s.bad = true
	}
	if s.at(i) == '.' {
		i = s.digits(i + 1)
	}
	if c := s.at(i); c == 'e' || c == 'E' {
		i++
		if c := s.at(i); c == '+' || c == '-' {
			i++
		}
		i = s.digits(i)
	}
	n := s.rest[:i]
	s.rest = s.rest[i:]
	return n
}

func (s *scanner) at(i int) byte {
	if i < len(s.rest) {
		return s.rest[i]
	}
	return 0
}

// digits gives the end of the digits from i on; there must be one.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.rest) && s.rest[i]-'0' <= 9 {
		i++
	}
	if i == from {
		s.bad = true
	}
	return i
}
