package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// maxScripts is how many scripts may be each other's interpreter (the kernel
// stops at five: fs/exec.c, exec_binprm).
const maxScripts = 5

// scriptLine is how much of a script's first line the kernel reads
// (include/uapi/linux/binfmts.h, BINPRM_BUF_SIZE).
const scriptLine = 256

// ForCommands gives the workbench with commands of this machine in it. Each
// name is looked up along PATH as a shell would, a path with a slash from the
// current directory, and comes with its libraries, or as a script with its
// interpreter. The commands stand at the same paths as on the machine: LookPath
// with the same name tells them. A tool that stands apart is had by its name. Commands that
// the workbench has already change nothing, and without any the result is the workbench
// itself. A saved workbench must have them.
//
// files are files of this machine by the paths at which they are to stand in the root:
// programs come with their libraries, and scripts as they are. None of them may be a
// link, and none may lie behind one below its directory.
func (s *Store) ForCommands(ctx context.Context, bench Root, names []string, files ...OwnFile) (Root, error) {
	if bench.saved != "" && len(files) > 0 {
		return Root{}, fmt.Errorf("no file of this machine is put into the saved workbench %s, as %s of %s would be", bench.saved, files[0].Name, files[0].Dir)
	}
	if bench.saved != "" {
		return bench.withCommands(names)
	}
	extra := tree{}
	c := closure{tree: extra, linker: newLinker(extra), search: os.Getenv("PATH")}
	commands := map[string]string{}
	for _, n := range names {
		tool := bench.apart(n)
		p, err := tool.Path, error(nil)
		if p == "" {
			p, err = locate(n, c.search)
		}
		if err != nil {
			return Root{}, err
		}
		if err := c.add(p, 0); err != nil {
			return Root{}, err
		}
		if tool.Path != "" {
			extra.symlink(tool.link(), p)
		}
		commands[n] = p
	}
	for _, f := range files {
		if err := c.file(f); err != nil {
			return Root{}, err
		}
	}
	r, err := s.recipe(ctx, recipe{bench.base, extra.without(bench.base)})
	if err != nil {
		return Root{}, fmt.Errorf("root for %s: %w", strings.Join(names, ", "), err)
	}
	r.Tools, r.base, r.guest, r.commands = bench.Tools, bench.base, bench.guest, commands
	r.Notes = append(r.Notes, c.notes...)
	return r, nil
}

// apart is the installed tool of that name that the workbench itself does not hold.
func (r Root) apart(name string) Tool {
	for _, t := range r.Tools {
		if t.Apart && t.Name == name {
			return t
		}
	}
	return Tool{}
}

// locate finds a command on this machine and says why it cannot be run.
func locate(argv0, search string) (string, error) {
	if argv0 == "" {
		return "", errors.New("the command is empty")
	}
	if !strings.Contains(argv0, "/") {
		p, err := lookPath(argv0, search)
		if err != nil {
			return "", fmt.Errorf("the command %q is not in PATH%s", argv0, nearest(argv0, search))
		}
		return p, mountedOver(p)
	}
	p, err := filepath.Abs(argv0)
	if err != nil {
		return "", fmt.Errorf("command %s: %w", argv0, err)
	}
	info, err := os.Stat(p)
	switch {
	case notExist(err):
		return "", fmt.Errorf("the command %s does not exist%s", argv0, nearest(path.Base(p), path.Dir(p)))
	case err != nil:
		return "", fmt.Errorf("command %s: %w", argv0, err)
	case info.IsDir():
		return "", fmt.Errorf("%s is a directory, not a command", argv0)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file that can be run (%s)", argv0, info.Mode().Type())
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable (chmod +x %s)", argv0, argv0)
	}
	return p, mountedOver(p)
}

// mountedOver refuses a command that a target's own mounts would hide.
func mountedOver(p string) error {
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if strings.HasPrefix(p, dir+"/") {
			return fmt.Errorf("%s lies below %s, where every target mounts its own: copy the command elsewhere", p, dir)
		}
	}
	return nil
}

// nearest is a hint at the executable whose name is most like the given one.
func nearest(name, search string) string {
	best, distance := "", 3
	for _, dir := range strings.Split(search, ":") {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // a directory of PATH need not exist
		}
		for _, f := range files {
			d := levenshtein.Distance(name, f.Name(), nil)
			if d >= distance || 3*d > len(name)+1 { // half a short name is no likeness
				continue
			}
			if _, err := lookPath(f.Name(), dir); err == nil {
				best, distance = f.Name(), d
			}
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// closure collects all that a command needs.
type closure struct {
	tree   tree
	linker *linker
	search string
	notes  []string
}

// add puts one program or script with what it needs into the tree.
func (c *closure) add(p string, depth int) error {
	if depth > maxScripts {
		return fmt.Errorf("%s: more than %d scripts are each other's interpreter", p, maxScripts)
	}
	head, err := readHead(p)
	if err != nil {
		return err
	}
	switch {
	case isELF(head):
		return c.program(p)
	case strings.HasPrefix(string(head), "#!"):
		return c.script(p, string(head), depth)
	}
	return fmt.Errorf("%s is neither a program (ELF) nor a script that names its interpreter in its first line (#!)", p)
}

// OwnFile is a file of a directory that the user named, for the root.
type OwnFile struct {
	Dir  string // the directory, as it was named
	Name string // of the file below it, with slashes
	Path string // where it is to stand in the root
	Hint string // what to look at where it does not exist, "" for nothing
}

// file puts a file of the user's into the tree, opened by descriptor and bounded. What
// is a link, or no regular file, is refused.
func (c *closure) file(f OwnFile) error {
	data, executable, err := readOwn(f)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.Dir, f.Name), err)
	}
	perm := fs.FileMode(0o644)
	if executable {
		perm = 0o755
	}
	c.tree.put(f.Path, perm, string(data))
	if !isELF(data) {
		return nil
	}
	o, err := objectOf(f.Path, bytes.NewReader(data))
	if err == nil {
		err = checkMachine(o)
	}
	if err == nil {
		err = c.linker.program(o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(f.Dir, f.Name), err)
	}
	return nil
}

// readOwn reads a file of the user's, and whether it may be executed.
func readOwn(f OwnFile) (data []byte, executable bool, err error) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	at := "."
	for part := range strings.SplitSeq(f.Name, "/") {
		at = path.Join(at, part)
		info, err := root.Lstat(at)
		switch {
		case notExist(err):
			return nil, false, errors.New(strings.TrimSuffix("it does not exist: "+f.Hint, ": "))
		case err != nil:
			return nil, false, err
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, false, fmt.Errorf("%s is a symbolic link: give the directory that has the files themselves", at)
		case at == f.Name && !info.Mode().IsRegular():
			return nil, false, fmt.Errorf("it is not a regular file (%s)", info.Mode().Type())
		case at == f.Name:
			executable = info.Mode()&0o111 != 0
		}
	}
	data, err = sys.ReadForeignIn(root, f.Name, limit.OwnProgram)
	return data, executable, err
}

func readHead(p string) ([]byte, error) {
	f, err := os.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, scriptLine)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

func (c *closure) program(p string) error {
	o, err := readObject(p)
	if err != nil {
		return err
	}
	if err := checkMachine(o); err != nil {
		return err
	}
	if _, err := c.tree.host(p); err != nil {
		return err
	}
	if err := c.linker.program(o); err != nil {
		return err
	}
	return c.standardLibrary(p)
}

func (c *closure) script(p, head string, depth int) error {
	interp, args, err := shebang(head)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if _, err := c.tree.host(p); err != nil {
		return err
	}
	c.notes = append(c.notes, fmt.Sprintf("%s is a script: of what it calls, only its interpreter %s and the workbench's programs are in the root", p, interp))
	if err := runnable(interp); err != nil {
		return fmt.Errorf("%s is a script whose interpreter %s %w", p, interp, err)
	}
	if err := c.add(interp, depth+1); err != nil {
		return fmt.Errorf("interpreter of %s: %w", p, err)
	}
	name := envCommand(interp, args)
	if name == "" {
		return nil
	}
	real := name
	if path.IsAbs(name) {
		if err := runnable(name); err != nil {
			return fmt.Errorf("%s is a script whose interpreter %s %w", p, name, err)
		}
	} else if real, err = lookPath(name, c.search); err != nil {
		return fmt.Errorf("%s is a script whose interpreter %s is not in PATH%s", p, name, nearest(name, c.search))
	}
	if err := c.add(real, depth+1); err != nil {
		return fmt.Errorf("interpreter of %s: %w", p, err)
	}
	return nil
}

// runnable says why an interpreter cannot be one: its text follows "whose
// interpreter X".
func runnable(p string) error {
	info, err := os.Stat(p)
	switch {
	case notExist(err):
		return errors.New("does not exist")
	case err != nil:
		return fmt.Errorf("cannot be read: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return errors.New("is not an executable file")
	}
	return nil
}

// shebang splits a script's first line as the kernel does: the interpreter,
// then at most one argument.
func shebang(head string) (interp, args string, err error) {
	line, _, whole := strings.Cut(strings.TrimPrefix(head, "#!"), "\n")
	if !whole && len(head) == scriptLine {
		return "", "", fmt.Errorf("its first line is longer than the %d bytes that the kernel reads", scriptLine)
	}
	if strings.HasSuffix(line, "\r") {
		return "", "", errors.New("its first line has the line end of Windows, which the kernel takes for a part of the interpreter's name: sed -i 's/\\r$//' on a copy mends it")
	}
	line = strings.Trim(line, " \t")
	interp, args, _ = strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	if !path.IsAbs(interp) {
		return "", "", fmt.Errorf("its interpreter %q is not an absolute path", interp)
	}
	return interp, strings.TrimSpace(args), nil
}

// envCommand is the program that "#!/usr/bin/env X" or, with several words,
// "#!/usr/bin/env -S [OPTION]... [NAME=VALUE]... X ARG..." means, as coreutils' env(1)
// takes them; "" for other interpreters and where env is given no program.
func envCommand(interp, args string) string {
	if path.Base(interp) != "env" {
		return ""
	}
	words := []string{args} // the kernel gives all of them as one
	if split, ok := splitString(args); ok {
		words = strings.Fields(split)
	}
	for i := 0; i < len(words); i++ {
		option, takesNext := envOption(words[i])
		switch {
		case takesNext:
			i++
		case !option && words[i] != "" && !strings.Contains(words[i], "="):
			return words[i]
		}
	}
	return ""
}

// splitString is the text of env's option -S, alone or behind others (-vS), or
// --split-string=.
func splitString(args string) (string, bool) {
	if split, ok := strings.CutPrefix(args, "--split-string="); ok {
		return split, true
	}
	before, split, ok := strings.Cut(args, "S")
	return split, ok && strings.HasPrefix(before, "-") && !strings.HasPrefix(before, "--") && !strings.ContainsAny(before, "uCa \t")
}

// envOption reports whether a word is an option of env's, and whether the option's
// argument is the next word.
func envOption(word string) (option, takesNext bool) {
	letters, option := strings.CutPrefix(word, "-")
	if long, ok := strings.CutPrefix(letters, "-"); ok {
		return option, long == "unset" || long == "chdir" || long == "argv0"
	}
	i := strings.IndexAny(letters, "uCa")
	return option, option && i >= 0 && i == len(letters)-1
}

// standardLibrary adds the files without which an interpreter does not start:
// its own library, which no ELF header names.
func (c *closure) standardLibrary(p string) error {
	real, err := realPath(p)
	if err != nil {
		return err
	}
	for _, pattern := range libraryPatterns(path.Base(real), path.Dir(path.Dir(real))) {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("library of %s: %w", p, err)
		}
		for _, dir := range dirs {
			if err := c.tree.hostTree(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("library of %s: %w", p, err)
			}
			if err := c.modules(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// modules adds the libraries that an interpreter's extension modules need.
func (c *closure) modules(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path.Ext(p) != ".so" {
			return err
		}
		o, err := readObject(p)
		if err != nil {
			return nil // named .so and not ELF: the interpreter will pass it over as well
		}
		if err := c.linker.program(o); err != nil {
			c.notes = append(c.notes, "an extension module cannot be loaded: "+err.Error())
		}
		return nil
	})
}

// libraryPatterns are where interpreters keep their own library, by the name
// of their binary.
func libraryPatterns(base, prefix string) []string {
	switch {
	case strings.HasPrefix(base, "python3"):
		version := strings.TrimSuffix(base, "t") // free-threaded builds
		return []string{path.Join(prefix, "lib", version)}
	case strings.HasPrefix(base, "perl"):
		return []string{
			path.Join(prefix, "lib/*/perl-base"), path.Join(prefix, "lib/*/perl/5.*"),
			path.Join(prefix, "share/perl/5.*"), path.Join(prefix, "lib/perl5"), path.Join(prefix, "share/perl5"),
		}
	case base == "postgres": // what a new database is made of; not its compiler for queries
		return []string{
			path.Join(prefix, "lib/dict_snowball.so"), path.Join(prefix, "lib/plpgsql.so"), path.Join("/usr/share/postgresql", path.Base(prefix)),
			path.Join(prefix, "lib*/pgsql/dict_snowball.so"), path.Join(prefix, "lib*/pgsql/plpgsql.so"), path.Join(prefix, "share/pgsql"),
		}
	case strings.HasPrefix(base, "ruby"):
		return []string{path.Join(prefix, "lib/ruby"), path.Join(prefix, "lib/*/ruby")}
	}
	return nil
}
