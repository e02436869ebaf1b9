package lab

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// session is what one process of tare makes on a machine while it measures: a
// directory, and below the same name cgroups and instances. It is locked while
// its process lives; one that can be locked by another is a dead process's.
type session struct {
	name string // [a-z0-9], part of every label
	dir  string // <state>/sessions/<name>
	lock *os.File
}

func sessionsDir(state string) string { return filepath.Join(state, "sessions") }

// newSession makes and locks a session of this process.
func newSession(state string) (*session, error) {
	for range 8 { // a sweeper may take a directory for a dead one's before it is locked
		var random [4]byte
		if _, err := rand.Read(random[:]); err != nil {
			return nil, fmt.Errorf("session name: %w", err)
		}
		s := &session{name: "s" + hex.EncodeToString(random[:])}
		s.dir = filepath.Join(sessionsDir(state), s.name)
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return nil, fmt.Errorf("state directory: %w (choose another with --state)", err)
		}
		err := s.tryLock()
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errSessionAlive) && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no session could be locked below %s", sessionsDir(state))
}

// errSessionAlive says that a session's process still runs.
var errSessionAlive = errors.New("its process still runs")

func (s *session) tryLock() error {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("session lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return errSessionAlive
		}
		return fmt.Errorf("session lock: %w", err)
	}
	// A sweeper may have removed the file between its opening and its locking.
	var locked, named unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &locked)
	if err == nil {
		err = unix.Stat(f.Name(), &named)
	}
	if err != nil || locked.Ino != named.Ino || locked.Dev != named.Dev {
		f.Close()
		return errSessionAlive
	}
	s.lock = f
	return nil
}

// runDir is where drivers keep what is theirs.
func (s *session) runDir() string { return filepath.Join(s.dir, "run") }

// volatileDir is that of the drivers' in memory.
func (s *session) volatileDir() string { return filepath.Join(s.dir, "volatile") }

// settings is the file that says what the machine's settings were.
func (s *session) settings() string { return filepath.Join(s.dir, "settings.json") }

// makeDirs makes the drivers' directories, which go with the session's.
func (s *session) makeDirs(lab driver.Lab) error {
	return errors.Join(os.MkdirAll(lab.RunDir, 0o700), os.MkdirAll(lab.VolatileDir, 0o700))
}

// mountVolatile puts a directory into memory, until it is removed.
func mountVolatile(dir string) error {
	if err := unix.Mount(driver.Label, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

// remove deletes the session's directory and gives up its lock.
func (s *session) remove() error {
	err := sys.RemoveTree(s.dir)
	return errors.Join(err, s.lock.Close())
}

// leave gives up the session's lock, and leaves to a sweep what does not lie in memory.
func (s *session) leave() error {
	err := sys.RemoveTree(s.volatileDir())
	return errors.Join(err, s.lock.Close())
}

// deadSessions are those whose processes have ended without removing them. Each
// comes locked, so that two sweepers do not meet in one.
func deadSessions(state string) ([]*session, error) {
	entries, err := os.ReadDir(sessionsDir(state))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	var dead []*session
	for _, e := range entries {
		if !e.IsDir() {
			continue // not ours
		}
		s := &session{name: e.Name(), dir: filepath.Join(sessionsDir(state), e.Name())}
		if err := s.tryLock(); err == nil {
			dead = append(dead, s)
		} else if !errors.Is(err, errSessionAlive) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			return dead, err
		}
	}
	return dead, nil
}
