package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Install installs packages. Services that were not enabled before are not enabled after,
// and on Debian and its kin none is started: also where the installation fails midway.
// It gives the names of those that it disabled.
func (m Machine) Install(ctx context.Context, by Manager, names []string, log io.Writer) (disabled []string, err error) {
	enabled := m.enabled
	if !m.program("systemctl") {
		enabled = m.linked // afterwards too, though systemd may be there by then
	}
	before, err := enabled(ctx)
	if err != nil {
		return nil, fmt.Errorf("which services are enabled: %w", err)
	}
	allow, err := m.forbidStarts(by)
	if err != nil {
		return nil, err
	}
	err = run(ctx, log, by.Environment, slices.Concat(by.Install, names))
	err = errors.Join(err, allow())
	ctx = context.WithoutCancel(ctx) // what was enabled meanwhile is disabled, whatever ends this
	after, more := enabled(ctx)
	err = errors.Join(err, more)
	for _, s := range after {
		if slices.Contains(before, s) {
			continue
		}
		if !slices.Contains(disabled, s.name) {
			disabled = append(disabled, s.name)
		}
		err = errors.Join(err, m.disable(ctx, s, log))
	}
	return disabled, err
}

// policy is what Debian's packages ask before they start a service; 101 forbids it.
const policy = "usr/sbin/policy-rc.d"

// denial is the policy of tare setup.
const denial = "#!/bin/sh\n# Of tare setup, which removes it.\nexit 101\n"

// forbidStarts forbids the packages to start services, until allow is called. A policy
// that is there already stays, but for the one that a killed tare setup has left.
func (m Machine) forbidStarts(by Manager) (allow func() error, err error) {
	nothing := func() error { return nil }
	if by.Name != "apt" {
		return nothing, nil
	}
	name := filepath.Join(m.Root, "/", policy)
	remove := func() error { return os.Remove(name) }
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if text, err := os.ReadFile(name); err != nil || string(text) != denial {
			return nothing, nil
		}
	} else if err == nil {
		_, err = io.WriteString(f, denial)
		if err = errors.Join(err, f.Chmod(0o755), f.Close()); err != nil {
			err = errors.Join(err, remove())
		}
		if err != nil {
			return nil, fmt.Errorf("forbid the packages to start services: %w", err)
		}
	}
	held, err := os.Open(name) // a script that is open for writing cannot be run
	if err != nil {
		return nil, fmt.Errorf("forbid the packages to start services: %w", err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nothing, held.Close() // of another setup, which removes it
	}
	return func() error { return errors.Join(remove(), held.Close()) }, nil
}

// service is an enabled one.
type service struct {
	scope string // systemd's: "--system" or "--global", of all users; "" without systemctl
	name  string
	link  string // enables it for systemd, where systemctl is not installed; "" for a script in /etc/init.d
}

// enabled lists what systemd starts with the machine.
func (m Machine) enabled(ctx context.Context) ([]service, error) {
	var all []service
	for _, scope := range []string{"--system", "--global"} {
		out, err := exec.CommandContext(ctx, "systemctl", scope, "list-unit-files", "--state=enabled", "--no-legend", "--no-pager").Output()
		var none *exec.ExitError
		if errors.As(err, &none) && len(out) == 0 && len(none.Stderr) == 0 { // its way to say that none is enabled
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("systemctl %s list-unit-files: %w", scope, err)
		}
		for _, line := range strings.Split(string(out), "\n") {
			if fields := strings.Fields(line); len(fields) > 0 {
				all = append(all, service{scope: scope, name: fields[0]})
			}
		}
	}
	return all, nil
}

// linked lists the same on a machine without systemctl: what has a link of System V, and
// what has one of systemd, which Debian's packages make for when it is installed.
func (m Machine) linked(context.Context) ([]service, error) {
	all, err := m.scripts()
	for _, pattern := range []string{"system/*", "system/*.wants/*", "system/*.requires/*", "user/*", "user/*.wants/*", "user/*.requires/*"} {
		units, malformed := filepath.Glob(filepath.Join(m.Root, "/etc/systemd", pattern))
		err = errors.Join(err, malformed)
		for _, unit := range units {
			if info, err := os.Lstat(unit); err == nil && info.Mode().Type() == fs.ModeSymlink {
				all = append(all, service{name: filepath.Base(unit), link: unit})
			}
		}
	}
	return all, err
}

func (m Machine) scripts() ([]service, error) {
	links, err := filepath.Glob(filepath.Join(m.Root, "/etc/rc[2-5].d/S[0-9][0-9]*"))
	var all []service
	for _, link := range links {
		if s := (service{name: filepath.Base(link)[len("S00"):]}); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, err
}

func (m Machine) disable(ctx context.Context, s service, log io.Writer) error {
	if s.link != "" {
		if err := os.Remove(s.link); err != nil && !errors.Is(err, fs.ErrNotExist) { // update-rc.d has removed it with its script's
			return fmt.Errorf("disable %s: %w", s.name, err)
		}
		return nil
	}
	if s.scope == "" {
		return run(ctx, log, nil, []string{"update-rc.d", s.name, "disable"})
	}
	argv := []string{"systemctl", s.scope, "disable"}
	if _, err := os.Stat(filepath.Join(m.Root, "/run/systemd/system")); err == nil && s.scope == "--system" {
		argv = append(argv, "--now") // systemd runs, and may have started it
	}
	return run(ctx, log, nil, append(argv, s.name))
}
