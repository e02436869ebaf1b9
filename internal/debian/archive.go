// Package debian fetches packages of Debian for any architecture, and reads them:
// nothing is installed, no package's script is run, and no root is needed. apt does what
// it does on every Debian: it checks the index by the archive's keys, chooses what the
// packages depend on, and checks each package by the index.
package debian

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/sys"
)

// Keyring holds the keys of Debian's archive, where Debian and its kin install them.
const Keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// DefaultMirror is where packages come from.
const DefaultMirror = "http://deb.debian.org/debian"

// Mirror is where packages come from where nobody names a mirror: $DEBIAN_MIRROR, else
// DefaultMirror.
func Mirror() string { return cmp.Or(os.Getenv("DEBIAN_MIRROR"), DefaultMirror) }

// Essential stands for all packages that every Debian has, among the names that Fetch
// takes.
const Essential = "?essential"

// Port is Debian on one architecture.
type Port struct {
	Architecture string // as Debian calls it
	Suite        string // the newest that is released, or the last one that was
}

// ports are Debian's ports by Go's names: mips64el is in no release after bookworm, and
// loong64 in none yet.
var ports = map[string]Port{
	"amd64": {"amd64", "trixie"}, "arm64": {"arm64", "trixie"}, "riscv64": {"riscv64", "trixie"},
	"mips64le": {"mips64el", "bookworm"}, "loong64": {"loong64", "sid"},
}

// PortOf is Debian on an architecture that Go calls so; ok is false where there is none.
func PortOf(goarch string) (p Port, ok bool) {
	p, ok = ports[goarch]
	return p, ok
}

// Architectures are the names that PortOf knows, sorted.
func Architectures() []string { return slices.Sorted(maps.Keys(ports)) }

// Archive is Debian's archive of one suite and architecture.
type Archive struct {
	Port
	Mirror string // its URL
	Dir    string // the index and the fetched packages are kept below it
}

// Package is one fetched package.
type Package struct {
	Name, Version, Architecture string // Architecture may be "all"
	SHA256                      string // of the file, hexadecimal
	File                        string // its path
}

// LackError says what of the archive, or of this machine, cannot be had.
type LackError struct{ What string }

func (e *LackError) Error() string { return e.What }

var (
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.]*(-[a-z0-9+.]+)*$`) // a '-' at the end would remove it
	suiteName   = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	mirrorURL   = regexp.MustCompile(`^(https?|file)://?[^\s\]\["']+$`)
	planned     = regexp.MustCompile(`(?m)^Inst ([^ ]+) (?:\[[^\]]*\] )?\(([^ ]+) `)
)

// Check says what is wrong with an archive's names, and with those of packages.
func (a Archive) Check(names []string) error {
	if !suiteName.MatchString(a.Suite) {
		return fmt.Errorf("suite %q: give a name as bookworm", a.Suite)
	}
	if !mirrorURL.MatchString(a.Mirror) {
		return fmt.Errorf("mirror %q: give a URL as %s", a.Mirror, DefaultMirror)
	}
	for _, n := range names {
		if !packageName.MatchString(n) {
			return fmt.Errorf("package %q: give the name of a package of Debian, as iperf3", n)
		}
	}
	return nil
}

// Open brings the index up to date. Until the Reader is closed, other processes wait. An
// index that cannot be had is a LackError.
func (a Archive) Open(ctx context.Context) (r *Reader, err error) {
	for _, tool := range []string{"apt-get", "apt-config", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, &LackError{fmt.Sprintf("the program %s is missing: Debian, its kin and their containers have it", tool)}
		}
	}
	if _, err := os.Stat(Keyring); err != nil {
		return nil, &LackError{fmt.Sprintf("the keys of Debian's archive are missing (%v): the package debian-archive-keyring has them", err)}
	}
	r = &Reader{archive: a, dir: filepath.Join(a.Dir, a.Suite+"-"+a.Architecture)}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, fmt.Errorf("configuration of apt: %w", err)
	}
	if r.lock, err = sys.LockFile(ctx, filepath.Join(r.dir, "lock"), nil); err != nil {
		return nil, err
	}
	if err := r.configure(ctx); err != nil { // under the lock: another process's apt reads these files
		return nil, errors.Join(fmt.Errorf("configuration of apt: %w", err), r.Close())
	}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if _, err := r.apt(ctx, "update"); err != nil {
		return nil, errors.Join(a.lack("the index", err), r.Close())
	}
	return r, nil
}

// begin makes the directory for files on the way. A process that was killed has left one.
func (r *Reader) begin() error {
	if err := os.RemoveAll(r.Temporary()); err != nil {
		return err
	}
	return os.Mkdir(r.Temporary(), 0o700)
}

func (a Archive) lack(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &LackError{fmt.Sprintf("%s of Debian %s for %s cannot be had from %s: %v", what, a.Suite, a.Architecture, a.Mirror, err)}
}

// Reader is an archive whose index is there.
type Reader struct {
	archive Archive
	dir     string
	lock    *os.File
}

// Temporary is a directory for files that are needed until Close.
func (r *Reader) Temporary() string { return filepath.Join(r.dir, "tmp") }

// Close removes what lies in Temporary and lets other processes in.
func (r *Reader) Close() error { return errors.Join(os.RemoveAll(r.Temporary()), r.lock.Close()) }

// configure makes apt's surroundings: its own index, no installed package, one source,
// and of this machine's configuration how files are fetched (proxies). An unstable
// suite's index has a date after which it is no longer believed. A mirror that is behind
// serves an older one, signed all the same, and the image says which packages it has.
func (r *Reader) configure(ctx context.Context) error {
	fetching, err := exec.CommandContext(ctx, "apt-config", "dump", "Acquire").Output()
	if err != nil {
		return fmt.Errorf("apt-config dump Acquire: %w", err)
	}
	for _, dir := range []string{"lists/partial", "archives/partial", "empty"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			return err
		}
	}
	config := strings.NewReplacer("$DIR", r.dir, "$ARCH", r.archive.Architecture).Replace(`APT::Architecture "$ARCH";
#clear APT::Architectures;
APT::Architectures { "$ARCH"; };
APT::Sandbox::User "";
APT::Update::Error-Mode "any";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Retries "2";
Dir::State "$DIR";
Dir::State::status "$DIR/status";
Dir::State::lists "$DIR/lists";
Dir::Cache "$DIR";
Dir::Cache::archives "$DIR/archives";
Dir::Etc::sourcelist "$DIR/sources.list";
Dir::Etc::sourceparts "$DIR/empty";
Dir::Etc::parts "$DIR/empty";
Dir::Etc::main "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$DIR/empty";
Dir::Log "$DIR";
`)
	for name, text := range map[string]string{"apt.conf": string(fetching) + config, "sources.list": r.Source(), "status": ""} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Config is the path of the configuration by which apt sees these surroundings alone:
// $APT_CONFIG.
func (r *Reader) Config() string { return filepath.Join(r.dir, "apt.conf") }

// Source is the line of sources.list.
func (r *Reader) Source() string {
	return fmt.Sprintf("deb [signed-by=%s] %s %s main\n", Keyring, r.archive.Mirror, r.archive.Suite)
}

// apt runs apt-get in these surroundings. Its error is what apt called an error.
func (r *Reader) apt(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet", "--assume-yes"}, args...)...)
	c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "APT_CONFIG=" + r.Config()}
	for _, proxy := range []string{"http_proxy", "https_proxy", "no_proxy"} {
		if value, set := os.LookupEnv(proxy); set {
			c.Env = append(c.Env, proxy+"="+value)
		}
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("apt-get %s: %w: %s", args[0], err, firstErrors(errs.String()))
	}
	return out.String(), nil
}

// firstErrors are the first of what apt calls errors, in one line.
func firstErrors(text string) string {
	var found []string
	for line := range strings.Lines(text) {
		if e, is := strings.CutPrefix(strings.TrimSpace(line), "E: "); is && len(found) < 2 {
			found = append(found, e)
		}
	}
	if found == nil {
		return strings.TrimSpace(text)
	}
	return strings.Join(found, "; ")
}

// Fetch fetches packages and all that they depend on, sorted by name. What apt has
// checked before is not fetched again.
func (r *Reader) Fetch(ctx context.Context, names []string) ([]Package, error) {
	what := "what " + strings.Join(names, ", ") + " takes"
	if _, err := r.apt(ctx, slices.Concat([]string{"install", "--download-only"}, names)...); err != nil {
		return nil, r.archive.lack(what, err)
	}
	plan, err := r.apt(ctx, slices.Concat([]string{"install", "--simulate"}, names)...)
	if err != nil {
		return nil, r.archive.lack(what, err)
	}
	var packages []Package
	for _, m := range planned.FindAllStringSubmatch(plan, -1) {
		name, _, _ := strings.Cut(m[1], ":")
		p, err := r.fetched(name, m[2])
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages, nil
}

// fetched is a package in apt's cache, where a colon in the version is written %3a.
func (r *Reader) fetched(name, version string) (Package, error) {
	for _, architecture := range []string{r.archive.Architecture, "all"} {
		p := Package{Name: name, Version: version, Architecture: architecture}
		p.File = filepath.Join(r.dir, "archives", fmt.Sprintf("%s_%s_%s.deb", name, strings.ReplaceAll(version, ":", "%3a"), architecture))
		f, err := os.Open(p.File)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return p, err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return p, fmt.Errorf("%s: %w", p.File, err)
		}
		p.SHA256 = hex.EncodeToString(sum.Sum(nil))
		return p, nil
	}
	return Package{}, fmt.Errorf("apt has not kept the package %s %s in %s/archives", name, version, r.dir)
}
