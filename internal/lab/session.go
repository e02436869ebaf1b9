package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// session is what one process of tare makes on a machine while it measures: a
// directory, and below the same name cgroups and instances. It is locked while
// its process lives, and its proof says whose it is.
type session struct {
	name  string // "s" and 8 hexadecimal digits, part of every label
	dir   string // <state>/sessions/<name>, for this user alone
	lock  *os.File
	proof proof
	life  sys.Life // of its process, of one that is swept
}

// proof is what a session says of itself before it makes anything. A sweep deletes only
// directories that hold one which is true of them: a copy has another inode.
type proof struct {
	Name    string       `json:"name"`
	Device  uint64       `json:"device"` // of the session's directory
	Inode   uint64       `json:"inode"`
	Process sys.Identity `json:"process"`
	Left    bool         `json:"left,omitempty"` // its process has given it up
}

// The files that a session's directory has from its first moment to its last.
const (
	proofFile    = "session.json"
	newProofFile = ".session.json.new"
	lockFile     = "lock"
)

var sessionName = regexp.MustCompile(`^s[0-9a-f]{8}$`)

func sessionsDir(state string) string { return filepath.Join(state, "sessions") }

// newSession makes and locks a session of this process.
func newSession(state string) (*session, error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, fmt.Errorf("state directory: %w (choose another with --state)", err)
	}
	if err := closeVolume(state); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := os.Mkdir(sessionsDir(state), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("state directory: %w (choose another with --state)", err)
	}
	if err := stateIsOurs(state); err != nil {
		return nil, err
	}
	if err := closeToOthers(sessionsDir(state)); err != nil {
		return nil, err
	}
	var err error
	for range 8 { // a sweeper may take a directory for a dead one's before it is locked
		s := &session{name: fmt.Sprintf("s%08x", rand.Uint32())}
		s.dir = filepath.Join(sessionsDir(state), s.name)
		err = os.Mkdir(s.dir, 0o700)
		if err == nil {
			err = s.tryLock()
		}
		if err == nil {
			err = s.prove()
		}
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, errSessionAlive) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("session: %w", err)
		}
	}
	return nil, fmt.Errorf("no session could be locked below %s: %w", sessionsDir(state), err)
}

// closeVolume takes others' rights to write away from an empty volume of root's that is
// mounted at the state directory: Kubernetes makes an emptyDir with mode 0777. Whatever
// else others can write to is left for stateIsOurs to refuse.
func closeVolume(state string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	d, err := os.OpenFile(state, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	var own, above unix.Stat_t
	if unix.Fstat(int(d.Fd()), &own) != nil || unix.Stat(filepath.Dir(state), &above) != nil ||
		own.Uid != 0 || own.Mode&0o022 == 0 || own.Mode&unix.S_ISVTX != 0 || own.Dev == above.Dev {
		return nil
	}
	mode := os.FileMode(own.Mode & 0o777)
	if err := d.Chmod(mode &^ 0o022); err != nil { // first, so that nothing is added after the look
		return err
	}
	if _, err := d.Readdirnames(1); !errors.Is(err, io.EOF) {
		return d.Chmod(mode) // somebody's things are in it
	}
	return nil
}

// stateIsOurs refuses to root a state directory that others can replace by one of theirs:
// root executes what lies there. Who has called root by sudo may.
func stateIsOurs(state string) error {
	if os.Geteuid() != 0 || inUserNamespace() {
		return nil
	}
	var trusted []int
	if caller, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil {
		trusted = append(trusted, caller)
	}
	if err := sys.OnlyOurs(state, trusted...); err != nil {
		return &InputError{fmt.Errorf("state directory: %w, and root keeps no state where others can change it: choose another place with --state", err)}
	}
	return nil
}

// inUserNamespace reports that this root is not the machine's: it may not be told who
// owns the directories on the way, and its payloads have no more rights than its user.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}

// closeToOthers sees that a directory is this user's, and takes others' rights away.
func closeToOthers(dir string) error {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	defer d.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &stat); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and sessions are kept where nobody else can write: choose another place with --state", dir, stat.Uid)
	}
	if stat.Mode&0o077 != 0 {
		if err := d.Chmod(0o700); err != nil {
			return fmt.Errorf("sessions: %w", err)
		}
	}
	return nil
}

// prove writes the session's proof.
func (s *session) prove() error {
	self, err := sys.Self()
	if err != nil {
		return err
	}
	stat, err := ownDir(s.dir)
	if err != nil {
		return err
	}
	s.proof = proof{Name: s.name, Device: uint64(stat.Dev), Inode: stat.Ino, Process: self} //nolint:unconvert // 32 bits wide on mips64le
	return s.writeProof()
}

func (s *session) writeProof() error {
	data, err := json.Marshal(s.proof)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, newProofFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(s.dir, proofFile))
}

// ownDir is the stat of a directory that is this user's, and closed to others.
func ownDir(dir string) (unix.Stat_t, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return stat, fmt.Errorf("%s: %w", dir, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return stat, fmt.Errorf("%s is not a directory of this user's alone: %w", dir, errUnproven)
	}
	return stat, nil
}

// errUnproven is of a directory that a sweep leaves alone: it cannot be proven to be a
// session's of this machine.
var errUnproven = errors.New("not proven to be a session of this machine")

// readProof reads the proof of a directory below sessions, and sees that it is true.
func (s *session) readProof() error {
	stat, err := ownDir(s.dir)
	if err != nil {
		return err
	}
	data, err := sys.ReadForeign(filepath.Join(s.dir, proofFile), limit.SessionProof)
	if err == nil {
		err = json.Unmarshal(data, &s.proof)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %w", s.dir, errUnproven, err)
	}
	life, err := s.proof.Process.Life()
	if err != nil {
		return err
	}
	s.life = life
	// Devices are numbered anew at a boot.
	moved := s.proof.Inode != stat.Ino || s.proof.Device != uint64(stat.Dev) && life != sys.Rebooted //nolint:unconvert // see prove
	switch {
	case s.proof.Name != s.name:
		return fmt.Errorf("%s says that it is %q: %w", s.dir, s.proof.Name, errUnproven)
	case moved:
		return fmt.Errorf("%s is a copy of a session's directory: %w", s.dir, errUnproven)
	}
	return nil
}

// errSessionAlive is of a session whose process still runs.
var errSessionAlive = errors.New("its process still runs")

func (s *session) tryLock() error {
	f, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
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
func (s *session) makeDirs() error {
	return errors.Join(os.MkdirAll(s.runDir(), 0o700), os.MkdirAll(s.volatileDir(), 0o700))
}

// mountVolatile puts a directory into memory, until it is removed.
func mountVolatile(dir string) error {
	if err := unix.Mount(driver.Label, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

// remove deletes the session's directory and gives up its lock. The proof goes last: a
// kill in the midst leaves a session that the next sweep proves.
func (s *session) remove() error {
	_, err := sys.UnmountBelow(s.dir)
	entries, readErr := os.ReadDir(s.dir)
	err = errors.Join(err, readErr)
	for _, e := range entries {
		if name := e.Name(); err == nil && name != proofFile && name != lockFile {
			err = sys.RemoveTree(filepath.Join(s.dir, name))
		}
	}
	if err == nil {
		err = s.removeHusk()
	}
	return errors.Join(err, s.lock.Close())
}

// removeHusk removes a session's directory that holds no more than it has before its
// process makes anything.
func (s *session) removeHusk() error {
	for _, name := range []string{newProofFile, proofFile, lockFile} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return unix.Rmdir(s.dir)
}

// husk reports whether a directory is what a kill leaves of a session that has made
// nothing yet, or nothing any more.
func (s *session) husk() (bool, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if e.Name() != lockFile && e.Name() != newProofFile || !e.Type().IsRegular() {
			return false, nil
		}
	}
	return true, nil
}

// leave gives up the session's lock, and leaves to a sweep what does not lie in memory.
func (s *session) leave() error {
	err := sys.RemoveTree(s.volatileDir())
	s.proof.Left = true
	return errors.Join(err, s.writeProof(), s.lock.Close())
}

// deadSessions are those whose processes have ended without removing them, each proven
// and locked, so that two sweepers do not meet in one. alone are the directories that
// are left alone, with the reasons.
func deadSessions(state string) (dead []*session, alone []string, err error) {
	if _, err := os.Lstat(sessionsDir(state)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err := errors.Join(stateIsOurs(state), closeToOthers(sessionsDir(state))); err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(sessionsDir(state))
	if err != nil {
		return nil, nil, fmt.Errorf("sessions: %w", err)
	}
	var errs []error
	for _, e := range entries {
		s := &session{name: e.Name(), dir: filepath.Join(sessionsDir(state), e.Name())}
		switch err := s.seize(); {
		case err == nil:
			dead = append(dead, s)
		case errors.Is(err, errUnproven):
			alone = append(alone, fmt.Sprintf("left alone: %v", err))
		case !errors.Is(err, errSessionAlive) && !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	return dead, alone, errors.Join(errs...)
}

// seize locks a session whose process has ended. Nothing is written into a directory
// that is not a session's.
func (s *session) seize() error {
	if !sessionName.MatchString(s.name) {
		return fmt.Errorf("%s is not named as sessions are: %w", s.dir, errUnproven)
	}
	proven := s.readProof()
	if errors.Is(proven, fs.ErrNotExist) {
		return s.seizeHusk()
	}
	if proven != nil {
		return proven
	}
	switch {
	case s.proof.Left:
	case s.life == sys.Running:
		return errSessionAlive
	case s.life == sys.Unknown && s.proof.Process.Boot == bootID():
		// Another PID namespace of this kernel: its lock is the proof.
	case s.life == sys.Unknown:
		return fmt.Errorf("%s is of a process on another machine: %w", s.dir, errUnproven)
	}
	return s.tryLock()
}

// seizeHusk removes what a kill has left between a session's directory and its proof.
func (s *session) seizeHusk() error {
	if is, err := s.husk(); err != nil || !is {
		return errors.Join(err, fmt.Errorf("%s has no %s: %w", s.dir, proofFile, errUnproven))
	}
	if err := s.tryLock(); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(s.dir, proofFile)); err == nil {
		return errors.Join(errSessionAlive, s.lock.Close()) // it was proven meanwhile
	}
	if err := errors.Join(s.removeHusk(), s.lock.Close()); err != nil {
		return err
	}
	return fs.ErrNotExist
}

func bootID() string {
	self, err := sys.Self()
	if err != nil {
		return strings.Repeat("?", 36) // nobody's
	}
	return self.Boot
}
