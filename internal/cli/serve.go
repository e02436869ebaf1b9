package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/peer"
)

func serveCommand(env *Env) *cobra.Command {
	var listen string
	var stdio bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Take the far ends of another machine's network workloads",
		Long: `serve starts the servers of network workloads for tare run --peer on another machine,
on the targets that this machine has, and ends and removes them: when they are not
needed any more, and when the other machine does not answer for 20 s. It starts tare's
own workloads alone, never a command that the other side chose.

With --listen it prints the flag for the other machine with a key. A key is for one
connection; when the other side has left, serve prints the next one. Both sides show
their keys by TLS 1.3, and nothing else is read of a stranger. With --stdio it speaks
over its standard input and output, for tare run --peer ssh://HOST.

Both sides must be of one version, and have the same workbench image. Servers of the
path remote listen at this machine's address while they are measured: use a network
that you trust.`,
		Example: `  tare serve --listen 192.0.2.7:7450
  tare run STUDY --peer 192.0.2.7:7450#KEY     on the other machine, as it was printed`,
		Args: exactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if (listen == "") != stdio {
				return usageError{errors.New("serve takes --listen ADDRESS:PORT or --stdio")}
			}
			if stdio {
				return env.serveStdio(c)
			}
			return env.serveListening(c, listen)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "wait for the other machine at this address and port, as 192.0.2.7:7450 (port 0: any free one)")
	c.Flags().BoolVar(&stdio, "stdio", false, "speak over standard input and output")
	workbenchFlag(c.Flags())
	guestFlags(c.Flags())
	return c
}

// peerFlag is the other machine of paths between two.
func peerFlag(flags *pflag.FlagSet) {
	flags.String("peer", "", "the other machine of the paths remote...: "+peer.Where+" (default $TARE_PEER)")
}

// peerOf is what the flag says, or the variable, which others on this machine cannot see.
func (env *Env) peerOf(c *cobra.Command) string {
	f := c.Flags().Lookup("peer")
	switch {
	case f == nil:
		return ""
	case f.Changed:
		return f.Value.String()
	}
	return env.Getenv("TARE_PEER")
}

// serves says what happens while far ends are served.
func (env *Env) serves(what string) { fmt.Fprintln(env.Stderr, "tare serve:", what) }

// serveListening serves one client after another.
func (env *Env) serveListening(c *cobra.Command, address string) (err error) {
	l, err := peer.Listen(c.Context(), address)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	laboratory, err := lab.Open(c.Context(), env.config(c))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, laboratory.Close()) }()
	for {
		visitor, refused, err := l.Next(c.Context(), func(key peer.Key) {
			fmt.Fprintf(env.Stdout, "--peer %s#%s\n", reachable(l.Addr()), key)
		})
		if refused > 0 {
			env.serves(fmt.Sprintf("refused %d connections without a valid key", refused))
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := laboratory.Serve(c.Context(), visitor, env.serves); err != nil || c.Context().Err() != nil {
			return err
		}
	}
}

// reachable is an address for the other machine: of one that listens everywhere, an
// address that others may reach.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return a.String()
	}
	found := ""
	for _, one := range addresses {
		n, ok := one.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() {
			continue
		}
		if four := n.IP.To4() != nil; four || found == "" {
			found = net.JoinHostPort(n.IP.String(), fmt.Sprint(tcp.Port))
			if four {
				break
			}
		}
	}
	return cmp.Or(found, a.String())
}

// streams are the two directions of a process's standard streams.
type streams struct {
	*io.PipeReader
	out io.WriteCloser
}

// standard reads standard input through a pipe of this process: nothing interrupts a read
// of standard input itself, and Close ends one of the pipe.
func standard(in io.Reader, out io.WriteCloser) streams {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // it never fails
	}()
	return streams{r, out}
}

func (s streams) Write(p []byte) (int, error) { return s.out.Write(p) }

// Close ends both directions.
func (s streams) Close() error { return errors.Join(s.PipeReader.Close(), s.out.Close()) }

// serveStdio serves the client at the other end of the standard streams.
func (env *Env) serveStdio(c *cobra.Command) (err error) {
	out, ok := raw(env.Stdout).(*os.File)
	if !ok || terminal(env.Stdout) {
		return usageError{errors.New("serve --stdio speaks to another tare: tare run --peer ssh://HOST starts it")}
	}
	laboratory, err := lab.Open(c.Context(), env.config(c))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, laboratory.Close()) }()
	visitor := peer.Visitor{Conn: standard(os.Stdin, out)}
	visitor.There, visitor.Here = sshAddresses(env.Getenv("SSH_CONNECTION"))
	return laboratory.Serve(c.Context(), visitor, env.serves)
}

// sshAddresses are the client's and the server's address as sshd tells them ("CLIENT PORT
// SERVER PORT"); invalid where it does not.
func sshAddresses(connection string) (client, server netip.Addr) {
	words := strings.Fields(connection)
	if len(words) != 4 {
		return client, server
	}
	read := func(text string) netip.Addr {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Addr{}
		}
		return peer.Usable(a)
	}
	return read(words[0]), read(words[2])
}
