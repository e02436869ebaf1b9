package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
)

func imageCommand(env *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "image",
		Short: "Save or build the workbench image, for runs of the same bits on other machines",
	}
	c.AddCommand(imageSaveCommand(env), imageBuildCommand(env))
	return c
}

// written is what --json prints of a file that was written.
type written struct {
	File   string `json:"file"`
	Digest string `json:"digest,omitempty"`
}

func imageSaveCommand(env *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "save FILE [COMMAND...]",
		Short: "Write the workbench, with commands of this machine, to a file",
		Long: `save writes the image that this machine's targets run: its busybox and iperf3 with
their libraries, tare's helper programs, and each COMMAND, such as sysbench or fio,
with its libraries. FILE is a tar of an OCI image layout, - for standard output. It prints
FILE@sha256:DIGEST (with - on standard error), which --workbench of run, weigh and
resume takes on other machines of this architecture.`,
		Example: `  tare image save workbench.tar
  tare image save - | ssh node1 'cat >workbench.tar'
  tare weigh --workbench workbench.tar@sha256:DIGEST --on host,runc -- true`,
		Args: someArgs("no file is named"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput("FILE", args[0]); err != nil {
				return err
			}
			if args[0] == standardOutput && asJSON {
				return usageError{errors.New("--json: standard output has the image: name a file")}
			}
			digest, err := lab.SaveWorkbench(c.Context(), env.config(c), args[1:], func(save func(io.Writer) error) error {
				return env.writeTo(args[0], func(w io.Writer, _ report.Options) error { return save(w) })
			})
			switch {
			case err != nil:
				return err
			case asJSON:
				return env.printJSON(written{args[0], digest})
			case args[0] == standardOutput:
				fmt.Fprintln(env.Stderr, "FILE@"+digest)
			default:
				fmt.Fprintln(visible{env.Stdout}, args[0]+"@"+digest)
			}
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// builtImages is what tare image build --json prints.
type builtImages struct {
	File      string `json:"file"`
	Bill      string `json:"bill"`      // of materials
	Workbench string `json:"workbench"` // digest
	Base      string `json:"base"`      // digest
}

func imageBuildCommand(env *Env) *cobra.Command {
	var o lab.ImageOrder
	var output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "build --arch ARCH -o FILE [PACKAGE...]",
		Short: "Make a workbench and a slim Debian for any architecture, of Debian's packages",
		Long: `build makes two images for an architecture, which need not be this machine's: "base",
a slim Debian, and "workbench", the same with busybox, tare's helper programs, the
command tare-index, which prints the Unix index, and each PACKAGE of Debian. apt fetches
the packages and checks them by Debian's keys. Nothing is installed, and no package's
script is run: dpkg --configure -a in a container does what those do.

FILE is a tar that docker load, podman load, ctr images import and clients of registries
take. FILE.cdx.json is the bill of materials. build prints FILE@sha256:DIGEST, which
--workbench takes on machines of that architecture, then FILE:base with its digest, which
--image takes. The same packages give the same digests.`,
		Example: `  tare image build --arch loong64 -o base.oci
  tare image build --arch arm64 -o tools.oci sysbench iperf3
  docker load -i base.oci && docker run --rm tare-workbench:loong64 tare-index`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if output == "" || o.Arch == "" {
				return usageError{fmt.Errorf("--arch and -o are needed\nusage: %s", c.UseLine())}
			}
			if output == standardOutput {
				return usageError{errors.New("--output -: the images and their bill of materials are two files, which standard output cannot take: name the first one")}
			}
			if err := checkOutput("--output", output); err != nil {
				return err
			}
			o.Packages, o.Cache = args, env.cacheDir()
			if o.Cache == "" {
				return &lab.InputError{Err: errors.New("there is no place for packages: set XDG_CACHE_HOME to a directory that only you can write")}
			}
			bill := output + ".cdx.json"
			d, err := lab.BuildImage(c.Context(), o, output, bill)
			if err != nil {
				return err
			}
			if asJSON {
				return env.printJSON(builtImages{output, bill, d.Workbench, d.Base})
			}
			fmt.Fprintf(visible{env.Stdout}, "%s@%s\n%s:base %s\n", output, d.Workbench, output, d.Base)
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	flags := c.Flags()
	flags.StringVar(&o.Arch, "arch", "", "architecture: amd64, arm64, loong64, mips64le or riscv64")
	flags.StringVarP(&output, "output", "o", "", "file for the images")
	flags.StringVar(&o.Suite, "suite", "", "suite of Debian (default: trixie; bookworm for mips64le, sid for loong64, which no newer or other release has)")
	flags.StringVar(&o.Mirror, "mirror", "", "URL of a mirror of Debian (default: $DEBIAN_MIRROR, else http://deb.debian.org/debian)")
	return c
}

func workbenchFlag(flags *pflag.FlagSet) {
	flags.String("workbench", "", "run in this saved workbench, FILE@sha256:DIGEST, in place of this machine's programs (tare image save)")
}
