package hostimage

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIzdTKqzPhLpDExpgZ3dIQ6tqxRRzvSP8UHxcFA0OBtp"

// good are options that an image can follow.
func good() Options {
	return Options{Output: "host.qcow2", Engine: "docker", Keys: []string{publicKey + " me@home\n"}, Hostname: "tare", Size: 4 << 30}
}

func TestSettle(t *testing.T) {
	for ending, want := range map[string]string{"host.qcow2": "qcow2", "host.img": "raw", "host.raw": "raw", "a/host.vmdk": "vmdk", "host": "qcow2"} {
		o := good()
		o.Output = ending
		if err := o.Settle(); err != nil || o.Format != want {
			t.Errorf("%s: format %q, %v; want %s", ending, o.Format, err, want)
		}
	}
	for want, spoil := range map[string]func(*Options){
		"name the disk's file":   func(o *Options) { o.Output = "" },
		"no disk format":         func(o *Options) { o.Output = "host.iso" },
		"--engine":               func(o *Options) { o.Engine = "dokcer" },
		"nobody could log in":    func(o *Options) { o.Keys = nil },
		"private key":            func(o *Options) { o.Keys = []string{"-----BEGIN OPENSSH PRIVATE KEY-----\n"} },
		"no public key of SSH":   func(o *Options) { o.Keys = []string{"# nothing\n"} },
		"--hostname":             func(o *Options) { o.Hostname = "a b" },
		"--size":                 func(o *Options) { o.Size = 1 << 20 },
		`did you mean "docker"?`: func(o *Options) { o.Needs = []string{"dokcer"} },
	} {
		o := good()
		spoil(&o)
		if err := o.Settle(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Keys keep their options and lose their comments; a broken one is named.
func TestAuthorized(t *testing.T) {
	got, err := authorized([]string{"# the team\n" + publicKey + " me@home\n\n" + `from="10.0.0.0/8",no-pty ` + publicKey + "\n", publicKey})
	want := publicKey + "\n" + `from="10.0.0.0/8",no-pty ` + publicKey + "\n" + publicKey + "\n"
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := authorized([]string{publicKey + "\nssh-ed25519 AAAA cut off\n"}); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a key that would let nobody in: %v", err)
	}
}

// The start files are what their readers take.
func TestStartFiles(t *testing.T) {
	for _, format := range Formats {
		o := good()
		o.Format = format
		all, err := starts("host."+format, `/a <b> & "c"`, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, ending := range beside[2:] {
			if all[ending] == "" {
				t.Errorf("%s: no file %s", format, ending)
			}
		}
		var domain struct {
			XMLName xml.Name `xml:"domain"`
			Source  struct {
				File string `xml:"file,attr"`
			} `xml:"devices>disk>source"`
		}
		if err := xml.Unmarshal([]byte(all["libvirt.xml"]), &domain); err != nil || domain.Source.File != `/a <b> & "c"/host.`+format {
			t.Errorf("%s: libvirt's file: %v, disk %q", format, err, domain.Source.File)
		}
		var config struct {
			Boot   map[string]string `json:"boot-source"`
			Drives []map[string]any  `json:"drives"`
		}
		if err := json.Unmarshal([]byte(all["firecracker.json"]), &config); err != nil || config.Boot["kernel_image_path"] != "host.vmlinux" || config.Drives[0]["path_on_host"] != "host.raw" {
			t.Errorf("%s: firecracker's file: %v, %+v", format, err, config)
		}
		for ending, text := range all {
			if !strings.HasSuffix(ending, ".sh") {
				continue
			}
			c := exec.Command("sh", "-n")
			c.Stdin = strings.NewReader(text)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v: %s", format, ending, err, out)
			}
			if !strings.Contains(text, "root=PARTLABEL="+rootLabel) {
				t.Errorf("%s: %s names no root", format, ending)
			}
		}
	}
}

// What an image has, it has at its place in a tree, with its mode, and identities go.
func TestFurnish(t *testing.T) {
	tree := t.TempDir()
	for _, dir := range []string{"etc/ssh", "root", "var/lib/systemd"} {
		if err := os.MkdirAll(filepath.Join(tree, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"etc/ssh/ssh_host_rsa_key", "etc/machine-id", "etc/resolv.conf", "kernel"} {
		if err := os.WriteFile(filepath.Join(tree, file), []byte("the builder's"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := furnish(tree, good(), filepath.Join(tree, "kernel")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree, "etc/ssh/ssh_host_rsa_key")); err == nil {
		t.Error("a host key stayed")
	}
	if id, err := os.ReadFile(filepath.Join(tree, "etc/machine-id")); err != nil || len(id) > 0 {
		t.Errorf("machine-id %q, %v", id, err)
	}
	if info, err := os.Stat(filepath.Join(tree, "root/.ssh/authorized_keys")); err != nil || info.Mode() != 0o600 {
		t.Errorf("authorized_keys: %v, %v", info, err)
	}
	if to, err := os.Readlink(filepath.Join(tree, "etc/systemd/system/serial-getty@.service")); err != nil || to != "/dev/null" {
		t.Errorf("without --console nobody logs in there: %q, %v", to, err)
	}
}

// A place that is taken is refused, also by what came there during the build; a build
// that fails leaves nothing.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "host.qcow2")
	o, err := newOutput(disk, false)
	if err != nil {
		t.Fatal(err)
	}
	work, done, err := o.workplace()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.workplace(); err == nil || !strings.Contains(err.Error(), "another build") {
		t.Errorf("two builds at once: %v", err)
	}
	for _, name := range o.names() {
		if err := os.WriteFile(filepath.Join(work, filepath.Base(name)), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(o.beside("libvirt.xml"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.publish(func(name string) string { return filepath.Join(work, filepath.Base(name)) }); err == nil {
		t.Error("a file was overwritten")
	}
	if err := done(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := newOutput(disk, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a taken place: %v", err)
	}
	if _, err := newOutput(filepath.Join(dir, "a b.qcow2"), false); err == nil {
		t.Error("a name that no shell takes as it is")
	}
}

// A directory in the place of any of the files is refused before the build: to replace it
// fails, after the disk before it was replaced.
func TestOutputIsADirectory(t *testing.T) {
	for n := range len(beside) + 1 {
		disk := filepath.Join(t.TempDir(), "host.qcow2")
		o, err := newOutput(disk, true)
		if err != nil {
			t.Fatal(err)
		}
		name := o.names()[n]
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, force := range []bool{false, true} {
			if _, err := newOutput(disk, force); err == nil || !strings.Contains(err.Error(), filepath.Base(name)+" is a directory") {
				t.Errorf("%s, force %v: %v", name, force, err)
			}
		}
	}
}

// What --force replaces is there again where a later file cannot be in its place.
func TestReplacedFilesComeBack(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "host.qcow2")
	o, err := newOutput(disk, true)
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	at := func(name string) string { return filepath.Join(made, filepath.Base(name)) }
	names := o.names()
	last := names[len(names)-1]
	for _, name := range names {
		if err := errors.Join(os.WriteFile(at(name), []byte("new"), 0o600), os.WriteFile(name, []byte("old"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Remove(names[1]), os.Remove(last), os.Mkdir(last, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := o.publish(at); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a directory in a file's place: %v", err)
	}
	for i, name := range names[:len(names)-1] {
		text, err := os.ReadFile(name)
		if i == 1 && !errors.Is(err, fs.ErrNotExist) || i != 1 && string(text) != "old" {
			t.Errorf("%s: %q, %v", filepath.Base(name), text, err)
		}
	}
	if err := os.Remove(last); err != nil {
		t.Errorf("the directory is gone: %v", err)
	}
	for _, name := range names { // what was taken back is not made any more where nothing stood
		if err := os.WriteFile(at(name), []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.publish(at); err != nil {
		t.Error(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); string(text) != "new" {
			t.Errorf("%s: %q, %v", filepath.Base(name), text, err)
		}
	}
}

// A working directory that somebody else has made is not used.
func TestForeignWorkplace(t *testing.T) {
	dir := t.TempDir()
	o, err := newOutput(filepath.Join(dir, "host.raw"), false)
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(dir, ".host.raw.tare-image")
	if err := os.Symlink(t.TempDir(), place); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.workplace(); err == nil {
		t.Error("a link was followed")
	}
	if err := os.Remove(place); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(place, 0o700), os.Chmod(place, 0o777)); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if _, _, err := o.workplace(); err == nil {
		t.Error("a directory that all may write to was used")
	}
}

// A disk is known by what it holds: a qcow2 image, or a GPT.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	file := func(name, head string) string {
		text := append([]byte(head), make([]byte, 1024-len(head))...)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	gpt := strings.Repeat("\x00", gptAt) + gptMagic
	for _, c := range []struct {
		disk, err string
		qcow2     bool
	}{
		{disk: file("raw", gpt)},
		{disk: file("packed", "QFI\xfb\x00\x00\x00\x03"), qcow2: true},
		{disk: file("neither", "KDMV"), err: "qemu-img convert"},
		{disk: dir, err: "not a regular file"},
		{disk: filepath.Join(dir, "gone"), err: "no such file"},
	} {
		qcow2, err := inspect(c.disk)
		if qcow2 != c.qcow2 || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want %v, %q", filepath.Base(c.disk), qcow2, err, c.qcow2, c.err)
		}
	}
}

// qemu-img's own disks with other files behind them are refused.
func TestHostileDisks(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Skip("qemu-img is not installed: scripts/setup.sh trim")
	}
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"backing.qcow2": {"-u", "-b", "/etc/shadow", "-F", "raw"},
		"data.qcow2":    {"-o", "data_file=" + filepath.Join(dir, "secret")},
	} {
		disk := filepath.Join(dir, name)
		if err := run(context.Background(), "qemu-img", append(append([]string{"create", "-q", "-f", "qcow2"}, args...), disk, "1M")...); err != nil {
			t.Fatal(err)
		}
		if err := Run(t.Context(), driver.Lab{}, Start{Disk: disk}); err == nil || !strings.Contains(err.Error(), "file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAuthorized(f *testing.F) {
	f.Add(publicKey + " me@home")
	f.Add(`command="a \"b\"" ` + publicKey)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			return
		}
		keys, err := authorized([]string{text})
		if err == nil && keys == "" {
			t.Error("no key and no error")
		}
		if _, again := authorized([]string{keys}); err == nil && again != nil {
			t.Errorf("its own output: %v", again)
		}
	})
}

// A file of keys at its limit takes no more memory than the table says.
func TestKeysAlloc(t *testing.T) {
	text := strings.Repeat(publicKey+"\n", int(limit.SSHKeys.Bytes)/(len(publicKey)+1))
	if err := limit.SSHKeys.CheckAlloc(func() { _, _ = authorized([]string{text}) }); err != nil {
		t.Error(err)
	}
}

// Who takes a disk to a monitor with a screen and asks for a console gets it there.
func TestConsoleOfScreens(t *testing.T) {
	for format, want := range map[string]bool{"qcow2": false, "vmdk": true, "vdi": true} {
		o := good()
		o.Format, o.Console = format, true
		all, err := items(o)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]string{}
		for _, i := range all {
			has[strings.TrimPrefix(i.path, "/etc/systemd/system/")] = i.text
		}
		if masked := has["getty@tty1.service"] == "/dev/null"; masked == want || strings.Contains(has["getty@tty1.service.d/tare.conf"], "--autologin root") != want {
			t.Errorf("%s: the screen's login is masked: %v, its settings are %q", format, masked, has["getty@tty1.service.d/tare.conf"])
		}
	}
}

// A raw disk that is older than the disk it was made of is not started: somebody has made
// a new one.
func TestStaleRawDisk(t *testing.T) {
	dir := t.TempDir()
	all, err := starts("host.qcow2", dir, good())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"start.sh": all["cloud-hypervisor.sh"], "host.raw": "", "host.qcow2": "",
		"cloud-hypervisor": "#!/bin/sh\n[ \"$1\" = --help ] && echo 'image_type=<raw|qcow2>' || echo \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	start := func() (string, error) {
		c := exec.Command("sh", filepath.Join(dir, "start.sh"))
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		return string(out), err
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "host.qcow2"), now, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, err := start(); err == nil || !strings.Contains(said, "host.qcow2 is newer than host.raw") {
		t.Errorf("%v: %s", err, said)
	}
	if err := os.Chtimes(filepath.Join(dir, "host.qcow2"), now, now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, err := start(); err != nil || !strings.Contains(said, "path=host.raw,image_type=raw") {
		t.Errorf("%v: %s", err, said)
	}
}

// Where a file system renames without flags alone, files are put into place by links.
func TestOutputByLinks(t *testing.T) {
	dir := t.TempDir()
	made, name := filepath.Join(dir, "made"), filepath.Join(dir, "host.qcow2")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	write(made, "new")
	write(name, "old")
	if _, err := (output{}).link(made, name); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a taken place: %v", err)
	}
	holds("old")
	back, err := output{force: true}.link(made, name)
	if err != nil {
		t.Fatal(err)
	}
	holds("new")
	if err := back(); err != nil {
		t.Error(err)
	}
	holds("old")
}

// A kernel on an emulated CPU leaves cmpxchg16b alone, as in tare's own guests
// (withoutCX16 of internal/vmm); one under KVM uses it.
func TestEmulatedKernelsLeaveCmpxchg16bAlone(t *testing.T) {
	dir := t.TempDir()
	all, err := starts("host.qcow2", dir, good())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"start.sh": all["qemu.sh"], "qemu-system-x86_64": "#!/bin/sh\necho \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	kvm := exec.Command("sh", "-c", ": </dev/kvm").Run() == nil
	for accel, emulated := range map[string]bool{"tcg": true, "kvm:tcg": !kvm, "": !kvm} {
		c := exec.Command("sh", filepath.Join(dir, "start.sh"))
		c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ACCEL="+accel)
		said, err := c.CombinedOutput()
		if err != nil || strings.Contains(string(said), rootParameters+" clearcpuid=141 ") != emulated || !strings.Contains(string(said), rootParameters) {
			t.Errorf("ACCEL=%s: %v: %s, want the parameter: %t", accel, err, said, emulated)
		}
	}
}
