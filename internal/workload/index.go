package workload

import (
	_ "embed" // the script
	"fmt"
	"strings"
)

//go:embed index.sh
var indexScript string

// UnixIndexScript is a shell script that prints the Unix index of the machine that it
// runs on, by the dynamic programs in UnixDir, as tare index does by default: for images,
// which hold no tare.
func UnixIndexScript() string {
	var tests []string
	for _, t := range unixTests() {
		cpu := 0
		if t.cpu {
			cpu = 1
		}
		arguments := strings.Join(t.args, " ")
		if t.name == "whetstone" {
			arguments += " --variant=as-compiled"
		}
		tests = append(tests, fmt.Sprintf("%s %s %g %d %s %s", t.name, t.unit, t.baseline, cpu, t.program(true), arguments))
	}
	return strings.Replace(indexScript, "@TESTS@", strings.Join(tests, "\n"), 1)
}
