// Package kconfig reads a kernel's configuration (.config, /boot/config-*,
// /proc/config.gz) and says whether it has what a need asks for. It reads
// values only: which symbol depends on which is asked of the kernel tree's own
// Kconfig, elsewhere.
package kconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/textfile"
	"github.com/tarelab/tare/internal/limit"
)

// The longest line that is read. An
// allnoconfig has some 900 symbols; what has fewer than the fewest is not whole.
const (
	mostLine = 64 << 10
	fewest   = 500
)

// ErrNotAConfig says that the input is no kernel configuration.
var ErrNotAConfig = errors.New("this is no kernel configuration: it has no line as CONFIG_NAME=y or \"# CONFIG_NAME is not set\"")

// A Config is a kernel's configuration.
type Config struct {
	Arch     string            // as its first lines say, such as x86, else by its symbols; empty where neither tells
	Version  string            // of the kernel, as its first lines say; else empty
	Order    []string          // the symbols of Values, in the file's order
	Values   map[string]string // by symbol without CONFIG_: y, m, n, or a text as it stands there
	Warnings []string          // what makes it doubtful, for people
}

var (
	heading = regexp.MustCompile(`^# Linux/(\S+) (\d+\.\d+\S*) Kernel Configuration`)
	older   = regexp.MustCompile(`^# Linux kernel version: (\d+\.\d+\S*)`)
	set     = regexp.MustCompile(`^CONFIG_(\w+)=(.*)$`)
	unset   = regexp.MustCompile(`^# CONFIG_(\w+) is not set$`)
)

// Parse reads a configuration, plain or compressed with gzip. A text that is none
// is ErrNotAConfig; textfile.Read says of what is no text. Of a compressed file that
// was cut short it reads what there is, with a warning.
func Parse(r io.Reader) (*Config, error) {
	text, cut, err := textfile.Read(r, limit.Kconfig.Bytes)
	if err != nil {
		return nil, err
	}
	if err := limit.Kconfig.CheckItems(bytes.Count(text, []byte("\n"))); err != nil {
		return nil, err
	}
	c := &Config{Values: map[string]string{}}
	odd := 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimRight(line, " \t\r") // as the kernel's own conf does: an edited file may have blanks
		if len(line) > mostLine {
			return nil, fmt.Errorf("line %d is longer than %d KiB: %w", i+1, mostLine>>10, ErrNotAConfig)
		}
		if !c.line(line) {
			odd++
		}
	}
	if len(c.Values) == 0 {
		return nil, ErrNotAConfig
	}
	for symbol, arch := range map[string]string{"X86": "x86", "X86_64": "x86", "ARM64": "arm64"} {
		if c.Arch == "" && c.On(symbol) { // a fragment has no heading
			c.Arch = arch
		}
	}
	if cut {
		c.Warnings = append(c.Warnings, textfile.CutShort+", and symbols that it had count as absent")
	}
	if c.Version == "" || len(c.Values) < fewest {
		c.Warnings = append(c.Warnings, fmt.Sprintf("it looks like a defconfig or a fragment (%d symbols%s): what has its default is left out there, and counts as absent; make olddefconfig makes it whole",
			len(c.Values), headless(c.Version)))
	}
	if odd > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d lines are neither values nor comments", odd))
	}
	return c, nil
}

func headless(version string) string {
	if version == "" {
		return ", no heading with a version"
	}
	return ""
}

// line reads one line; false is one that a configuration does not have.
func (c *Config) line(line string) bool {
	if m := set.FindStringSubmatch(line); m != nil {
		c.value(m[1], m[2])
		return true
	}
	if m := unset.FindStringSubmatch(line); m != nil {
		c.value(m[1], "n")
		return true
	}
	if m := heading.FindStringSubmatch(line); m != nil && c.Version == "" {
		c.Arch, c.Version = m[1], m[2]
	} else if m := older.FindStringSubmatch(line); m != nil && c.Version == "" {
		c.Version = m[1]
	}
	return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")
}

func (c *Config) value(symbol, value string) {
	before, twice := c.Values[symbol]
	if twice && before != value {
		c.Warnings = append(c.Warnings, fmt.Sprintf("CONFIG_%s is there twice, as %s and %s: the last counts", symbol, before, value))
	}
	if !twice {
		c.Order = append(c.Order, symbol)
	}
	c.Values[symbol] = value
}

// Release is the version's first two numbers, as 6.1; "" where the version is not known.
func (c *Config) Release() string {
	return leading.FindString(c.Version)
}

// Value is what a symbol comes to: one that is absent is off, as one that is not set.
func (c *Config) Value(symbol string) string {
	if v, ok := c.Values[symbol]; ok {
		return v
	}
	return "n"
}

// Differ are the symbols of which another configuration has another value, in the order of
// its file; those that it lacks are last.
func (c *Config) Differ(other *Config) (symbols []string) {
	for _, s := range other.Order {
		if c.Value(s) != other.Value(s) {
			symbols = append(symbols, s)
		}
	}
	for _, s := range c.Order {
		if _, there := other.Values[s]; !there && c.Value(s) != "n" {
			symbols = append(symbols, s)
		}
	}
	return symbols
}

// On says whether a symbol is built in or a module.
func (c *Config) On(symbol string) bool {
	v := c.Values[symbol]
	return v == "y" || v == "m"
}
