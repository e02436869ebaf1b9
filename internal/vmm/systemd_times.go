package vmm

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tarelab/tare/internal/sample"
)

// systemdFinished is what systemd reports once nothing is left to be started:
// "Startup finished in 739ms (kernel) + 1min 4.497s (userspace) = 1min 5.236s."
var systemdFinished = regexp.MustCompile(`Startup finished in (.+) = ([^=]+?)\.?$`)

// systemdPart is one of its summands.
var systemdPart = regexp.MustCompile(`^(.+) \((\w+)\)$`)

// systemdMetrics are the names of the summands that are metrics.
var systemdMetrics = map[string]string{"kernel": sample.SystemdKernel, "initrd": sample.SystemdInitrd, "userspace": sample.SystemdUserspace}

// SystemdTimes is what systemd reports of its own start on a line of the console, by
// metric; nil for another line.
func SystemdTimes(line string) map[string]time.Duration {
	found := systemdFinished.FindStringSubmatch(strings.TrimRight(colours.ReplaceAllString(line, ""), "\r "))
	if found == nil {
		return nil
	}
	total, ok := systemdSpan(found[2])
	if !ok {
		return nil
	}
	times := map[string]time.Duration{sample.SystemdTotal: total}
	for summand := range strings.SplitSeq(found[1], " + ") {
		part := systemdPart.FindStringSubmatch(summand)
		if part == nil {
			return nil
		}
		took, ok := systemdSpan(part[1])
		if !ok {
			return nil
		}
		if metric := systemdMetrics[part[2]]; metric != "" {
			times[metric] = took
		}
	}
	return times
}

// systemdUnits are those of systemd's spans of time (systemd.time(7)) that a boot has.
var systemdUnits = []struct {
	name string
	unit time.Duration
}{{"min", time.Minute}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"h", time.Hour}, {"s", time.Second}}

// systemdSpan reads "2min 2.438s".
func systemdSpan(text string) (time.Duration, bool) {
	sum := time.Duration(0)
	for word := range strings.FieldsSeq(text) {
		known := false
		for _, u := range systemdUnits {
			number, ok := strings.CutSuffix(word, u.name)
			if n, err := strconv.ParseFloat(number, 64); ok && err == nil && n >= 0 && n < 1e6 {
				sum, known = sum+time.Duration(n*float64(u.unit)), true
				break
			}
		}
		if !known {
			return 0, false
		}
	}
	return sum, sum > 0
}
