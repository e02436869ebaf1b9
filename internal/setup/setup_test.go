package setup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func table(t *testing.T) Table {
	t.Helper()
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTable holds the table to its form: a part can be found, and a distribution without
// a package for it has a sentence on what to do.
func TestTable(t *testing.T) {
	all := table(t)
	var managers []string
	for _, m := range all.Managers {
		if m.Program == "" || m.Offers == nil || m.Install == nil {
			t.Errorf("manager %s: a command is missing", m.Name)
		}
		managers = append(managers, m.Name)
	}
	if want := []string{"apt", "dnf", "zypper", "pacman", "apk"}; !slices.Equal(managers, want) {
		t.Errorf("managers %v, want %v", managers, want)
	}
	for _, p := range all.Parts {
		if len(p.Programs)+len(p.Files) == 0 || len(p.For) == 0 {
			t.Errorf("%s: nothing shows that it is here, or nothing needs it", p.Name)
		}
		for name := range p.Packages {
			if !slices.Contains(managers, name) {
				t.Errorf("%s: no manager is called %q", p.Name, name)
			}
		}
		if len(p.Packages) < len(managers) && p.Else == "" {
			t.Errorf("%s: some distributions have no package, and it does not say what to do there", p.Name)
		}
	}
}

// fakeMachine is one with these programs, which write their calls to the file calls.
func fakeMachine(t *testing.T, programs map[string]string) (m Machine, calls string) {
	t.Helper()
	m = Machine{Root: t.TempDir(), Arch: "amd64", Path: []string{"/bin"}}
	for _, dir := range []string{"bin", "usr/sbin", "etc/rc2.d"} {
		if err := os.MkdirAll(filepath.Join(m.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, body := range programs {
		script := "#!/bin/sh\ncd " + m.Root + "\necho \"" + name + " $*\" >>calls\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(m.Root, "bin", name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(m.Root, "bin")+":/usr/bin:/bin")
	return m, filepath.Join(m.Root, "calls")
}

func manager(t *testing.T, m Machine) Manager {
	t.Helper()
	by := m.Manager(table(t))
	if by == nil {
		t.Fatal("no package manager was found")
	}
	return *by
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestServicesStay installs by each manager: what the packages enable is disabled, what
// was enabled before stays, also where the installation fails.
func TestServicesStay(t *testing.T) {
	const systemctl = `case "$*" in
*list-unit-files*) [ -s "units$1" ] && cat "units$1" ;; # it fails where none is enabled
*disable*) for unit; do :; done; sed -i "/^$unit /d" "units$1" ;;
esac`
	install := `case "$*" in
*" crun") [ ! -e usr/sbin/policy-rc.d ] || cp usr/sbin/policy-rc.d seen
	echo "docker.service enabled enabled" >>units--system
	echo "podman.socket enabled enabled" >>units--global ;;
esac`
	for program, code := range map[string]string{"apt-get": "exit 0", "dnf": "exit 0", "zypper": "exit 0", "pacman": "exit 0", "apk": "exit 0", "apt-get ": "exit 100"} {
		name := strings.TrimSpace(program)
		m, calls := fakeMachine(t, map[string]string{name: install + "\n" + code, "systemctl": systemctl})
		for file, line := range map[string]string{"units--system": "ssh.service enabled enabled\n", "units--global": ""} {
			if err := os.WriteFile(filepath.Join(m.Root, file), []byte(line), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		disabled, err := m.Install(t.Context(), manager(t, m), []string{"runc", "crun"}, &log)
		if (err != nil) != (code != "exit 0") {
			t.Errorf("%s that does %s: %v\n%s", name, code, err, log.String())
		}
		if want := []string{"docker.service", "podman.socket"}; !slices.Equal(disabled, want) {
			t.Errorf("%s: disabled %v, want %v", name, disabled, want)
		}
		if left := read(t, filepath.Join(m.Root, "units--system")); left != "ssh.service enabled enabled\n" {
			t.Errorf("%s: enabled afterwards: %q", name, left)
		}
		if left := read(t, filepath.Join(m.Root, "units--global")); left != "" {
			t.Errorf("%s: enabled for users afterwards: %q", name, left)
		}
		if called := read(t, calls); strings.Contains(called, "--now") {
			t.Errorf("%s: systemd does not run, and was asked to stop a service:\n%s", name, called)
		}
		if _, err := os.Stat(filepath.Join(m.Root, policy)); err == nil {
			t.Errorf("%s: the policy stays", name)
		}
		if _, err := os.Stat(filepath.Join(m.Root, "seen")); (err == nil) != (name == "apt-get") {
			t.Errorf("%s: a policy forbids starts during the installation: %v", name, err == nil)
		}
	}
}

// TestServicesUnknown: where systemd cannot say what is enabled, nothing is installed.
func TestServicesUnknown(t *testing.T) {
	m, calls := fakeMachine(t, map[string]string{"apt-get": "", "systemctl": "echo 'no such scope' >&2; exit 1"})
	if _, err := m.Install(t.Context(), manager(t, m), []string{"runc"}, new(bytes.Buffer)); err == nil || strings.Contains(read(t, calls), "apt-get") {
		t.Errorf("error %v; called\n%s", err, read(t, calls))
	}
}

// TestRunningServicesStop: where systemd runs, what a package has started is stopped.
func TestRunningServicesStop(t *testing.T) {
	m, calls := fakeMachine(t, map[string]string{
		"zypper": "touch installed", "systemctl": `[ ! -e installed ] || [ "$1" != --system ] || echo docker.service enabled enabled`,
	})
	if err := os.MkdirAll(filepath.Join(m.Root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context(), manager(t, m), []string{"docker"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if called := read(t, calls); !strings.Contains(called, "systemctl --system disable --now docker.service\n") {
		t.Errorf("called\n%s", called)
	}
}

// TestOwnPolicyStays: a policy of the machine's administrator is neither replaced nor
// removed.
func TestOwnPolicyStays(t *testing.T) {
	m, _ := fakeMachine(t, map[string]string{"apt-get": ""})
	name := filepath.Join(m.Root, policy)
	if err := os.WriteFile(name, []byte("own"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context(), manager(t, m), []string{"runc"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, name); got != "own" {
		t.Errorf("the policy is %q", got)
	}
}

// TestPolicyOfAKilledSetupGoes: the next one takes it for its own, or no service would
// ever start again.
func TestPolicyOfAKilledSetupGoes(t *testing.T) {
	m, _ := fakeMachine(t, map[string]string{"apt-get": ""})
	by := manager(t, m)
	if err := os.WriteFile(filepath.Join(m.Root, policy), []byte(denial), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context(), by, []string{"runc"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(m.Root, policy)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the policy stays: %v", err)
	}
}

// TestPolicyOfAnotherSetupStays: its packages are being installed yet.
func TestPolicyOfAnotherSetupStays(t *testing.T) {
	m, _ := fakeMachine(t, map[string]string{"apt-get": ""})
	by := manager(t, m)
	allow, err := m.forbidStarts(by)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Install(t.Context(), by, []string{"runc"}, new(bytes.Buffer)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(m.Root, policy)); err != nil {
		t.Error(err)
	}
	if err := allow(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(m.Root, policy)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the policy stays: %v", err)
	}
}

// TestScriptsStay is a machine without systemd, with links of System V and those that
// Debian's packages make for systemd, which the installation may bring.
func TestScriptsStay(t *testing.T) {
	m, calls := fakeMachine(t, map[string]string{"update-rc.d": "", "apt-get": `case "$*" in *docker.io)
	touch etc/rc2.d/S20docker bin/systemctl
	chmod +x bin/systemctl
	mkdir etc/systemd/system/sockets.target.wants etc/systemd/user/sockets.target.wants
	ln -s /lib/systemd/system/containerd.service etc/systemd/system/multi-user.target.wants
	ln -s /lib/systemd/system/docker.socket etc/systemd/system/sockets.target.wants
	ln -s /lib/systemd/user/podman.socket etc/systemd/user/sockets.target.wants
	ln -s /lib/systemd/system/redis-server.service etc/systemd/system/redis.service
esac`})
	wants := filepath.Join(m.Root, "etc/systemd/system/multi-user.target.wants")
	for _, dir := range []string{wants, filepath.Join(m.Root, "etc/systemd/user")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/lib/systemd/system/ssh.service", filepath.Join(wants, "ssh.service")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.Root, "etc/rc2.d/S01ssh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	disabled, err := m.Install(t.Context(), manager(t, m), []string{"docker.io"}, new(bytes.Buffer))
	slices.Sort(disabled)
	if want := []string{"containerd.service", "docker", "docker.socket", "podman.socket", "redis.service"}; err != nil || !slices.Equal(disabled, want) {
		t.Errorf("disabled %v, %v, want %v", disabled, err, want)
	}
	if called := read(t, calls); !strings.HasSuffix(called, "update-rc.d docker disable\n") {
		t.Errorf("called\n%s", called)
	}
	left, err := filepath.Glob(filepath.Join(m.Root, "etc/systemd/*/*.wants/*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "ssh.service" {
		t.Errorf("links for systemd afterwards: %v, %v", left, err)
	}
}

// TestOffered: a package that only some releases have is installed there alone.
func TestOffered(t *testing.T) {
	m, _ := fakeMachine(t, map[string]string{"apt-get": "", "apt-cache": `[ "$2" = docker.io ] && echo Package: docker.io`})
	offered, not := manager(t, m).Offered(t.Context(), []string{"docker.io", "docker-cli"})
	if !slices.Equal(offered, []string{"docker.io"}) || !slices.Equal(not, []string{"docker-cli"}) {
		t.Errorf("offered %v, not %v", offered, not)
	}
}

func TestOf(t *testing.T) {
	m, _ := fakeMachine(t, map[string]string{"crun": "", "docker": ""})
	for target, want := range map[string]string{
		"crun":             "crun",
		"docker@nat":       "runc containerd docker",
		"docker/crun":      "runc crun containerd docker",
		"qemu/microvm":     "mke2fs xz QEMU",
		"native/spawn":     "",
		"cloud-hypervisor": "mke2fs xz Cloud Hypervisor",
	} {
		var names []string
		for _, p := range m.Of(table(t), []string{target}) {
			names = append(names, p.Name)
			if here := p.Name == "crun"; m.Has(p) != here { // docker lacks dockerd
				t.Errorf("%s is here: %v", p.Name, !here)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s needs %s, want %s", target, got, want)
		}
	}
	if programs := m.Of(table(t), []string{"host"}, "fio", "busybox"); len(programs) != 2 || programs[0].Name != "busybox" || programs[1].Name != "fio" {
		t.Errorf("workloads need %+v", programs)
	}
	if all := m.Of(table(t), nil); len(all) < 15 {
		t.Errorf("all parts are %d", len(all))
	}
	if m.Manager(table(t)) != nil {
		t.Error("a package manager where none is")
	}
}
