package sys

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Settings changes settings of the whole machine, by their sysctl names or, of
// those below /sys, the paths of their files. What they were is in File before they
// are changed, so that after a kill RestoreSettings can put them back.
type Settings struct{ File string }

// Set writes settings. restore puts back what they were.
// Only one process of tare changes a setting at a time.
func (s Settings) Set(values map[string]string) (restore func() error, err error) {
	var held []*os.File
	release := func() {
		for _, f := range held {
			f.Close() // and with it the lock
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	before := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f, err := os.Open(settingFile(name))
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		held = append(held, f)
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			return nil, fmt.Errorf("setting %s: another run has changed it: %w", name, err)
		}
		text, err := os.ReadFile(settingFile(name))
		if err != nil {
			return nil, fmt.Errorf("setting %s: %w", name, err)
		}
		before[name] = strings.TrimSpace(string(text))
	}
	data, err := json.Marshal(before)
	if err == nil {
		err = os.WriteFile(s.File, data, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("keep what the machine's settings were: %w", err)
	}
	restore = func() error {
		defer release()
		_, err := RestoreSettings(s.File)
		return err
	}
	if err := writeSettings(values); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// RestoreSettings puts back what a file of Settings says, and removes it. It says
// what it did, a line for each setting; nothing where there is no file.
func RestoreSettings(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var before map[string]string
	if err == nil {
		err = json.Unmarshal(data, &before)
	}
	if err == nil {
		err = writeSettings(before)
	}
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		return nil, fmt.Errorf("put the machine's settings back: %w", err)
	}
	var did []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		did = append(did, fmt.Sprintf("%s = %s", name, before[name]))
	}
	return did, nil
}

func writeSettings(values map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
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
