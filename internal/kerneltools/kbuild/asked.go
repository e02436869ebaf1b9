package kbuild

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	configEntry = regexp.MustCompile(`^\s*(?:menu)?config\s+(\w+)\s*$`)
	otherEntry  = regexp.MustCompile(`^\s*(?:choice|endchoice|menu|endmenu|comment|if|endif|source|mainmenu)\b`)
	prompt      = regexp.MustCompile(`^\s*(?:bool|tristate|int|hex|string|prompt)\s+["']`)
)

// Asked are the Kconfig symbols that people are asked for: the others follow from them.
func (t *Tree) Asked() (map[string]bool, error) {
	asked := map[string]bool{}
	err := filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(t.dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if filepath.Dir(below) == "arch" && d.Name() != t.arch || below == ".git" || below == "Documentation" || below == "tools" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasPrefix(d.Name(), "Kconfig") || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		prompts(string(text), asked)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("search the kernel tree for Kconfig's symbols: %w", err)
	}
	return asked, nil
}

// prompts notes the symbols of a Kconfig file that have a prompt.
func prompts(text string, asked map[string]bool) {
	at := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := configEntry.FindStringSubmatch(line); m != nil {
			at = m[1]
		} else if otherEntry.MatchString(line) {
			at = ""
		} else if at != "" && prompt.MatchString(line) {
			asked[at] = true
		}
	}
}
