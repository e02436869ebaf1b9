package trim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// searchLog keeps the steps of a search, a JSON object a line behind one that says
// of what, so that a search that was interrupted goes on behind the last.
type searchLog struct {
	Steps []Step // that were there
	file  *os.File
}

// searchOf is a log's first line.
type searchOf struct {
	Search string `json:"search"`
}

// openLog opens the log of a search, or begins it. of names all that the search
// depends on: another's log is an error. A last line that was cut short is no step.
func openLog(name, of string) (*searchLog, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of the search: %w", err)
	}
	l := &searchLog{file: f}
	if err := l.read(of); err != nil {
		return nil, errors.Join(fmt.Errorf("log of the search: %s: %w", name, err), f.Close())
	}
	return l, nil
}

func (l *searchLog) read(of string) error {
	text, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	if err := l.file.Truncate(int64(len(text))); err != nil {
		return err
	}
	if _, err := l.file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if len(text) == 0 {
		return l.write(searchOf{of})
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var begun searchOf
	if err := json.Unmarshal(first, &begun); err != nil {
		return err
	}
	if begun.Search != of {
		return errors.New("it is of another search (source, needs, machine, compression or proof): remove it, or name another directory with -o")
	}
	for line := range bytes.Lines(rest) {
		var s Step
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		l.Steps = append(l.Steps, s)
	}
	return nil
}

func (l *searchLog) write(what any) error {
	line, err := json.Marshal(what)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	return err
}

// keep writes a step, so that it is on the disk before the next is tried.
func (l *searchLog) keep(s Step) error {
	if err := errors.Join(l.write(s), l.file.Sync()); err != nil {
		return fmt.Errorf("log of the search: %w", err)
	}
	return nil
}

func (l *searchLog) close() error { return l.file.Close() }
