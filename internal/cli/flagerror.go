package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/study"
)

// advice says what to give to flags of Go's own types, in place of the words of Go's parsers.
var advice = map[string]string{
	"int":      "give a whole number, such as 12",
	"uint":     "give a whole number that is not negative, such as 12",
	"float64":  "give a number, such as 2.5",
	"duration": "give a length of time with its unit, such as 500ms, 10s or 1m30s",
	"bool":     "give true or false, or nothing",
	"boolfunc": "give true or false, or nothing",
}

func init() {
	for _, bits := range []string{"8", "16", "32", "64"} {
		advice["int"+bits], advice["uint"+bits] = advice["int"], advice["uint"]
	}
}

// flagError words the refusal of a verb's flags.
func flagError(c *cobra.Command, err error) error {
	var none *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &none):
		err = nearFlag(c, none)
	case errors.As(err, &invalid):
		err = invalidValue(invalid)
	}
	return usageError{fmt.Errorf("%w\nsee: %s --help", err, c.CommandPath())}
}

// nearFlag adds to the refusal of a flag which of the verb's it may have meant.
func nearFlag(c *cobra.Command, err *pflag.NotExistError) error {
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := study.Nearest(err.GetSpecifiedName(), known); near != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

func invalidValue(err *pflag.InvalidValueError) error {
	flag := "--" + err.GetFlag().Name
	what, plain := advice[err.GetFlag().Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s %s: the number is too large", flag, err.GetValue())
	case plain:
		return fmt.Errorf("%s %q: %s", flag, err.GetValue(), what)
	}
	return fmt.Errorf("%s %q: %w", flag, err.GetValue(), err.Unwrap())
}

// wantsJSON reports whether a command line asks for JSON, also where it cannot be
// parsed: its errors are JSON, too.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch name, value, given := strings.Cut(arg, "="); {
		case arg == "--":
			return false // what follows is the payload's
		case name == "--json":
			if on, err := strconv.ParseBool(value); !given || err == nil && on {
				return true
			}
		case arg == "-fjson", (name == "--format" || name == "-f") && value == "json":
			return true
		case (arg == "--format" || arg == "-f") && !given && i+1 < len(args) && args[i+1] == "json":
			return true
		}
	}
	return false
}
