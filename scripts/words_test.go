package scripts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// word is one that documents and messages do not use.
type word struct {
	avoid   string // a regular expression, matched on whole words in any case
	take    string // the word or form in its place
	because string
}

// words is short on purpose: each entry is wrong wherever it stands, so that the test
// never asks for an exception. A word that is right in some sentences (copies, tell,
// hold) is left to the reviewer. Why: docs and messages are read by people whose first
// language is often not English.
var words = []word{
	{`simply|basically|obviously|of course|needless to say`, "nothing: delete it", "filler: the sentence says the same without it"},
	{`just`, "only, or nothing", "filler, or one word with four meanings"},
	{`please`, "the imperative alone", "a message says what to do"},
	{`in order to`, "to", "three words for one"},
	{`prior to`, "before", "two words for one"},
	{`due to the fact that`, "because", "five words for one"},
	{`leverag(e[sd]?|ing)|utili[sz](e[sd]?|ing)`, "use", "jargon for use"},
	{`e\.g\.|i\.e\.|viz\.`, "for example, that is", "abbreviations that not everybody knows"},
	{`via`, "by, through or with", "a foreign word for a plain one"},
	{`whilst|amongst`, "while, among", "old forms"},
	{`hence|thus|thereof|wherein|whereby|therein|thereby`, "so, of it, in which, by which", "words of contracts"},
	{`seamless(ly)?|effortless(ly)?|powerful|cutting-edge|blazing(ly)?`, "a number", "praise, which nobody can check"},
	{`there (is|are|was|were) none`, `"no run exists": name the thing`, "none of what, the reader asks"},
	{`(%[.\d]*[qsv]|it|that|which) is no (text|file|name|list|directory)`, `"is not a ..."`, "negate the verb, not the noun"},
	{`such as are|that of which|of its kind`, "the thing's name", "the sentence must be read twice"},
	{`goes by|went by|weighs in`, "uses, depends on", "an idiom with several meanings"},
	{`one's own|(is|are) said to`, "the owner's or the speaker's name", "the reader asks whose, or who says so"},
	{`abort(s|ed|ing)?|bail(s|ed)? out`, "stop, end", "one word for one thing: a run stops or ends"},
	{`whitelist(s|ed)?|blacklist(s|ed)?|sanity checks?`, "allow list, deny list, check", "the plain word says more"},
	{`crosstalk|serial fraction`, "coherency, contention", "one word for one thing: Gunther's terms of the scalability law"},
}

// passage is a line of text and its place, FILE:LINE.
type passage struct {
	where string
	text  string
}

// TestWords refuses the words that the project replaced in what users read.
func TestWords(t *testing.T) {
	all := passages(t)
	if len(all) < 1000 {
		t.Fatalf("%d lines were found: the test reads the wrong folders", len(all))
	}
	for _, w := range words {
		pattern := regexp.MustCompile(`(?i)(?:^|[^\w-])(` + w.avoid + `)(?:$|[^\w-])`)
		for _, p := range all {
			if found := pattern.FindStringSubmatch(p.text); found != nil {
				t.Errorf("%s: %q: write %s (%s)", p.where, found[1], w.take, w.because)
			}
		}
	}
}

// TestWordsExceptions shows which text is read, and which is quoted or code.
func TestWordsExceptions(t *testing.T) {
	document := markdown("a.md", "one `two` three\n```\nfour\n```\n> five\nsix\n")
	study := yaml("a.yaml", "title: one\n# two\nbeside: [x]")
	code, err := messages("a.go", []byte("package a\n\nimport \"b c\"\n\nvar just = \"one two\"\n\ntype e struct{ f int `g h` }\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  []passage
		want []passage
	}{
		{"markdown", document, []passage{{"a.md:1", "one `` three"}, {"a.md:6", "six"}, {"a.md:7", ""}}},
		{"yaml", study, []passage{{"a.yaml:1", " one"}, {"a.yaml:2", "# two"}, {"a.yaml:3", " [x]"}}},
		{"go", code, []passage{{"a.go:5", `"one two"`}}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// passages are the lines of documents, studies and messages.
func passages(t *testing.T) []passage {
	t.Helper()
	var all []passage
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && !strings.Contains(path, "/") && !readFolder[path] || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(path, ".md") && path != "CHANGELOG.md":
			all = append(all, markdown(path, string(text))...)
		case strings.HasPrefix(path, "studies/") && filepath.Ext(path) == ".yaml", filepath.Base(path) == "study.yaml":
			all = append(all, yaml(path, string(text))...)
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			more, err := messages(path, text)
			all = append(all, more...)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readFolder are the folders at the root that hold documents, studies or messages.
var readFolder = map[string]bool{"docs": true, "studies": true, "internal": true, "cmd": true}

var inlineCode = regexp.MustCompile("`[^`]*`")

// markdown is a document's lines without code, in fences or inline, and without quotations.
func markdown(path, text string) []passage {
	var all []passage
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		if !fenced && !strings.HasPrefix(trimmed, ">") {
			all = append(all, passage{path + ":" + strconv.Itoa(i+1), inlineCode.ReplaceAllString(line, "``")})
		}
	}
	return all
}

var yamlKey = regexp.MustCompile(`^[\s-]*[\w-]+:`)

// yaml is a study's lines without their keys.
func yaml(path, text string) []passage {
	var all []passage
	for i, line := range strings.Split(text, "\n") {
		all = append(all, passage{path + ":" + strconv.Itoa(i+1), yamlKey.ReplaceAllString(line, "")})
	}
	return all
}

// messages are the lines of the string literals of a Go file that have a blank: texts, not
// names. Comments, identifiers and tags are not read.
func messages(path string, text []byte) ([]passage, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []passage
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field: // its tag is no message
			return node.Tag == nil
		case *ast.BasicLit:
			if node.Kind == token.STRING && strings.Contains(node.Value, " ") {
				line := files.Position(node.Pos()).Line
				for i, text := range strings.Split(node.Value, "\n") {
					all = append(all, passage{path + ":" + strconv.Itoa(line+i), text})
				}
			}
		}
		return true
	})
	return all, nil
}
