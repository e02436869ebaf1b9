package workload

import (
	_ "embed" // the script
	"fmt"
	"strings"
)

//go:embed index.sh
var indexScript string

// UnixIndexScript is a shell script that prints the Unix index of the machine that it
// runs on, by the program at UnixPath: for images, which hold no tare.
func UnixIndexScript() string {
	var tests []string
	for _, t := range unixTests() {
		cpu := 0
		if t.cpu {
			cpu = 1
		}
		tests = append(tests, fmt.Sprintf("%s %s %g %d %s", t.name, t.unit, t.baseline, cpu, strings.Join(t.args, " ")))
	}
	return strings.NewReplacer("@TESTS@", strings.Join(tests, "\n"), "@UNIX@", UnixPath).Replace(indexScript)
}
