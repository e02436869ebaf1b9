package image

import (
	"archive/tar"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tarelab/tare/internal/debian"
)

// packed makes a package as Debian's builders do, with dpkg-deb. Names that end with a
// slash are directories, contents that begin with "->" links.
func packed(t *testing.T, name, arch, fields string, files map[string]string) debian.Package {
	t.Helper()
	if _, err := exec.LookPath("dpkg-deb"); errors.Is(err, exec.ErrNotFound) {
		t.Skip("packages of Debian are made by dpkg-deb, which this machine does not have")
	}
	dir := t.TempDir()
	files["DEBIAN/control"] = fmt.Sprintf("Package: %s\nVersion: 1:1-1\nArchitecture: %s\nMaintainer: nobody <n@example.org>\nDescription: a package\n%s", name, arch, fields)
	for file, text := range files {
		at := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(to, at)
		} else {
			err = os.WriteFile(at, []byte(text), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), name+".deb")
	c := exec.Command("dpkg-deb", "--root-owner-group", "--build", dir, file)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return debian.Package{Name: name, Version: "1:1-1", Architecture: arch, SHA256: hex.EncodeToString(sum[:]), File: file}
}

// twoPackages are a base system's and one on top of it.
func twoPackages(t *testing.T) (base, bench []debian.Package) {
	t.Helper()
	low := packed(t, "low", "amd64", "Multi-Arch: same\n", map[string]string{
		"DEBIAN/conffiles": "/etc/low.conf\n", "DEBIAN/postinst": "#!/bin/sh\nexit 1\n",
		"etc/low.conf": "of low\n", "bin/low": "program", "lib64/low.so": "library", "usr/bin/other": "->../../bin/low",
		"usr/share/doc/low/copyright": "free", "usr/share/doc/low/changelog": "long", "usr/share/man/man1/low.1": "long",
		"usr/share/base-passwd/passwd.master": "root:*:0:0:root:/root:/bin/bash\n", "usr/share/base-passwd/group.master": "root:*:0:\n",
	})
	high := packed(t, "high", "all", "Depends: low\n", map[string]string{"bin/high": "program"})
	return []debian.Package{low}, []debian.Package{high, low}
}

func assembled(t *testing.T, arch string, base, bench []debian.Package) *Built {
	t.Helper()
	in := Ingredients{Architecture: arch, Guest: map[string][]byte{"/.tare/mark": []byte("mark"), "/usr/bin/tare-index": []byte("#!/bin/sh\n")}}
	b, err := assemble(t.Context(), in, base, bench, "deb file:/x sid main\n", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rootOf unpacks an image and reads its files.
func rootOf(t *testing.T, img v1.Image) func(string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := unpack(context.Background(), img, dir); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return func(file string) string {
		b, err := root.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return "none"
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func TestImagesOfPackages(t *testing.T) {
	base, bench := twoPackages(t)
	b := assembled(t, "loong64", base, bench)
	low, high := rootOf(t, b.Base), rootOf(t, b.Workbench)
	for file, want := range map[string]string{
		"bin/low": "program", "usr/bin/low": "program", "usr/bin/other": "program", "usr/lib64/low.so": "library", "etc/low.conf": "of low\n",
		"etc/passwd": "root:*:0:0:root:/root:/bin/bash\n", "etc/group": "root:*:0:\n", "etc/apt/sources.list": "deb file:/x sid main\n",
		"usr/share/doc/low/copyright": "free", "usr/share/doc/low/changelog": "none", "usr/share/man/man1/low.1": "none",
		"var/lib/dpkg/info/low:amd64.postinst": "#!/bin/sh\nexit 1\n",
	} {
		if got := low(file); got != want {
			t.Errorf("base: %s: %q, want %q", file, got, want)
		}
		if got := high(file); got != want {
			t.Errorf("workbench: %s: %q, want %q", file, got, want)
		}
	}
	if got := low("usr/bin/high") + low(".tare/mark"); got != "nonenone" {
		t.Errorf("the base has what is the workbench's: %q", got)
	}
	if got := high("usr/bin/high") + high(".tare/mark"); got != "programmark" {
		t.Errorf("the workbench has %q", got)
	}
	if got, want := low("var/lib/dpkg/info/low:amd64.list"), "/usr/share/man/man1/low.1\n"; !strings.Contains(got, want) || !strings.HasPrefix(got, "/.\n") {
		t.Errorf("dpkg's list of low: %q", got)
	}
	status := "Package: low\nStatus: install ok unpacked\nVersion: 1:1-1\nArchitecture: amd64\nMaintainer: nobody <n@example.org>\nDescription: a package\n" +
		"Multi-Arch: same\nConffiles:\n /etc/low.conf c7a6bb7c5a2f9f0ff2b6e0e3d1ae5b2c\n\n"
	status = strings.Replace(status, "c7a6bb7c5a2f9f0ff2b6e0e3d1ae5b2c", md5Of("of low\n"), 1)
	if got := sortedFields(low("var/lib/dpkg/status")); got != sortedFields(status) {
		t.Errorf("dpkg's status of the base: %q, want %q", got, status)
	}
	if got := high("var/lib/dpkg/status"); !strings.Contains(got, "Package: high\n") || !strings.Contains(got, "Package: low\n") {
		t.Errorf("dpkg's status of the workbench: %q", got)
	}
	config, err := b.Workbench.ConfigFile()
	if err != nil || config.Architecture != "loong64" || config.OS != "linux" {
		t.Errorf("config %+v, %v", config, err)
	}
}

// TestDpkgBelievesItsDatabase asks dpkg itself.
// A directory in a layer hides a link of a layer below it.
func TestUpperLayersLeaveLinks(t *testing.T) {
	base, bench := twoPackages(t)
	layers, err := assembled(t, "amd64", base, bench).Workbench.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range layers[1:] {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for in := tar.NewReader(r); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(splitUsr, strings.Trim(h.Name, "/")) {
				t.Errorf("layer %d has %s", i+1, h.Name)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDpkgBelievesItsDatabase(t *testing.T) {
	base, bench := twoPackages(t)
	dir := t.TempDir()
	if _, err := unpack(t.Context(), assembled(t, runtime.GOARCH, base, bench).Workbench, dir); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"high unpacked\nlow unpacked\n": {"dpkg-query", "--showformat", "${Package} ${db:Status-Status}\n", "--show"},
		"low:amd64: /usr/bin/other\n":   {"dpkg-query", "--search", "/usr/bin/other"},
	} {
		c := exec.Command(args[0], append([]string{"--admindir", filepath.Join(dir, "var/lib/dpkg")}, args[1:]...)...)
		if out, err := c.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%v: %v: %q, want %q", args, err, out, want)
		}
	}
}

func TestSameImagesOfSamePackages(t *testing.T) {
	base, bench := twoPackages(t)
	var archives [2]string
	for i := range archives {
		archives[i] = saved(t, assembled(t, "arm64", base, bench))
	}
	one, two := contentOf(t, archives[0]), contentOf(t, archives[1])
	if one != two {
		t.Error("the same packages gave two different files")
	}
}

func TestTwoPackagesWithOneFile(t *testing.T) {
	a := packed(t, "a", "all", "", map[string]string{"usr/bin/x": "a"})
	b := packed(t, "b", "all", "", map[string]string{"bin/x": "b"}) // the same place
	in := Ingredients{Architecture: "arm64"}
	if _, err := assemble(t.Context(), in, []debian.Package{a, b}, []debian.Package{a, b}, "", t.TempDir()); err == nil || !strings.Contains(err.Error(), "usr/bin/x") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

// TestBuiltImagesAreTaken gives the file to what reads an OCI layout, to what reads the
// archives of docker save, to tare, and to a registry.
func TestBuiltImagesAreTaken(t *testing.T) {
	base, bench := twoPackages(t)
	b := assembled(t, runtime.GOARCH, base, bench)
	wantBase, wantBench, err := b.Digests()
	if err != nil {
		t.Fatal(err)
	}
	file := saved(t, b)
	for tag, want := range map[string]string{"": wantBench, baseName: wantBase, workbenchName: wantBench} {
		img, from, err := open(t.Context(), file, tag, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := img.Digest(); err != nil || got.String() != want {
			t.Errorf("--image FILE:%s is %s, want %s (%v)", tag, got, want, err)
		}
		from.close()
	}
	for _, of := range b.named() {
		tag, err := name.NewTag(repository + of.name + ":" + runtime.GOARCH)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			t.Fatal(err)
		}
		got, err := img.ConfigName()
		if want, werr := of.image.ConfigName(); err != nil || werr != nil || got != want {
			t.Errorf("docker load's %s is %s, want %s", tag, got, want)
		}
	}
	pushed(t, file, wantBase, wantBench)
}

// pushed gives the file to a registry, as its clients do: blobs first, then manifests.
func pushed(t *testing.T, file string, digests ...string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "layout")
	if err := unpackArchive(t.Context(), file, dir); err != nil {
		t.Fatal(err)
	}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
	if err != nil || len(blobs) == 0 {
		t.Fatalf("blobs %v, %v", blobs, err)
	}
	put := func(method, to, file, kind string) {
		body, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v2/tare/"+to, body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusCreated {
			text, _ := io.ReadAll(answer.Body)
			t.Errorf("%s %s: %s: %s", method, to, answer.Status, text)
		}
	}
	for _, b := range blobs {
		put(http.MethodPost, "blobs/uploads/?digest=sha256:"+filepath.Base(b), b, "application/octet-stream")
	}
	for _, d := range digests {
		put(http.MethodPut, "manifests/"+d, filepath.Join(dir, "blobs/sha256", strings.TrimPrefix(d, "sha256:")), string(types.OCIManifestSchema1))
	}
	put(http.MethodPut, "manifests/all", filepath.Join(dir, "index.json"), string(types.OCIImageIndex))
}

func TestBillOfPackages(t *testing.T) {
	base, bench := twoPackages(t)
	var out strings.Builder
	if err := assembled(t, "loong64", base, bench).Bill(&out); err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct {
			Name, Version, Purl string
			Hashes              []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &bill); err != nil || len(bill.Components) != 2 {
		t.Fatalf("bill %s: %v", &out, err)
	}
	if c := bill.Components[1]; c.Name != "low" || c.Version != "1:1-1" || c.Purl != "pkg:deb/debian/low@1%3A1-1?arch=amd64" ||
		len(c.Hashes) != 1 || c.Hashes[0].Content != base[0].SHA256 {
		t.Errorf("component %+v", c)
	}
}

func saved(t *testing.T, b *Built) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.oci")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := b.Save(f); err != nil {
		t.Fatal(err)
	}
	return file
}

// contentOf is an archive in words: names and digests.
func contentOf(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var text strings.Builder
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %x\n", h.Name, sum.Sum(nil))
	}
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// sortedFields are the lines of a control file in an order of their own: dpkg-deb keeps
// none.
func sortedFields(text string) string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
