package helpers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Digest identifies all programs of this build: "sha256:" and the digest of their names
// and bytes, in the order of names. Builds of one commit for one architecture have the
// same.
func Digest() (string, error) {
	names, err := programs()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, name := range names {
		b, err := Read(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// Compiler is the C compiler that built the programs, as it calls itself:
// "clang version 22.1.8".
func Compiler() (string, error) {
	b, err := Read(".compiler")
	return strings.TrimSpace(string(b)), err
}

// Flags are the flags that the Unix tests were built with: a line for the static
// program, "unix: FLAGS", and one for the dynamic ones, "unix-gnu: FLAGS".
func Flags() (string, error) {
	b, err := Read(".flags")
	return strings.TrimSpace(string(b)), err
}
