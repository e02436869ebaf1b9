// Package trimimage takes a container host away: it has tare make an image, boots the
// disk alone on QEMU as its users would, logs in, and has its Docker pull an image from
// a registry on this machine and run it.
//
// make test-trim calls it.
package trimimage

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var (
	tare        = flag.String("tare", "", "the tare that is tested")
	skipLacking = flag.Bool("skip-lacking", false, "skip where Debian's packages cannot be had")
)

// patience is for machines that hang: a boot takes some ten seconds, and an emulated
// one on a busy machine minutes.
const patience = 8 * time.Minute

// hostOfGuests is this machine, as QEMU's user network has it.
const hostOfGuests = "10.0.2.2"

// bench is a directory with an image, a key for it and an ssh that uses it.
type bench struct {
	dir, state, disk string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if *tare == "" {
		t.Skip("it takes minutes and Debian's archive: make test-trim")
	}
	if os.Geteuid() != 0 {
		t.Fatal("tare trim image takes root")
	}
	if _, err := exec.LookPath("docker"); err != nil {
		t.Fatal("the docker client is missing: scripts/setup.sh test installs it")
	}
	dir := t.TempDir()
	b := &bench{dir: dir, state: filepath.Join(dir, "state"), disk: filepath.Join(dir, "out", "host.qcow2")}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "somebody@building-host", "-f", filepath.Join(dir, "key"))
	return b
}

// must runs a program and gives what it printed.
func (b *bench) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := b.try(t, program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

// try runs a program with the ssh of this bench first in PATH.
func (b *bench) try(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "PATH="+filepath.Join(b.dir, "bin")+":"+os.Getenv("PATH"), "DOCKER_CONFIG="+filepath.Join(b.dir, "docker"))
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return string(out), err
}

// tare runs tare, and gives its exit code.
func (b *bench) tare(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := b.try(t, *tare, append([]string{"--state", b.state}, args...)...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return out, 0
	case !errors.As(err, &exit):
		t.Fatal(err)
	}
	return err.Error(), exit.ExitCode()
}

// login makes the ssh of this bench, for a machine at a port. Each machine has a file
// of known hosts of its own.
func (b *bench) login(t *testing.T, port int) {
	t.Helper()
	bin := filepath.Join(b.dir, "bin")
	config := fmt.Sprintf("Host *\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  StrictHostKeyChecking accept-new\n  Port %d\n  ConnectTimeout 60\n  LogLevel ERROR\n",
		filepath.Join(b.dir, "key"), filepath.Join(b.dir, fmt.Sprintf("known-%d", port)), port)
	real, err := exec.LookPath("ssh")
	if err == nil {
		err = os.MkdirAll(bin, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(b.dir, "ssh_config"), []byte(config), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", real, b.dir), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inside runs a command in the machine.
func (b *bench) inside(t *testing.T, command string) string {
	t.Helper()
	return strings.TrimSpace(b.must(t, filepath.Join(b.dir, "bin", "ssh"), "root@127.0.0.1", command))
}

// machine is a process that runs one, and what it said.
type machine struct {
	cmd  *exec.Cmd
	said *lines
	done chan error
}

// lines keeps what is written to it, for a goroutine that reads meanwhile.
type lines struct {
	text chan []byte // holds one value
}

func newLines() *lines {
	l := &lines{make(chan []byte, 1)}
	l.text <- nil
	return l
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.text <- append(<-l.text, p...)
	return len(p), nil
}

func (l *lines) String() string {
	now := <-l.text
	l.text <- now
	return string(now)
}

// start starts a program that runs a machine, which the test ends.
func start(t *testing.T, env []string, program string, args ...string) *machine {
	t.Helper()
	m := &machine{cmd: exec.Command(program, args...), said: newLines(), done: make(chan error, 1)}
	m.cmd.Env = append(os.Environ(), env...)
	m.cmd.Stdout, m.cmd.Stderr = m.said, m.said
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { m.done <- m.cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL) // it has mostly ended
		if t.Failed() {
			t.Logf("the machine said: %s", m.said)
		}
	})
	return m
}

// says waits until the machine has said what a pattern matches.
func (m *machine) says(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if found := re.FindStringSubmatch(m.said.String()); found != nil {
			return found
		}
		select {
		case err := <-m.done:
			t.Fatalf("the machine ended: %v", err)
		default:
		}
	}
	t.Fatalf("the machine said nothing like %q in %v", pattern, patience)
	return nil
}

// off waits for the machine's end.
func (m *machine) off(t *testing.T) {
	t.Helper()
	select {
	case <-m.done:
	case <-time.After(patience):
		t.Fatal("the machine does not end")
	}
	if !strings.Contains(m.said.String(), "Power down") {
		t.Error("the machine was killed, and did not switch itself off")
	}
}

// answers waits until SSH does at a port.
func (m *machine) answers(t *testing.T, b *bench, port int) {
	t.Helper()
	b.login(t, port)
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if _, err = b.try(t, filepath.Join(b.dir, "bin", "ssh"), "root@127.0.0.1", "true"); err == nil {
			return
		}
		select {
		case err := <-m.done:
			t.Fatalf("the machine ended: %v", err)
		default:
		}
	}
	t.Fatalf("SSH does not answer: %v", err)
}

func TestImage(t *testing.T) {
	b := newBench(t)
	out, code := b.tare(t, "trim", "image", "-o", b.disk, "--ssh-key", filepath.Join(b.dir, "key.pub"), "--json")
	if code == 4 && *skipLacking && strings.Contains(out, "Debian's packages cannot be had") {
		t.Skip(out)
	}
	if code != 0 {
		t.Fatalf("tare trim image ended with code %d: %s", code, out)
	}
	t.Run("files", func(t *testing.T) { b.files(t, out) })
	t.Run("nothing of this machine", b.clean)
	t.Run("not overwritten", func(t *testing.T) {
		if said, code := b.tare(t, "trim", "image", "-o", b.disk, "--console"); code != 2 || !strings.Contains(said, "--force") {
			t.Errorf("code %d: %s", code, said)
		}
	})
	b.must(t, "qemu-img", "resize", "-q", b.disk, "6G")
	var first, second string
	t.Run("run", func(t *testing.T) { first = b.byRun(t) })
	t.Run("start file", func(t *testing.T) { second = b.byStartFile(t) })
	if first == second {
		t.Errorf("two machines of one image have the same identity: %s", first)
	}
	if said, code := b.tare(t, "sweep"); code != 0 {
		t.Errorf("tare sweep: code %d: %s", code, said)
	}
}

// files checks that all files are there, with their modes, and nothing else.
func (b *bench) files(t *testing.T, report string) {
	var built struct {
		Files []string         `json:"files"`
		Bytes map[string]int64 `json:"bytes"`
	}
	if err := json.Unmarshal([]byte(report), &built); err != nil {
		t.Fatalf("%v: %s", err, report)
	}
	t.Logf("bytes: %v", built.Bytes)
	there, err := os.ReadDir(filepath.Dir(b.disk))
	if err != nil || len(there) != len(built.Files) {
		t.Errorf("%d files were told of, and there are %v: %v", len(built.Files), there, err)
	}
	for _, file := range built.Files {
		info, err := os.Stat(file)
		if err != nil {
			t.Error(err)
			continue
		}
		want := map[string]fs.FileMode{".qcow2": 0o600, ".sh": 0o755}[filepath.Ext(file)]
		if want == 0 {
			want = 0o644
		}
		if info.Mode() != want || info.Size() == 0 {
			t.Errorf("%s has %d bytes and mode %v, want %v", file, info.Size(), info.Mode(), want)
		}
	}
}

// clean looks into the image without booting it: it must hold no identity and nothing
// of the machine that made it.
func (b *bench) clean(t *testing.T) {
	raw := filepath.Join(b.dir, "disk.raw")
	b.must(t, "qemu-img", "convert", "-O", "raw", b.disk, raw)
	defer os.Remove(raw)
	ask := func(request string) string {
		return b.must(t, "debugfs", "-R", request, raw+"?offset="+strconv.Itoa(4096*512))
	}
	if id := ask("cat /etc/machine-id"); id != "" {
		t.Errorf("machine-id %q", id)
	}
	if keys := ask("ls -p /etc/ssh"); strings.Contains(keys, "ssh_host_") || !strings.Contains(keys, "sshd_config") {
		t.Errorf("/etc/ssh: %s", keys)
	}
	if seed := ask("ls -p /var/lib/systemd"); strings.Contains(seed, "random-seed") {
		t.Errorf("/var/lib/systemd: %s", seed)
	}
	if keys := ask("cat /root/.ssh/authorized_keys"); !strings.HasPrefix(keys, "ssh-ed25519 ") || strings.Contains(keys, "building-host") {
		t.Errorf("authorized_keys: %q", keys)
	}
	if hosts := ask("cat /etc/hostname"); hosts != "tare\n" {
		t.Errorf("hostname %q", hosts)
	}
	if resolv := ask("stat /etc/resolv.conf"); !strings.Contains(resolv, "stub-resolv.conf") {
		t.Errorf("resolv.conf: %s", resolv)
	}
}

// identity is what no two machines have in common.
const identity = "cat /etc/machine-id /etc/ssh/ssh_host_ed25519_key.pub"

// byRun boots the disk by tare and gives the machine's identity, which is lost.
func (b *bench) byRun(t *testing.T) string {
	m := start(t, nil, *tare, "--state", b.state, "trim", "image", "run", b.disk, "--port", "0", "--snapshot")
	port, err := strconv.Atoi(m.says(t, `ssh -p (\d+) root@127.0.0.1`)[1])
	if err != nil {
		t.Fatal(err)
	}
	m.answers(t, b, port)
	id := b.inside(t, identity)
	if err := m.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	m.off(t)
	return id
}

// byStartFile boots the disk by its start file for QEMU, emulated: KVM is not everywhere
// what it says it is. It uses the machine's Docker from here.
func (b *bench) byStartFile(t *testing.T) string {
	port := freePort(t)
	m := start(t, []string{"ACCEL=tcg", "PORT=" + strconv.Itoa(port)}, filepath.Join(filepath.Dir(b.disk), "host.qemu.sh"))
	m.answers(t, b, port)
	id := b.inside(t, identity)
	b.inside(t, "systemctl is-active --wait docker.service || systemctl start docker.service")
	size, err := strconv.ParseInt(b.inside(t, "stat -f -c %b / "), 10, 64)
	block, berr := strconv.ParseInt(b.inside(t, "stat -f -c %S /"), 10, 64)
	if err != nil || berr != nil || size*block < 5<<30 {
		t.Errorf("the root has %d blocks of %d bytes on a disk of 6 GiB: %v, %v", size, block, err, berr)
	}
	if failed := b.inside(t, "systemctl --failed --no-legend --plain"); failed != "" {
		t.Errorf("units that failed: %s", failed)
	}
	where, ca := b.registry(t)
	b.inside(t, fmt.Sprintf("mkdir -p /etc/docker/certs.d/%[1]s && cat >/etc/docker/certs.d/%[1]s/ca.crt <<'END'\n%[2]sEND", where, ca))
	docker := []string{"-H", fmt.Sprintf("ssh://root@127.0.0.1:%d", port)}
	b.must(t, "docker", slices.Concat(docker, []string{"pull", "-q", where + "/hello:1"})...)
	if said := b.must(t, "docker", slices.Concat(docker, []string{"run", "--rm", where + "/hello:1", "/busybox", "sh", "-c", "echo $((6 * 7)) from a container"})...); strings.TrimSpace(said) != "42 from a container" {
		t.Errorf("the container said %q", said)
	}
	b.inside(t, "systemctl poweroff --no-block")
	m.off(t)
	return id
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// registry serves an image with a busybox over TLS, and gives its address, as guests
// have it, and its certificate.
func (b *bench) registry(t *testing.T) (string, string) {
	t.Helper()
	cert, pool, text := certificate(t)
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	push(t, client, "https://127.0.0.1:"+port+"/v2/hello", busybox(t, b))
	return net.JoinHostPort(hostOfGuests, port), text
}

// push puts an image into a registry: its layers, its configuration, its manifest.
func push(t *testing.T, client *http.Client, repository string, img v1.Image) {
	t.Helper()
	send := func(method, url, kind string, body []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, repository+url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			t.Fatalf("%s %s: %s", method, url, answer.Status)
		}
	}
	blob := func(body []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		send(http.MethodPost, fmt.Sprintf("/blobs/uploads/?digest=sha256:%x", sha256.Sum256(body)), "application/octet-stream", body)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		packed, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		blob(io.ReadAll(packed))
	}
	blob(img.RawConfigFile())
	kind, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	send(http.MethodPut, "/manifests/1", string(kind), manifest)
}

// busybox is an image of this machine's static busybox alone.
func busybox(t *testing.T, b *bench) v1.Image {
	t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.dir, "layer.tar")
	b.must(t, "tar", "-C", filepath.Dir(program), "-cf", file, filepath.Base(program))
	layer, err := tarball.LayerFromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS = "amd64", "linux"
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// certificate is one for this machine, by both of its addresses.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(hostOfGuests)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, string(text)
}
