package scripts

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGenerated holds what is generated and in version control to its sources. That a
// build of them gives the same bits is shown by make check-generated.
func TestGenerated(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "bash", "generated.sh", "current").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// tracked is a file of the repository, for a module's zip.
type tracked struct{ path string }

func (f tracked) Path() string                 { return f.path }
func (f tracked) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join("..", f.path)) }
func (f tracked) Open() (io.ReadCloser, error) { return os.Open(filepath.Join("..", f.path)) }

// TestGoInstall installs tare as users do, from the zip of its module, which a module
// proxy of files offers: what is embedded is in it. The network is not used.
func TestGoInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("links a whole tare")
	}
	version := gomodule.Version{Path: "github.com/tarelab/tare", Version: "v0.0.1-test"}
	proxy := filepath.Join(t.TempDir(), "proxy")
	offer(t, proxy, version)
	cached := strings.TrimSpace(output(t, nil, "go", "env", "GOMODCACHE"))
	home := t.TempDir()
	env := append(os.Environ(),
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cached, "cache", "download"),
		"GOSUMDB=off", "GOPRIVATE=", "GOWORK=off", "GOMODCACHE="+filepath.Join(home, "mod"), "GOBIN="+home, "CGO_ENABLED=0",
		"GOFLAGS=-trimpath -modcacherw")
	output(t, env, "go", "install", version.Path+"/cmd/tare@"+version.Version)

	tare := filepath.Join(home, "tare")
	if said := output(t, nil, tare, "version"); !strings.Contains(said, "tare "+version.Version+" ") || !strings.Contains(said, "guest sha256:") {
		t.Errorf("tare version: %s", said)
	}
	if page := output(t, nil, tare, "report", "--format", "html", "../internal/cli/testdata/runs/few"); !strings.HasPrefix(page, "<!doctype html>") {
		t.Errorf("the page of the installed tare: %.200s", page)
	}
}

// offer writes a module's version into a proxy of files: what is in version control or
// would be with the next commit.
func offer(t *testing.T, proxy string, version gomodule.Version) {
	t.Helper()
	dir := filepath.Join(proxy, version.Path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []zip.File
	for _, path := range strings.Split(strings.TrimSuffix(output(t, nil, "git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join("..", path)); err == nil { // not deleted and not yet committed
			files = append(files, tracked{path})
		}
	}
	f, err := os.Create(filepath.Join(dir, version.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(zip.Create(f, version, files), f.Close()); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{version.Version + ".mod": string(mod), version.Version + ".info": `{"Version":"` + version.Version + `"}`, "list": version.Version + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// output runs a program, which must succeed, and gives its standard output.
func output(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	var said bytes.Buffer
	c.Env, c.Stderr = env, &said
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, said.String())
	}
	return string(out)
}
