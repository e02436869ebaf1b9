package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tarelab/tare/internal/limit"
)

const (
	// mostEntry is what one wait, sample or stack has at most, in bytes: twice a line of an
	// imported profile, for its quotes. mostField is that of the other fields.
	mostEntry = 2 * longestLine
	mostField = 64 << 10
	// mostFields is how many fields there are at most: those of a newer tare included.
	mostFields = 100
	// framesOfStack is how many frames a stack has in the mean at most: kernels give 127,
	// and most stacks have some 20.
	framesOfStack = 32
)

// Decode reads a profile as encoding/json writes it, an entry at a time: what it takes
// follows from limit.RunProfile and limit.ProfileWaits, and not from the length of r.
func Decode(r io.Reader) (Profile, error) {
	d := decoder{seen: map[string]bool{}, from: limit.RunProfile.Reader(r)}
	d.json = json.NewDecoder(&d)
	if err := d.object(); err != nil {
		return Profile{}, fmt.Errorf("profile: %w", err)
	}
	if _, err := d.token(); !errors.Is(err, io.EOF) {
		return Profile{}, errors.Join(errors.New("profile: more follows after its end"), err)
	}
	return d.p, nil
}

// decoder is a profile that is being read. It is the reader of its JSON decoder, which
// buffers an entry as a whole.
type decoder struct {
	from   io.Reader
	left   int // bytes that may be read before the entry must have ended
	json   *json.Decoder
	p      Profile
	frames int
	seen   map[string]bool // fields
}

func (d *decoder) Read(b []byte) (int, error) {
	if d.left == 0 {
		return 0, fmt.Errorf("an entry has more than %d bytes", mostEntry)
	}
	n, err := d.from.Read(b[:min(len(b), d.left)])
	d.left -= n
	return n, err
}

// next decodes the next value.
func (d *decoder) next(into any) error {
	d.left = mostEntry
	return d.json.Decode(into)
}

// token reads the next bracket, name or value.
func (d *decoder) token() (json.Token, error) {
	d.left = mostEntry
	return d.json.Token()
}

func (d *decoder) object() error {
	token, err := d.token()
	if err != nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%.60q where { is to be", fmt.Sprint(token))
	}
	for d.json.More() {
		name, err := d.token()
		if err == nil {
			err = d.field(name.(string)) // in an object the decoder gives nothing else
		}
		if err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

func (d *decoder) field(name string) error {
	if d.seen[name] {
		return fmt.Errorf("%q is there twice", name)
	}
	if len(d.seen) == mostFields {
		return fmt.Errorf("it has more than %d fields", mostFields)
	}
	d.seen[name] = true
	switch name {
	case "waits":
		return entries(d, &d.p.Waits, func(Wait) error { return limit.ProfileWaits.CheckItems(len(d.p.Waits)) })
	case "samples":
		return entries(d, &d.p.Samples, func(Sample) error { return limit.RunProfile.CheckItems(len(d.p.Samples)) })
	case "stacks":
		return entries(d, &d.p.Stacks, d.stack)
	}
	var value json.RawMessage
	if err := d.next(&value); err != nil {
		return err
	}
	if len(value) > mostField {
		return fmt.Errorf("%q has more than %d bytes", name, mostField)
	}
	one, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return err
	}
	return json.Unmarshal(one, &d.p)
}

func (d *decoder) stack(frames []string) error {
	for i, f := range frames {
		if len(f) > LongestName {
			frames[i] = strings.Clone(cut(f))
		}
	}
	d.frames += len(frames)
	if d.frames > framesOfStack*limit.RunProfile.Items {
		return fmt.Errorf("its stacks have more than %d frames", framesOfStack*limit.RunProfile.Items)
	}
	return errors.Join(limit.RunProfile.CheckDepth(len(frames)), limit.RunProfile.CheckItems(len(d.p.Stacks)))
}

// entries reads a list, and has each entry judged when it has been added. The list may
// be null.
func entries[T any](d *decoder, into *[]T, judge func(T) error) error {
	token, err := d.token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("%.60q where a list is to be", fmt.Sprint(token))
	}
	for d.json.More() {
		var one T
		if err := d.next(&one); err != nil {
			return err
		}
		*into = append(*into, one)
		if err := judge(one); err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}
