package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Where explains how the other machine is named.
const Where = "ADDRESS:PORT#KEY as tare serve --listen prints it there, or ssh://[USER@]HOST[:PORT][/PATH/OF/TARE], which starts tare serve --stdio there"

// place is where, without its key.
func place(where string) string {
	name, _, _ := strings.Cut(where, "#")
	return name
}

// WithoutKey is an argument of a command line in which the place where has lost its key.
func WithoutKey(arg, where string) string {
	if where == "" {
		return arg
	}
	return strings.ReplaceAll(arg, where, place(where))
}

// Check returns why a place cannot be read as one; nil where it can.
func Check(where string) error {
	if strings.HasPrefix(where, sshScheme) {
		_, err := sshCommand(where)
		return err
	}
	_, _, err := listener(where)
	return err
}

func dial(ctx context.Context, where string) (*connection, error) {
	if strings.HasPrefix(where, sshScheme) {
		return dialSSH(ctx, where)
	}
	return dialTLS(ctx, where)
}

// listener reads the address and the key of who listens.
func listener(where string) (address string, key Key, err error) {
	address, text, ok := strings.Cut(where, "#")
	if _, _, err := net.SplitHostPort(address); err != nil || !ok {
		return "", Key{}, fmt.Errorf("%q is not a place of another machine: write %s", place(where), Where)
	}
	key, err = ParseKey(text)
	return address, key, err
}

// handshakeWithin bounds how long a side may take to show its key.
const handshakeWithin = 10 * time.Second

func dialTLS(ctx context.Context, where string) (*connection, error) {
	address, key, err := listener(where)
	if err != nil {
		return nil, err
	}
	config, err := key.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, errStranger):
		return nil, fmt.Errorf("%w: a key is for one connection, and tare serve has one peer at a time: take the line that it printed last", err)
	case err != nil:
		return nil, err
	}
	return &connection{link: newLink(closer{conn}, Lease), here: addressOf(conn.LocalAddr()), there: addressOf(conn.RemoteAddr()), stop: func() error { return nil }}, nil
}

// closer closes a TLS connection without a word: nobody may be there to hear it.
type closer struct{ net.Conn }

func (c closer) Close() error {
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.NetConn().Close()
	}
	return c.Conn.Close()
}

// addressOf is the IP address of an end of a connection; invalid for another one.
func addressOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case *net.TCPAddr:
		return Usable(a.AddrPort().Addr())
	case *net.UDPAddr:
		return Usable(a.AddrPort().Addr())
	}
	return netip.Addr{}
}

// Usable is an address by which a machine may reach another one; invalid for one that
// means something on one link alone.
func Usable(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.IsLinkLocalUnicast() && a.Is6() {
		return netip.Addr{}
	}
	return a
}

// towards is this machine's address on the way to another one. Nothing is sent.
func towards(there netip.Addr) netip.Addr {
	conn, err := net.Dial("udp", netip.AddrPortFrom(there, 9).String())
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	return addressOf(conn.LocalAddr())
}

const sshScheme = "ssh://"

// Words of a place that become arguments of ssh, and words of a shell there.
var (
	sshWord = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	sshPath = regexp.MustCompile(`^/[A-Za-z0-9/_.+-]+$`)
)

// sshHost reports whether a host is one that ssh takes as an argument.
func sshHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Zone() == "" || sshWord.MatchString(host)
}

// sshCommand is the command line that starts the other side.
func sshCommand(where string) ([]string, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("%q is not a place of another machine: write %s", where, Where)
	}
	program, destination := "tare", u.Hostname()
	good := sshHost(destination) && u.RawQuery == "" && u.Fragment == ""
	if u.User != nil {
		user := u.User.Username()
		destination = user + "@" + destination
		good = good && sshWord.MatchString(user)
	}
	if !good {
		return nil, fmt.Errorf("%q is not a place of another machine: write %s", where, Where)
	}
	if u.Path != "" && u.Path != "/" {
		program = u.Path
		if !sshPath.MatchString(program) {
			return nil, fmt.Errorf("%q is not the path of tare on the other machine: it has letters, digits and / _ . + - alone", program)
		}
	}
	argv := []string{"ssh", "-T"}
	if port := u.Port(); port != "" {
		argv = append(argv, "-p", port)
	}
	return append(argv, "--", destination, program+" serve --stdio"), nil
}

// pipes are the two directions of a process.
type pipes struct {
	io.Reader
	io.WriteCloser
	out io.Closer // what Reader reads
}

// Close ends both directions, and a read that is under way.
func (p pipes) Close() error { return errors.Join(p.WriteCloser.Close(), p.out.Close()) }

// sshWithin is how long ssh may take to end when its input has ended.
const sshWithin = 30 * time.Second

// silentWithin is how long ssh's standard error may stay open after ssh has ended: a
// helper of it (ProxyJump) may still have it.
const silentWithin = time.Second

func dialSSH(ctx context.Context, where string) (*connection, error) {
	argv, err := sshCommand(where)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	said := &tail{}
	cmd.Stderr, cmd.WaitDelay = said, silentWithin
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	l := newLink(pipes{said.reads(out), in, out}, greetWithin)
	stopped := context.AfterFunc(ctx, func() { l.lose(context.Cause(ctx)) })
	stop := sync.OnceValue(func() error {
		stopped()
		l.lose(errors.New("this side has left"))
		late := time.AfterFunc(sshWithin, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return fmt.Errorf("%s: %w%s", strings.Join(argv, " "), err, said.text())
		}
		return nil
	})
	c := &connection{link: l, stop: stop}
	if u, err := url.Parse(where); err == nil {
		c.there = resolve(ctx, u.Hostname())
	}
	if c.there.IsValid() {
		c.here = towards(c.there)
	}
	return c, nil
}

// greetWithin is how long the other side may take until it has a workbench, before it
// says a word.
const greetWithin = 3 * time.Minute

// resolve is an address of a host, one of IPv4 before one of IPv6; invalid where only
// ssh knows it.
func resolve(ctx context.Context, host string) netip.Addr {
	for _, family := range []string{"ip4", "ip6"} {
		if found, err := net.DefaultResolver.LookupNetIP(ctx, family, host); err == nil && len(found) > 0 {
			return Usable(found[0])
		}
	}
	return netip.Addr{}
}

// tail keeps the end of what ssh and the other side print, for errors.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailBytes = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	t.kept = bytes.Clone(t.kept[max(0, len(t.kept)-tailBytes):])
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.kept) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it said: %s)", bytes.TrimSpace(t.kept))
}

// reads explains the end of a stream by what was printed.
func (t *tail) reads(r io.Reader) io.Reader { return explained{r, t} }

type explained struct {
	io.Reader
	by *tail
}

func (e explained) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) && e.by.text() != "" {
		err = fmt.Errorf("the connection has ended%s", e.by.text())
	}
	return n, err
}

// checkPort refuses a port that no server can listen at.
func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the other machine says that its far end listens at port %q", port)
	}
	return nil
}
