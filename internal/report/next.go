package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/quantity"
)

// next are the commands that lead on, each as it can be typed.
func (v view) next() []Action {
	m := v.in.Manifest
	runs := []string{name(v.in.Names, 0, m.ID)}
	for i, o := range v.in.Others {
		runs = append(runs, name(v.in.Names, i+1, o.ID))
	}
	report := "tare report " + strings.Join(lines(runs, shellWord), " ")
	var out []Action
	if v.in.unfinished() && !v.in.Live && len(v.in.Others) == 0 {
		out = append(out, Action{"go on", "tare resume " + shellWord(runs[0])})
	}
	out = append(out, Action{"all tables", report + " --all"})
	if v.in.Page != "" {
		out = append(out, Action{"charts, samples", shellWord(v.in.Page)})
	} else {
		out = append(out, Action{"charts, samples", report + " -f html -o report.html"})
	}
	if text := v.settle().command; text != "" {
		out = append(out, Action{"settle one", text})
	}
	if len(v.leftOut) > 0 && len(v.in.Others) == 0 {
		out = append(out, Action{"what is missing", "tare check"})
	}
	if again := command(m.Command, "", ""); again != "" && len(v.in.Others) == 0 {
		out = append(out, Action{"after a change", again}, Action{"what it changed", report + " last"})
	}
	return out
}

// name is how commands name a run: as the user did, else by its id.
func name(names []string, i int, id string) string {
	if i < len(names) && names[i] != "" {
		return names[i]
	}
	return id
}

// openMost is the number of blocks above which a summary names no command that would
// settle a cell: it would run for hours.
const openMost = 1000

// settling is what would settle an open cell: a sentence, and a command where there is one.
type settling struct{ text, command string }

// settle says how many blocks would settle the open cell that needs fewest. Runs that are
// compared, those of experiments with tables of their own, and one whose blocks are being
// measured have none.
func (v view) settle() settling {
	if v.alone() != nil || len(v.in.Others) > 0 || v.in.Live {
		return settling{}
	}
	open, least, where, group := 0, 0, "", ""
	for _, g := range v.groups {
		for _, t := range g.primary {
			for _, r := range t.Rows {
				if r.claim.AA || r.verdict() != analysis.Open {
					continue
				}
				open++
				if n := r.claim.Effect.Need; n > 0 && (least == 0 || n < least) {
					least, where, group = n, r.claim.Label+" in "+t.claim.Group, t.claim.Workload
				}
			}
		}
	}
	text := quantity.Count(open, "cell") + " open"
	switch {
	case open == 0:
		return settling{}
	case least == 0 || least > openMost:
		return settling{text: text + ": a quieter machine would help more than more blocks."}
	}
	return settling{fmt.Sprintf("%s; about %s settle %s.", text, quantity.Count(least, "block"), where),
		command(v.in.Manifest.Command, group, strconv.Itoa(least))}
}

// commandMost is the length up to which a run's command is offered again.
const commandMost = 160

// command is the command of a run as a shell takes it, narrowed to a workload and with
// another number of blocks; "" where it is too long, or not one that measures. A run's
// directory may be somebody else's, so each word is quoted.
func command(argv []string, workload, blocks string) string {
	if len(argv) < 3 || !slices.Contains([]string{"run", "weigh"}, argv[1]) {
		return ""
	}
	argv = slices.Clone(argv)
	argv[0] = "tare"
	if blocks != "" {
		argv = withFlag(argv, "--blocks", blocks)
		for _, flag := range []string{"--precision", "--budget"} {
			argv = withoutFlag(argv, flag)
		}
	}
	if workload != "" && argv[1] == "run" && !slices.ContainsFunc(argv, choosesWork) {
		argv = append(argv, "--workloads="+workload)
	}
	text := strings.Join(lines(argv, shellWord), " ")
	if len(text) > commandMost || clean(text) != text {
		return ""
	}
	return text
}

// choosesWork reports whether a word of a command names workloads.
func choosesWork(word string) bool {
	return slices.ContainsFunc([]string{"--workloads", "--tests", "--protocol"}, func(flag string) bool { return strings.HasPrefix(word, flag) })
}

// withFlag gives a command a flag behind its verb, in place of the same one.
func withFlag(argv []string, flag, value string) []string {
	return slices.Insert(withoutFlag(argv, flag), 2, flag+"="+value)
}

// withoutFlag takes a flag with a value from a command; what follows "--" stays.
func withoutFlag(argv []string, flag string) []string {
	var out []string
	for i := 0; i < len(argv); i++ {
		switch {
		case argv[i] == "--":
			return append(out, argv[i:]...)
		case argv[i] == flag:
			i++
		case strings.HasPrefix(argv[i], flag+"="):
		default:
			out = append(out, argv[i])
		}
	}
	return out
}

var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// shellWord quotes a word for a POSIX shell where it needs that.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
