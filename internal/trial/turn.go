package trial

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer is one line that a payload has answered a turn with (docs/slices.md):
//
//	COUNT [BEGIN END [CPU]] [key=value ...]
type answer struct {
	at    Stamp // when the laboratory had read it
	count float64
	own   time.Duration // END - BEGIN; 0 where the line names no times
	cpu   time.Duration // 0 where the line names none
	bytes float64       // of bytes=N
	said  []string
}

// turnError is a turn that the payload refused: the others of its program go on.
type turnError struct{ text string }

func (e *turnError) Error() string { return "the payload answered the turn with: error: " + e.text }

// mostSaid bounds the words of one answer.
const mostSaid = 16

// readAnswer reads a line without its end.
func readAnswer(line string) (answer, error) {
	if text, refused := strings.CutPrefix(line, "error:"); refused {
		return answer{}, &turnError{strings.TrimSpace(text)}
	}
	wrong := func(why string) (answer, error) {
		return answer{}, fmt.Errorf("the payload answered a turn with %.120q: %s; want COUNT [BEGIN END [CPU]] [key=value ...]", line, why)
	}
	words := strings.Fields(line)
	numbers := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "=") })
	if numbers < 0 {
		numbers = len(words)
	}
	var a answer
	times := make([]int64, 0, 3)
	for i, w := range words[:numbers] {
		var err error
		if i == 0 {
			a.count, err = strconv.ParseFloat(w, 64)
			if err != nil || a.count < 0 || math.IsInf(a.count, 0) || math.IsNaN(a.count) {
				err = errors.New("the count is not a number from 0 on")
			}
		} else {
			var ns int64
			if ns, err = strconv.ParseInt(w, 10, 64); err != nil || ns < 0 {
				err = fmt.Errorf("%q is not a time in nanoseconds", w)
			}
			times = append(times, ns)
		}
		if err != nil {
			return wrong(err.Error())
		}
	}
	switch {
	case numbers == 0:
		return wrong("it has no count")
	case numbers == 2 || numbers > 4:
		return wrong(fmt.Sprintf("it has %d numbers", numbers))
	case len(times) >= 2 && times[1] <= times[0]:
		return wrong("END is not after BEGIN")
	}
	if len(times) >= 2 {
		a.own = time.Duration(times[1] - times[0])
	}
	if len(times) == 3 {
		a.cpu = time.Duration(times[2])
	}
	if len(words)-numbers > mostSaid {
		return wrong("it has too many words")
	}
	for _, w := range words[numbers:] {
		key, value, ok := strings.Cut(w, "=")
		if !ok || key == "" {
			return wrong(fmt.Sprintf("%q is not key=value", w))
		}
		if key != "bytes" {
			a.said = append(a.said, w)
			continue
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return wrong(fmt.Sprintf("%q is not a number of bytes", w))
		}
		a.bytes = float64(n)
	}
	return a, nil
}

// longestLine bounds an answer, in bytes.
const longestLine = 4096

// line is one line of a payload's standard output, and when it was read.
type line struct {
	text string
	at   Stamp
}

// answers takes a payload's standard output apart into lines. It keeps no more than
// one that nobody waits for.
type answers struct {
	lines   chan line
	wrong   chan struct{} // closed when the payload has broken the protocol
	partial []byte        // of the goroutine that reads

	mu  sync.Mutex // guards why
	why error
}

func newAnswers() *answers {
	return &answers{lines: make(chan line, 1), wrong: make(chan struct{})}
}

// take is called with what was read, from one goroutine. It never waits.
func (a *answers) take(data []byte, now Stamp) {
	for len(data) > 0 && a.err() == nil {
		end := bytes.IndexByte(data, '\n')
		whole := end >= 0
		if !whole {
			end = len(data)
		}
		if len(a.partial)+end > longestLine {
			a.fail(fmt.Errorf("the payload answered a turn with a line of more than %d bytes", longestLine))
			return
		}
		a.partial = append(a.partial, data[:end]...)
		if !whole {
			return
		}
		data = data[end+1:]
		select {
		case a.lines <- line{string(a.partial), now}:
			a.partial = a.partial[:0]
		default:
			a.fail(unasked(string(a.partial)))
		}
	}
}

func unasked(text string) error {
	return fmt.Errorf("the payload printed a line that no turn had asked for: %.120q", text)
}

// ready says whether a turn can be given: nothing is left over from the last.
func (a *answers) ready() error {
	select {
	case l := <-a.lines:
		a.fail(unasked(l.text))
	default:
	}
	return a.err()
}

func (a *answers) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == nil {
		a.why = err
		close(a.wrong)
	}
}

func (a *answers) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}
