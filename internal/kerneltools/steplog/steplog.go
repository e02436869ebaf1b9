// Package steplog keeps the steps of a search of hours, so that one that was ended goes
// on behind the last step.
package steplog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Log is a file of steps of type S, a JSON object a line behind one that says of what
// search. While it is open, no other process has it.
type Log[S any] struct {
	Steps []S // that were there
	file  *os.File
}

// searchOf is a log's first line.
type searchOf struct {
	Search string `json:"search"`
}

// A BusyError says that another process searches with a log.
type BusyError struct{ Name string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: another process goes on with this search: wait for it, or name another directory with -o", e.Name)
}

// An OtherError says that a log is of another search.
type OtherError struct{ Name, Depends string }

func (e *OtherError) Error() string {
	return fmt.Sprintf("%s: it is of another search (%s): remove it, or name another directory with -o", e.Name, e.Depends)
}

// Open opens the log of a search, or begins it. of stands for all that the search depends
// on, and depends says in words what that is: another search's log is an *OtherError. A
// last line that was cut short is no step.
func Open[S any](name, of, depends string) (*Log[S], error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of the search: %w", err)
	}
	l := &Log[S]{file: f}
	if err := l.begin(name, of, depends); err != nil {
		return nil, errors.Join(fmt.Errorf("log of the search: %w", err), f.Close())
	}
	return l, nil
}

func (l *Log[S]) begin(name, of, depends string) error {
	if err := unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return &BusyError{name}
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	begun, err := l.read(of)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if begun != of {
		return &OtherError{name, depends}
	}
	return nil
}

// read takes the steps that are there, and says of which search they are.
func (l *Log[S]) read(of string) (begun string, err error) {
	text, err := io.ReadAll(l.file)
	if err != nil {
		return "", err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if err := l.file.Truncate(int64(len(text))); err != nil {
		return "", err
	}
	if _, err := l.file.Seek(0, io.SeekEnd); err != nil {
		return "", err
	}
	if len(text) == 0 {
		return of, l.write(searchOf{of})
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var head searchOf
	if err := json.Unmarshal(first, &head); err != nil {
		return "", err
	}
	if head.Search != of {
		return head.Search, nil
	}
	for line := range bytes.Lines(rest) {
		var s S
		if err := json.Unmarshal(line, &s); err != nil {
			return "", err
		}
		l.Steps = append(l.Steps, s)
	}
	return of, nil
}

func (l *Log[S]) write(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	return err
}

// Keep writes a step, so that it is on the disk before the next is tried.
func (l *Log[S]) Keep(s S) error {
	if err := errors.Join(l.write(s), l.file.Sync()); err != nil {
		return fmt.Errorf("log of the search: %w", err)
	}
	return nil
}

// Close ends the writing.
func (l *Log[S]) Close() error { return l.file.Close() }
