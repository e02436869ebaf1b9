package trim

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// buildTools are what a kernel's build runs or includes, with the Debian
// packages that have them.
var buildTools = []struct{ program, header, debian string }{
	{program: "make", debian: "make"}, {program: "gcc", debian: "gcc"}, {program: "ld", debian: "binutils"},
	{program: "flex", debian: "flex"}, {program: "bison", debian: "bison"}, {program: "bc", debian: "bc"},
	{program: "perl", debian: "perl"}, {header: "/usr/include/gelf.h", debian: "libelf-dev"},
	{header: "/usr/include/stdio.h", debian: "libc6-dev"},
}

// compressors are the programs that pack an image.
var compressors = map[Compression]struct{ program, debian string }{
	"none": {"lz4", "lz4"}, "lz4": {"lz4", "lz4"}, "zstd": {"zstd", "zstd"}, "gzip": {"gzip", "gzip"}, "xz": {"xz", "xz-utils"},
}

// A ToolsError says which tools a build lacks.
type ToolsError struct {
	Lacks    []string
	Packages []string // of Debian
}

func (e *ToolsError) Error() string {
	return fmt.Sprintf("a kernel's build needs %s: apt-get install %s", strings.Join(e.Lacks, ", "), strings.Join(e.Packages, " "))
}

// checkTools finds what is missing before anything is built: nil or a ToolsError.
func (o *Options) checkTools(ctx context.Context) error {
	missing := &ToolsError{}
	lack := func(what, debian string) {
		missing.Lacks, missing.Packages = append(missing.Lacks, what), append(missing.Packages, debian)
	}
	for _, t := range buildTools {
		if t.program != "" {
			if _, err := exec.LookPath(t.program); err != nil {
				lack(t.program, t.debian)
			}
		} else if _, err := os.Stat(t.header); err != nil {
			lack(t.header, t.debian)
		}
	}
	if o.Arch.foreign() {
		triple := ports[o.Arch].triple
		for program, of := range map[string]string{"gcc": "gcc", "ld": "binutils"} {
			if _, err := exec.LookPath(triple + "-" + program); err != nil {
				lack(triple+"-"+program, of+"-"+strings.ReplaceAll(triple, "_", "-"))
			}
		}
	}
	packer := compressors[o.Compression]
	if _, err := exec.LookPath(packer.program); err != nil {
		lack(packer.program, packer.debian)
	}
	if o.Initrd {
		if _, err := findBusybox(ctx, o.Arch); err != nil {
			lack(fmt.Sprintf("a static busybox for the initramfs (%v)", err), "busybox-static")
		}
	}
	if len(missing.Lacks) > 0 {
		return missing
	}
	return nil
}
