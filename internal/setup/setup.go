// Package setup finds what this machine lacks of what tare weighs, and installs it by
// the distribution's packages. Services that the packages bring are left disabled.
package setup

import (
	"context"
	_ "embed" // of the table
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed packages.yaml
var packages []byte

// Table is packages.yaml.
type Table struct {
	Managers []Manager `yaml:"managers"`
	Parts    []Part    `yaml:"parts"`
}

// Manager is a package manager. Its commands take names of packages at their end.
type Manager struct {
	Name        string   `yaml:"name"`
	Program     string   `yaml:"program"`     // shows that the distribution has it
	Environment []string `yaml:"environment"` // of install
	Refresh     []string `yaml:"refresh"`     // brings its lists up to date; nil where install does
	Offers      []string `yaml:"offers"`      // prints something and succeeds where a package exists
	Install     []string `yaml:"install"`
}

// Part is something that targets or studies need.
type Part struct {
	Name     string              `yaml:"name"`
	For      []string            `yaml:"for"`      // targets, families of targets, "workloads", which name it themselves, or the flag that asks for it
	Asked    bool                `yaml:"asked"`    // installed only where a study runs one of its programs
	Arch     []string            `yaml:"arch"`     // GOARCH; none: all
	Programs []string            `yaml:"programs"` // all of them, in PATH
	Files    []string            `yaml:"files"`    // one of them; beside Programs
	Packages map[string][]string `yaml:"packages"` // by manager
	Else     string              `yaml:"else"`     // what to do where there is no package
}

// Read reads the table.
func Read() (Table, error) {
	var t Table
	if err := yaml.UnmarshalWithOptions(packages, &t, yaml.Strict()); err != nil {
		return t, fmt.Errorf("read the table of packages: %w", err)
	}
	return t, nil
}

// Machine is where parts are looked for and packages are installed.
type Machine struct {
	Root string   // "" for the machine's own; another for tests
	Arch string   // GOARCH
	Path []string // directories of programs
}

// system are directories of programs that a user's PATH often lacks.
var system = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Here is this machine. further are directories of programs beside those of PATH.
func Here(arch, path string, further ...string) Machine {
	postgres, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // Debian's place; the pattern is right
	return Machine{Arch: arch, Path: slices.Concat(further, filepath.SplitList(path), system, postgres)}
}

// Manager is the first of the table's managers that the machine has; nil for none.
func (m Machine) Manager(t Table) *Manager {
	for i := range t.Managers {
		if m.program(t.Managers[i].Program) {
			return &t.Managers[i]
		}
	}
	return nil
}

func (m Machine) program(name string) bool {
	return slices.ContainsFunc(m.Path, func(dir string) bool {
		info, err := os.Stat(filepath.Join(m.Root, dir, name))
		return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
	})
}

// Has reports whether a part is here.
func (m Machine) Has(p Part) bool {
	for _, name := range p.Programs {
		if !m.program(name) {
			return false
		}
	}
	return len(p.Files) == 0 || slices.ContainsFunc(p.Files, func(name string) bool {
		_, err := os.Stat(filepath.Join(m.Root, name))
		return err == nil
	})
}

// Of are the parts of this machine's architecture that the targets or studies need, or
// that have one of the programs; where neither is named, those that need not be asked for.
func (m Machine) Of(t Table, targets []string, programs ...string) []Part {
	needed := func(p Part) bool {
		return len(targets) == 0 && len(programs) == 0 && !p.Asked || slices.ContainsFunc(targets, p.needed) ||
			slices.ContainsFunc(programs, func(name string) bool { return slices.Contains(p.Programs, name) })
	}
	return slices.DeleteFunc(slices.Clone(t.Parts), func(p Part) bool {
		return len(p.Arch) > 0 && !slices.Contains(p.Arch, m.Arch) || !needed(p)
	})
}

func (p Part) needed(target string) bool {
	target, _, _ = strings.Cut(target, "@") // a path of the network
	return slices.ContainsFunc(p.For, func(f string) bool {
		return f == target || strings.HasPrefix(target, f+"/")
	})
}

// Commands are what Install runs, as a user could type it.
func (m Manager) Commands(names []string) [][]string {
	var all [][]string
	if m.Refresh != nil {
		all = append(all, m.Refresh)
	}
	return append(all, slices.Concat(m.Install, names))
}

// Refreshed brings the manager's lists up to date.
func (m Manager) Refreshed(ctx context.Context, log io.Writer) error {
	if m.Refresh == nil {
		return nil
	}
	return run(ctx, log, nil, m.Refresh)
}

// Offered splits names of packages into those that the distribution has and others.
func (m Manager) Offered(ctx context.Context, names []string) (offered, not []string) {
	for _, name := range names {
		argv := append(slices.Clone(m.Offers), name)
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err == nil && len(out) > 0 {
			offered = append(offered, name)
		} else {
			not = append(not, name)
		}
	}
	return offered, not
}

// run runs a command to its end, also where ctx ends first: what a package manager is
// killed in, stays half installed. A terminal's Ctrl-C reaches it by itself.
func run(ctx context.Context, log io.Writer, environment, argv []string) error {
	fmt.Fprintln(log, "+", strings.Join(argv, " "))
	c := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)
	c.Env = append(os.Environ(), environment...)
	c.Stdout, c.Stderr = log, log
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
