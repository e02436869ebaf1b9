package store

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

// importedFile marks a run that came from an archive.
const importedFile = "imported"

// archived are the files of a run that an archive holds: not the values of workloads'
// variables, the lock, and pages that can be made again.
var archived = regexp.MustCompile(`^(manifest\.json|records\.jsonl|end\.json|(logs|profiles)/[^./][^/]*)$`)

// madeID is how every id begins that newDir gives: no name of the user's does.
var madeID = regexp.MustCompile(`^[0-9]{8}-[0-9]{6}-`)

// Export writes a run as a gzipped tar, in a directory with the run's id. Values of the
// environment of workloads are left out, as they are of the manifest.
func (r *Run) Export(w io.Writer) error {
	packed := gzip.NewWriter(w)
	out := tar.NewWriter(packed)
	total := int64(0)
	err := fs.WalkDir(r.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !archived.MatchString(name) {
			return err
		}
		size, err := r.exportFile(out, name, total)
		total += size
		return err
	})
	if err := errors.Join(err, out.Close(), packed.Close()); err != nil {
		return fmt.Errorf("run %s: %w", r.manifest.ID, err)
	}
	return nil
}

// exportFile writes a file of a run, of which before bytes are written: no more than
// Import takes.
func (r *Run) exportFile(out *tar.Writer, name string, before int64) (size int64, err error) {
	f, err := OpenFile(r.root, name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if err := limit.RunArchive.CheckBytes(max(info.Size(), before+info.Size())); err != nil { // the sum may overflow
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	header := &tar.Header{Name: path.Join(r.manifest.ID, name), Mode: 0o644, Size: info.Size(), ModTime: info.ModTime().Truncate(time.Second)}
	if err := out.WriteHeader(header); err != nil {
		return 0, err
	}
	return io.Copy(out, io.LimitReader(f, info.Size())) // records may grow meanwhile
}

// Import adds a run that Export or a Stream wrote to the store under root and returns its
// directory. What it reads is a stranger's: it is bounded, only files of a run are taken
// from it, and it must hold one whole run that the store does not have. The run can be
// read, and never resumed: its commands are a stranger's. The error wraps ErrThere where
// the store has the run.
func Import(root string, in io.Reader) (dir string, err error) {
	return ImportIf(root, in, func(Manifest) error { return nil })
}

// ImportIf is Import of a run whose manifest admit takes: its error refuses the run.
func ImportIf(root string, in io.Reader, admit func(Manifest) error) (dir string, err error) {
	base := filepath.Join(root, "runs")
	if err := makeDirs(base); err != nil {
		return "", NoSpace(fmt.Errorf("store: %w", err))
	}
	temp := filepath.Join(base, temporaryOf("import-"+time.Now().UTC().Format("20060102-150405.000000000")))
	if err := os.Mkdir(temp, 0o755); err != nil {
		return "", NoSpace(fmt.Errorf("store: %w", err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	below, err := os.OpenRoot(temp)
	if err != nil {
		return "", err
	}
	defer func() { _ = below.Close() }() // each file has been closed by then
	held, err := lock(below)
	if err != nil {
		return "", err
	}
	defer func() { _ = held.Close() }() // and with it the lock
	if err := unpack(below, in); err != nil {
		return "", err
	}
	m, err := wholeRun(temp)
	if err == nil {
		err = admit(m)
	}
	if err != nil {
		return "", err
	}
	dir = filepath.Join(base, m.ID)
	return dir, place(temp, dir)
}

// unpack writes the files of a run that an archive or a stream holds, and marks it.
func unpack(root *os.Root, in io.Reader) error {
	peeked := bufio.NewReader(in)
	how := unstream
	if magic, err := peeked.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b { // RFC 1952
		how = unpackRun
	}
	if err := how(root, peeked); err != nil {
		return err
	}
	return replace(root, importedFile, 0o644, func(io.Writer) error { return nil })
}

// unpackRun writes the files of a run that an archive holds.
func unpackRun(root *os.Root, archive io.Reader) error {
	packed, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("the archive of a run: %w", err)
	}
	in := tar.NewReader(limit.RunArchive.Reader(packed))
	total := int64(0) // of what is written: holes of a sparse file count, which the reader does not see
	for n := 1; ; n++ {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			total += header.Size
			err = errors.Join(limit.RunArchive.CheckItems(n), limit.RunArchive.CheckBytes(total))
		}
		if err != nil {
			return fmt.Errorf("the archive of a run: %w", err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if header.Typeflag != tar.TypeReg || !archived.MatchString(name) {
			return fmt.Errorf("the archive of a run: %.200q is not a file of a run", header.Name)
		}
		if err := unpackFile(root, name, in); err != nil {
			return NoSpace(fmt.Errorf("the archive of a run: %.200q: %w", header.Name, err))
		}
	}
}

func unpackFile(root *os.Root, name string, in io.Reader) error {
	if err := root.Mkdir(path.Dir(name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Sync(), f.Close())
}

// wholeRun is the manifest of the run in dir, which must be whole.
func wholeRun(dir string) (Manifest, error) {
	r, err := Open(dir)
	if err != nil {
		return Manifest{}, err
	}
	v, err := r.Verify()
	if err = errors.Join(err, r.Close()); err != nil {
		return Manifest{}, err
	}
	if len(v.Damaged) > 0 {
		return Manifest{}, fmt.Errorf("the run is damaged: %w", v.Damaged[0])
	}
	if id := r.manifest.ID; !madeID.MatchString(id) || filepath.Base(id) != id {
		return Manifest{}, fmt.Errorf("%w: %s names the run %.100q", ErrCorrupt, manifestFile, id)
	}
	return r.manifest, nil
}

// place gives a directory its name, which nothing has yet: mkdir(2) decides, and
// rename(2) replaces a directory that is empty.
func place(temp, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %s", ErrThere, filepath.Base(dir))
		}
		return NoSpace(err)
	}
	return NoSpace(syscall.Rename(temp, dir)) // os.Rename refuses a directory that is there
}

// size is how many bytes a run's files hold.
func size(root *os.Root) (bytes int64) {
	_ = fs.WalkDir(root.FS(), ".", func(_ string, e fs.DirEntry, err error) error { // what cannot be read counts as nothing
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
