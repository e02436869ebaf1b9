package unixbench

import (
	"strings"
)

// refusedLegend explains refusedMark.
const refusedLegend = "! refused: these numbers describe the run and claim nothing."

// refusedMark stands behind the name of a row, or a number, that is refused.
func refusedMark(why string) string {
	if why == "" {
		return ""
	}
	return " !"
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
