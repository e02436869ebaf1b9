// Command deb packs what nfpm.yaml names into a Debian package.
//
//	deb CONFIG OUTPUT
//
// $VARIABLES in the configuration are the environment's. It is a module of its own, so
// that tare does not depend on what packs it.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: deb CONFIG OUTPUT")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "deb:", err)
		os.Exit(1)
	}
}

func pack(config, output string) error {
	c, err := nfpm.ParseFileWithEnvMapping(config, os.Getenv)
	if err != nil {
		return err
	}
	info, err := c.Get("deb")
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	f, err := os.Create(output)
	if err != nil {
		return err
	}
	return errors.Join(deb.Default.Package(info, f), f.Close())
}
