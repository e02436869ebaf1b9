// Command man writes a manual page for each verb of tare into a directory. The pages
// have the date of $SOURCE_DATE_EPOCH.
//
//	man VERSION DIR
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/tarelab/tare/internal/cli"
	"github.com/tarelab/tare/internal/experiment"
	experiments "github.com/tarelab/tare/internal/experiment/all"
	"github.com/tarelab/tare/internal/kerneltools"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man VERSION DIR")
		os.Exit(2)
	}
	root := cli.Command(&cli.Env{
		Getenv:      func(string) string { return "" }, // nothing of this machine stands in a page
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
		Experiments: experiments.Experiments(),
		Version:     os.Args[1],
		Commands:    []func(experiment.Laboratory) []*cobra.Command{kerneltools.Commands},
	})
	root.DisableAutoGenTag = true
	header := doc.GenManHeader{Title: "TARE", Section: "1", Source: "tare " + os.Args[1], Manual: "User commands"}
	if err := doc.GenManTree(root, &header, os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}
