package sys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/limit"
)

// Settings changes settings of the whole machine, by their sysctl names or, of
// those below /sys, the paths of their files. What they were is in File before they
// are changed, so that after a kill RestoreSettings can put them back.
type Settings struct{ File string }

// settable are the settings that tare may change, and so the only files that a sweep
// writes to: File lies on a disk, and what it says is not believed.
var settable = []string{
	"net.ipv4.neigh.default.gc_thresh1",
	"net.ipv4.neigh.default.gc_thresh2",
	"net.ipv4.neigh.default.gc_thresh3",
	filepath.Join(ksmDir, "run"),
	filepath.Join(ksmDir, "pages_to_scan"),
	filepath.Join(ksmDir, "sleep_millisecs"),
	hugePagesFile,
}

// settingValue is what all of them hold.
var settingValue = regexp.MustCompile(`^[0-9]{1,10}$`)

// checkSettings refuses names and values that tare does not set.
func checkSettings(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(settable, name) {
			return fmt.Errorf("%q is not a setting that tare changes", name)
		}
		if !settingValue.MatchString(values[name]) {
			return fmt.Errorf("setting %s: %.40q is not a number", name, values[name])
		}
	}
	return nil
}

// before is what File holds.
type before struct {
	Boot   string            `json:"boot"` // a later one has its own values
	Values map[string]string `json:"values"`
}

// lockSettings takes the locks of settings, which the kernel releases when the process
// dies: only one process of tare changes or restores a setting at a time.
func lockSettings(values map[string]string) (release func(), err error) {
	var held []*os.File
	release = func() {
		for _, f := range held {
			f.Close() // and with it the lock
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f, err := os.Open(settingFile(name))
		if err == nil {
			held = append(held, f)
			if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
				err = fmt.Errorf("another run has changed it: %w", err)
			}
		}
		if err != nil {
			release()
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return release, nil
}

// Set writes settings. restore puts back what they were.
// Only one process of tare changes a setting at a time.
func (s Settings) Set(values map[string]string) (restore func() error, err error) {
	if err := checkSettings(values); err != nil {
		return nil, err
	}
	self, err := Self()
	if err != nil {
		return nil, err
	}
	if _, err := RestoreSettings(s.File); err != nil { // those of a restore that failed: the file is written anew below
		return nil, err
	}
	release, err := lockSettings(values)
	if err != nil {
		return nil, err
	}
	were := before{Boot: self.Boot, Values: map[string]string{}}
	for name := range values {
		text, err := os.ReadFile(settingFile(name))
		if err != nil {
			release()
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		were.Values[name] = strings.TrimSpace(string(text))
	}
	err = checkSettings(were.Values)
	if err == nil {
		err = keepSettings(s.File, were)
	}
	if err != nil {
		release()
		return nil, fmt.Errorf("keep what the machine's settings were: %w", err)
	}
	restore = func() error {
		defer release()
		if err := writeSettings(were.Values); err != nil {
			return err // the file stays: it is all that knows what they were
		}
		return removeIfThere(s.File)
	}
	if err := errors.Join(writeSettings(values), enoughHugePages(values)); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// keepSettings puts the file in place whole, and on the disk: a setting is changed only
// after that.
func keepSettings(file string, were before) error {
	data, err := json.Marshal(were)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func removeIfThere(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RestoreSettings puts back what a file of Settings says, and removes it. It returns a
// line for each setting; nothing where there is no file. Values of an earlier boot are
// dropped: the machine has had its own since. So is a file that no tare has written (it
// is in place whole before a setting is changed): that is reported, and blocks nothing.
func RestoreSettings(file string) ([]string, error) {
	data, err := ReadForeign(file, limit.SessionProof)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	self, selfErr := Self()
	if selfErr != nil {
		return nil, selfErr
	}
	var were before
	if err == nil {
		err = json.Unmarshal(data, &were)
	}
	if err == nil {
		err = checkSettings(were.Values)
	}
	switch {
	case err != nil:
		return []string{fmt.Sprintf("nothing of %s, which is not a list of settings: %v", file, err)}, removeIfThere(file)
	case were.Boot != self.Boot:
		return nil, removeIfThere(file)
	}
	release, err := lockSettings(were.Values)
	if err != nil {
		return nil, fmt.Errorf("put the machine's settings back: %w", err)
	}
	defer release()
	if err := writeSettings(were.Values); err != nil {
		return nil, fmt.Errorf("put the machine's settings back: %w", err)
	}
	var did []string
	for _, name := range slices.Sorted(maps.Keys(were.Values)) {
		did = append(did, fmt.Sprintf("%s = %s", name, were.Values[name]))
	}
	return did, removeIfThere(file)
}

func writeSettings(values map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if text, err := os.ReadFile(settingFile(name)); err == nil && strings.TrimSpace(string(text)) == values[name] {
			continue // also where it cannot be written: nothing is to be put back there
		}
		if err := os.WriteFile(settingFile(name), []byte(values[name]), 0); err != nil {
			errs = append(errs, fmt.Errorf("setting %s = %s: %w", name, values[name], err))
		}
	}
	return errors.Join(errs...)
}

func settingFile(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}
