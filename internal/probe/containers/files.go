package containers

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// files reads files that the kernel makes when they are read, a cgroup's and a
// process's, and keeps them open between readings: of many containers, finding them
// by name again and again would be most of what a watch costs. It is not safe for
// use by several goroutines.
type files struct {
	open  map[string]*openFile
	most  int // files that are kept open at once
	round int
	text  []byte // of the file that is being read
}

type openFile struct{ descriptor, round int }

// newFiles may keep half of the descriptors that this process can have.
func newFiles() *files {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		limit.Cur = 0 // none is kept then
	}
	return &files{open: map[string]*openFile{}, most: int(min(limit.Cur, 1<<20) / 2), text: make([]byte, 0, page)}
}

// read gives a file's text. A file that cannot be read any more is closed.
func (f *files) read(name string) ([]byte, error) {
	file, known := f.open[name]
	if !known {
		descriptor, err := open(name)
		if err != nil {
			return nil, err
		}
		file = &openFile{descriptor: descriptor}
		f.open[name] = file
	}
	file.round = f.round
	text, err := f.content(file.descriptor, name)
	if err != nil || len(f.open) > f.most {
		f.close(name)
	}
	return text, err
}

// once gives the text of a file that is not kept. Half the system calls of
// os.ReadFile are for files that one may have to wait for.
func (f *files) once(name string) ([]byte, error) {
	descriptor, err := open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(descriptor) }() // it was only read
	return f.content(descriptor, name)
}

func open(name string) (descriptor int, err error) {
	if descriptor, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return descriptor, nil
}

// content reads a file from its beginning. Most are a few bytes long: what is made
// for each is no larger than its text.
func (f *files) content(descriptor int, name string) ([]byte, error) {
	text := f.text[:0]
	for {
		n, err := unix.Pread(descriptor, text[len(text):cap(text)], int64(len(text)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		text = text[:len(text)+n]
		// A reading goes on until its page is as good as full (fs/seq_file.c,
		// seq_read_iter): less than half of one was the rest.
		if n < page/2 {
			return bytes.Clone(text), nil
		}
		text = slices.Grow(text, page)
		f.text = text
	}
}

const page = 4096

// next ends a round: what was not read in it belongs to what has ended.
func (f *files) next() {
	for name, file := range f.open {
		if file.round != f.round {
			f.close(name)
		}
	}
	f.round++
}

func (f *files) closeAll() {
	for name := range f.open {
		f.close(name)
	}
}

func (f *files) close(name string) {
	_ = unix.Close(f.open[name].descriptor) // it was only read
	delete(f.open, name)
}
