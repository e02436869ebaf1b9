package workload

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/sample"
)

// Reading takes one number out of a command's standard output.
type Reading struct {
	Metric sample.Metric
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
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %q is not a number", r.Metric.Name, text)
		}
		values = append(values, sample.Value{Metric: r.Metric.Name, Value: v})
	}
	return checked(values)
}

func (r Reading) find(stdout []byte) (string, error) {
	if r.Match == nil {
		return atPath(stdout, r.JSON)
	}
	all := r.Match.FindAllSubmatch(stdout, -1)
	if len(all) == 0 {
		return "", fmt.Errorf("nothing in the output matches %s", r.Match)
	}
	return string(all[len(all)-1][1]), nil
}

// atPath is the number at a place in a JSON document, as it is written.
func atPath(text []byte, path []string) (string, error) {
	decode := json.NewDecoder(strings.NewReader(string(text)))
	decode.UseNumber()
	var at any
	if err := decode.Decode(&at); err != nil {
		return "", fmt.Errorf("the output is not JSON: %w", err)
	}
	for i, key := range path {
		where := strings.Join(path[:i+1], ".")
		switch in := at.(type) {
		case map[string]any:
			next, ok := in[key]
			if !ok {
				return "", fmt.Errorf("the output has no %s", where)
			}
			at = next
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(in) {
				return "", fmt.Errorf("the output has no %s: the list has %d elements", where, len(in))
			}
			at = in[n]
		default:
			return "", fmt.Errorf("the output has no %s: what it would be in holds no others", where)
		}
	}
	number, ok := at.(json.Number)
	if !ok {
		return "", fmt.Errorf("%s is not a number", strings.Join(path, "."))
	}
	return number.String(), nil
}
