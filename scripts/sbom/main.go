// Command sbom writes the bill of materials of a built tare, in CycloneDX JSON:
// the Go modules that the binary itself says it is made of, the C library and
// the compiler of the programs that it carries, and the npm packages of its
// report page. It holds no time and no serial number: the same binary has the
// same bill.
//
//	sbom -binary tare -version v1 -zig 0.17.0 -musl 1.2.5 -lock web/package-lock.json > tare.cdx.json
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	binary := flag.String("binary", "", "the built tare")
	version := flag.String("version", "", "its version")
	zig := flag.String("zig", "", "version of the C compiler")
	musl := flag.String("musl", "", "version of the C library that the compiler carries")
	lock := flag.String("lock", "", "package-lock.json of the report page")
	flag.Parse()
	if err := write(os.Stdout, *binary, *version, *zig, *musl, *lock); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(to io.Writer, binary, version, zig, musl, lock string) error {
	if binary == "" || version == "" || zig == "" || musl == "" || lock == "" {
		return errors.New("-binary, -version, -zig, -musl and -lock are needed")
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	components, err := pageComponents(lock)
	if err != nil {
		return fmt.Errorf("%s: %w", lock, err)
	}
	for _, m := range info.Deps {
		c, err := module(m)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Path, err)
		}
		components = append(components, c)
	}
	components = append(components,
		component(cdx.ComponentTypeApplication, "go", strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"), "the compiler and the standard library"),
		component(cdx.ComponentTypeApplication, "zig", zig, "pkg:pypi/ziglang@"+zig, "the C compiler of the programs that tare carries"),
		component(cdx.ComponentTypeLibrary, "musl", musl, "pkg:generic/musl@"+musl, "the C library that those programs are linked with"),
	)
	slices.SortFunc(components, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	components = slices.CompactFunc(components, func(a, b cdx.Component) bool { return a.BOMRef == b.BOMRef })
	main := component(cdx.ComponentTypeApplication, "tare", version, "pkg:golang/"+info.Main.Path+"@"+version+"?goos=linux&goarch="+goarch(info), "")
	main.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// goarch is the architecture that a binary was built for.
func goarch(info *buildinfo.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			return s.Value
		}
	}
	return ""
}

func component(kind cdx.ComponentType, name, version, purl, description string) cdx.Component {
	return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl, Description: description}
}

// module is a dependency as the linker recorded it, with the digest that go.sum
// holds ("h1:" is SHA-256 over the module's file list, golang.org/x/mod/sumdb/dirhash).
func module(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := component(cdx.ComponentTypeLibrary, m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version, "")
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	if !ok {
		return c, fmt.Errorf("digest %q", m.Sum)
	}
	raw, err := base64.StdEncoding.DecodeString(sum)
	if err != nil {
		return c, err
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	return c, nil
}

// pageComponents are the npm packages of the report page's lock file: those
// that are bundled into it, and the tools that build it.
func pageComponents(lock string) ([]cdx.Component, error) {
	data, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var locked struct {
		Packages map[string]struct{ Version, Integrity, License string }
	}
	if err := json.Unmarshal(data, &locked); err != nil {
		return nil, err
	}
	var all []cdx.Component
	for path, p := range locked.Packages {
		const folder = "node_modules/"
		at := strings.LastIndex(path, folder)
		if at < 0 {
			continue // the page itself
		}
		name := path[at+len(folder):]
		c := component(cdx.ComponentTypeLibrary, name, p.Version, "pkg:npm/"+strings.Replace(name, "@", "%40", 1)+"@"+p.Version, "of the report page, or builds it")
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}
		if p.License != "" {
			c.Licenses = &cdx.Licenses{{Expression: p.License}}
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no packages")
	}
	return all, nil
}
