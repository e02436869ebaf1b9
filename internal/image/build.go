package image

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/tarelab/tare/internal/debian"
)

// Names of the two images that Build makes, and their repository before them.
const (
	baseName      = "base"
	workbenchName = "workbench"
	repository    = "tare-"
)

// Ingredients are what Build makes images of.
type Ingredients struct {
	Architecture string            // as Go calls it
	From         *debian.Reader    // Debian's archive of that architecture
	Packages     []string          // of Debian, for the workbench, besides those that it always has
	Guest        map[string][]byte // executables of that architecture, by absolute path, for the workbench
}

// Built are two images of one architecture: a slim Debian, and the workbench on top of it.
type Built struct {
	Base, Workbench v1.Image
	packages        []debian.Package // of the workbench, the base's among them
	tmp             string
}

// basePackages are the base image's: what every Debian has, and apt, which brings the
// rest where the image is used.
var basePackages = []string{debian.Essential, "apt"}

// Build makes the images from packages of Debian, on any machine that has apt: no
// package's script is run, so that dpkg --configure -a is left to whoever needs them
// configured. The images can be used until the archive's Reader is closed. The same
// packages and executables give the same digests.
func Build(ctx context.Context, r Ingredients) (*Built, error) {
	base, err := r.From.Fetch(ctx, basePackages)
	if err != nil {
		return nil, err
	}
	bench, err := r.From.Fetch(ctx, slices.Concat(basePackages, []string{"busybox-static"}, r.Packages))
	if err != nil {
		return nil, err
	}
	return assemble(ctx, r, base, bench, r.From.Source(), r.From.Temporary())
}

// assemble makes the images of packages that are here: base of the base image, bench of
// the workbench, which has those too.
func assemble(ctx context.Context, r Ingredients, base, bench []debian.Package, source, tmp string) (*Built, error) {
	b := &Built{packages: bench, tmp: tmp}
	lower, err := packageLayer(ctx, filepath.Join(tmp, "base.tar"), nil, base, firstFiles(source))
	if err != nil {
		return nil, err
	}
	upper, err := packageLayer(ctx, filepath.Join(tmp, "workbench.tar"), base, bench, nil)
	if err != nil {
		return nil, err
	}
	guest := tree{}
	addGuest(guest, r.Guest)
	top, err := writeLayer(guest, filepath.Join(tmp, "guest.tar"))
	if err != nil {
		return nil, err
	}
	if b.Base, err = makeImage(r.Architecture, lower); err != nil {
		return nil, err
	}
	if b.Workbench, err = makeImage(r.Architecture, lower, upper, top); err != nil {
		return nil, err
	}
	return b, nil
}

// Digests are the manifests' digests, "sha256:...".
func (b *Built) Digests() (base, workbench string, err error) {
	one, err := b.Base.Digest()
	if err != nil {
		return "", "", err
	}
	two, err := b.Workbench.Digest()
	return one.String(), two.String(), err
}

type namedImage struct {
	name  string
	image v1.Image
}

// named are the images by name. The workbench is first: an import that names no image
// takes it.
func (b *Built) named() []namedImage {
	return []namedImage{{workbenchName, b.Workbench}, {baseName, b.Base}}
}

// Save writes both images as one tar, an OCI layout that is what docker save writes, too:
// engines before 2024 read nothing else. It can be saved once.
func (b *Built) Save(w io.Writer) error {
	dir := filepath.Join(b.tmp, "layout")
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("image layout: %w", err)
	}
	var loads []load
	for _, n := range b.named() {
		config, err := n.image.ConfigFile()
		if err != nil {
			return err
		}
		tag := repository + n.name + ":" + config.Architecture
		err = at.AppendImage(n.image, layout.WithPlatform(*config.Platform()), layout.WithAnnotations(map[string]string{
			refName: n.name, "io.containerd.image.name": "docker.io/library/" + tag,
		}))
		if err != nil {
			return fmt.Errorf("image layout: %w", err)
		}
		l, err := loadOf(n.image, tag)
		if err != nil {
			return err
		}
		loads = append(loads, l)
	}
	if err := writeLoads(filepath.Join(dir, "manifest.json"), loads); err != nil {
		return err
	}
	return Root{Layout: dir}.Save(w)
}

// Bill writes the bill of materials of the workbench, in CycloneDX JSON, without a time
// or a serial number.
func (b *Built) Bill(w io.Writer) error {
	digest, err := b.Workbench.Digest()
	if err != nil {
		return err
	}
	components := make([]cdx.Component, 0, len(b.packages))
	for _, p := range b.packages {
		url := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", p.Name, strings.NewReplacer("+", "%2B", ":", "%3A").Replace(p.Version), p.Architecture)
		components = append(components, cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: p.Name, Version: p.Version, PackageURL: url,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.SHA256}}})
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{Type: cdx.ComponentTypeContainer, Name: repository + workbenchName, Version: digest.String()}}
	bom.Components = &components
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// firstFiles are what packages' scripts would make and every Debian has.
func firstFiles(source string) tree {
	t := tree{}
	t.put("/etc/apt/sources.list", 0o644, source)
	t.put("/etc/hostname", 0o644, "debian\n")
	t.symlink("/usr/bin/awk", "mawk")
	t.symlink("/usr/bin/which", "which.debianutils")
	return t
}

// splitUsr are the directories that are links into /usr, on every Debian since bookworm,
// whatever the age of the package.
var splitUsr = []string{"bin", "lib", "lib64", "sbin"}

// slim reports whether an image without documentation leaves a file out. Copyrights stay.
func slim(name string) bool {
	for _, dir := range []string{"usr/share/doc/", "usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/linda/", "usr/share/groff/"} {
		if strings.HasPrefix(name, dir) {
			return dir != "usr/share/doc/" || !strings.HasSuffix(name, "/copyright")
		}
	}
	return false
}

// packageLayer writes the packages that are not below already as a layer, with dpkg's
// database of all of them, and first.
func packageLayer(ctx context.Context, file string, below, packages []debian.Package, first tree) (fileLayer, error) {
	lower := map[string]bool{}
	for _, p := range below {
		lower[p.Name] = true
	}
	return createLayer(file, func(w io.Writer) error {
		l := newDebianLayer(w)
		for _, dir := range splitUsr {
			if below != nil { // a package's own /bin would hide the link that is below
				l.have[dir] = true
			} else if err := l.link(dir, "usr/"+dir); err != nil {
				return err
			}
		}
		for _, p := range packages {
			if err := l.add(ctx, p, !lower[p.Name]); err != nil {
				return err
			}
		}
		rest := l.database()
		maps.Copy(rest, first)
		return l.close(rest)
	})
}
