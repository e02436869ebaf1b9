package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sample"
)

// Reading takes one number out of a command's standard output.
type Reading struct {
	Metric sample.Metric
	Factor float64 // what the number is multiplied by, to be in the metric's unit
	// Match has one group, whose text is the number; of several matches the last
	// counts. Nil where JSON is given.
	Match *regexp.Regexp
	// JSON is the number's place in a document that is the whole output: keys, and
	// numbers of list elements from 0.
	JSON []string
}

// Read gives the numbers of all readings, or an error that names what is missing.
func Read(readings []Reading, stdout []byte) ([]sample.Value, error) {
	var values []sample.Value
	for _, r := range readings {
		text, err := r.find(stdout)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", r.Metric.Name, err)
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %.80q is not a number", r.Metric.Name, text) // the payload's text may be long
		}
		values = append(values, sample.Value{Metric: r.Metric.Name, Value: v * r.Factor})
	}
	return checked(values)
}

// mostMatches bounds the memory of a reading.
const mostMatches = 1 << 18

func (r Reading) find(stdout []byte) (string, error) {
	if r.Match == nil {
		return atPath(stdout, r.JSON)
	}
	all := r.Match.FindAllSubmatch(stdout, mostMatches+1)
	if len(all) > mostMatches {
		return "", fmt.Errorf("%s matches more than %d times: add to it what stands before the number", r.Match, mostMatches)
	}
	if len(all) == 0 {
		return "", fmt.Errorf("nothing in its standard output matches %s%s", r.Match, r.hint(stdout))
	}
	return string(all[len(all)-1][1]), nil
}

// hint says what would have matched, where ^ and $ of lines were meant.
func (r Reading) hint(stdout []byte) string {
	lines, err := regexp.Compile("(?m)" + r.Match.String())
	if err != nil || !lines.Match(stdout) {
		return ""
	}
	return ", but with (?m) before it, which makes ^ and $ those of lines, something does"
}

// atPath is the number at a place in a JSON document, as it is written.
func atPath(text []byte, path []string) (string, error) {
	if err := limit.PayloadJSON.CheckJSON(text); err != nil {
		return "", fmt.Errorf("%w: print less, or take the number by a regular expression", err)
	}
	decode := json.NewDecoder(bytes.NewReader(text))
	decode.UseNumber()
	var document any
	if err := decode.Decode(&document); err != nil {
		return "", fmt.Errorf("the output is not JSON: %w", err)
	}
	if _, err := decode.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("the output goes on after its JSON document: print one document and nothing else")
	}
	at, err := in(document, path, 0)
	if err != nil {
		return "", err
	}
	number, ok := at.(json.Number)
	if !ok {
		return "", fmt.Errorf("%s is not a number", strings.Join(path, "."))
	}
	return number.String(), nil
}

// in is what a part of a document has at the words of a path from one on. A key may
// have dots itself, as in fio's percentile.99.000000: the shortest that leads on counts.
func in(part any, path []string, from int) (any, error) {
	if from == len(path) {
		return part, nil
	}
	where := strings.Join(path[:from+1], ".")
	switch part := part.(type) {
	case map[string]any:
		missing := fmt.Errorf("the output has no %s", where)
		for end := from + 1; end <= len(path); end++ {
			next, ok := part[strings.Join(path[from:end], ".")]
			if !ok {
				continue
			}
			if at, err := in(next, path, end); err == nil {
				return at, nil
			} else {
				missing = err
			}
		}
		return nil, missing
	case []any:
		n, err := strconv.Atoi(path[from])
		if err != nil || n < 0 || n >= len(part) {
			return nil, fmt.Errorf("the output has no %s: the list has %d elements", where, len(part))
		}
		return in(part[n], path, from+1)
	}
	return nil, fmt.Errorf("the output has no %s: what it would be in holds no others", where)
}
