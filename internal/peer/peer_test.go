package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/limit"
)

// machine is a Host whose far ends are entries of a map.
type machine struct {
	mu      sync.Mutex
	running map[string]chan error
	started int
	fails   error         // of each start
	slow    chan struct{} // a start waits for it, or for its context; nil: it does not
	kept    error         // of each removal
}

func newMachine() *machine { return &machine{running: map[string]chan error{}} }

func (m *machine) Prove(_ context.Context, target string) (driver.Facts, error) {
	if target != "native" {
		return driver.Facts{}, &driver.CannotError{Target: target, Lacks: "it is not there", Remedy: "install it"}
	}
	return driver.Facts{Version: "1"}, nil
}

func (m *machine) Start(ctx context.Context, end driver.FarEnd) (*driver.Far, error) {
	if m.slow != nil {
		select {
		case <-m.slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if m.fails != nil {
		return nil, m.fails
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := make(chan error, 1)
	m.running[end.ID] = ended
	m.started++
	return &driver.Far{Port: "5201", Ended: ended, Close: func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.running, end.ID)
		return m.kept
	}}, nil
}

// left are the far ends that run.
func (m *machine) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.running)
}

func (m *machine) end(id string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[id] <- err
}

var facts = Facts{Tool: "v1", Image: "sha256:a", Host: hostinfo.Host{Hostname: "there"}}

// long is a lease that no test waits for.
const long = time.Hour

// wire is a connection whose halves can be cut.
func wire(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// served is a client and its server, which has returned when over is closed.
func served(t *testing.T, m *machine, lease time.Duration) (*Client, net.Conn, func() error) {
	t.Helper()
	client, server := wire(t)
	over := make(chan error, 1)
	go func() {
		over <- answer(t.Context(), Visitor{Conn: server}, facts, m, func(s string) { t.Log(s) }, lease)
	}()
	c, err := begin(&connection{link: newLink(client, lease), stop: func() error { return nil }}, facts, lease)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, server, func() error { return <-over }
}

func start(t *testing.T, c *Client, id string) *driver.Far {
	t.Helper()
	far, err := c.Start(t.Context(), driver.FarEnd{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return far
}

func TestFarEnd(t *testing.T) {
	m := newMachine()
	c, _, _ := served(t, m, long)
	if f, err := c.Prove(t.Context(), "native"); err != nil || f.Version != "1" {
		t.Errorf("%+v, %v", f, err)
	}
	var cannot *driver.CannotError
	if _, err := c.Prove(t.Context(), "runc"); !errors.As(err, &cannot) || cannot.Remedy != "install it" {
		t.Errorf("a target that cannot run there: %v", err)
	}
	one, two := start(t, c, "tare-s1-1-0"), start(t, c, "tare-s1-2-0")
	if one.Port != "5201" || m.left() != 2 {
		t.Errorf("port %q, %d run", one.Port, m.left())
	}
	m.end("tare-s1-1-0", errors.New("out of memory"))
	if err := <-one.Ended; err == nil || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("it ended with %v", err)
	}
	for range 2 {
		if err := errors.Join(one.Close(), two.Close()); err != nil {
			t.Error(err)
		}
	}
	if m.left() != 0 {
		t.Errorf("%d run after they were stopped", m.left())
	}
}

// Errors come back with whose fault they are.
func TestFaults(t *testing.T) {
	m := newMachine()
	c, _, _ := served(t, m, long)
	for _, want := range []error{errors.New("runc: exec format error"), driver.Labf("no room"), &driver.CannotError{Target: "runc", Lacks: "x"}} {
		m.fails = want
		_, err := c.Start(t.Context(), driver.FarEnd{ID: "tare-s1-1-0"})
		if err == nil || driver.IsLab(err) != driver.IsLab(want) || errors.As(err, new(*driver.CannotError)) != errors.As(want, new(*driver.CannotError)) {
			t.Errorf("%v came back as %v", want, err)
		}
	}
	m.fails = nil
	m.kept = errors.New("device busy")
	if err := start(t, c, "tare-s1-1-0").Close(); err == nil || !strings.Contains(err.Error(), "device busy") {
		t.Errorf("what could not be removed came back as %v", err)
	}
}

// A client that is killed, and one that says nothing more, leave nothing.
func TestLostClient(t *testing.T) {
	for name, lose := range map[string]func(*Client){
		"killed": func(c *Client) { c.conn.Close() },
		"silent": func(*Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			client, server := wire(t)
			over := make(chan error, 1)
			lease := long
			if name == "silent" {
				lease = time.Second
			}
			go func() {
				over <- answer(t.Context(), Visitor{Conn: server}, facts, m, func(s string) { t.Log(s) }, lease)
			}()
			c, err := begin(&connection{link: newLink(client, long), stop: func() error { return nil }}, facts, long)
			if err != nil {
				t.Fatal(err)
			}
			far := start(t, c, "tare-s1-1-0")
			lose(c)
			if err := <-over; err != nil || m.left() != 0 {
				t.Errorf("%v, %d run", err, m.left())
			}
			<-c.Lost()
			if err := far.Close(); err != nil {
				t.Errorf("a far end of a lost peer is its own to remove: %v", err)
			}
		})
	}
}

// A start that hangs ends with its client, and when the client gives it up.
func TestHangingStart(t *testing.T) {
	m := newMachine()
	m.slow = make(chan struct{})
	c, _, over := served(t, m, long)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Start(ctx, driver.FarEnd{ID: "tare-s1-1-0"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := c.Start(t.Context(), driver.FarEnd{ID: "tare-s1-2-0"})
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond) // it is under way, or not: both end alike
	c.conn.Close()
	if err := <-failed; !errors.As(err, new(*driver.LostError)) || !driver.IsLab(err) {
		t.Errorf("a start whose peer was lost: %v", err)
	}
	if err := over(); err != nil || m.started != 0 {
		t.Errorf("%v, %d were started", err, m.started)
	}
}

// A server that is killed, and one that says nothing more, are lost.
func TestLostServer(t *testing.T) {
	m := newMachine()
	c, server, _ := served(t, m, long)
	start(t, c, "tare-s1-1-0")
	server.Close()
	<-c.Lost()
	if _, err := c.Prove(t.Context(), "native"); !errors.As(err, new(*driver.LostError)) || c.Err() == nil {
		t.Errorf("after the server was lost: %v", err)
	}

	client, silent := wire(t)
	go func() {
		_, _ = read(silent)
		_ = write(silent, message{Kind: kindHello, Hello: &Facts{Protocol: Protocol, Tool: facts.Tool, Image: facts.Image}})
		_, _ = io.Copy(io.Discard, silent)
	}()
	c, err := begin(&connection{link: newLink(client, time.Second), stop: func() error { return nil }}, facts, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	<-c.Lost()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "no sign of it for 1s") {
		t.Errorf("a silent server: %v", err)
	}
}

// Sides that would not do the same work refuse each other, with both values.
func TestMismatch(t *testing.T) {
	for what, other := range map[string]Facts{
		"version of tare": {Tool: "v2", Image: facts.Image},
		"workbench image": {Tool: facts.Tool, Image: "sha256:b"},
	} {
		client, server := wire(t)
		said := make(chan string, 9)
		over := make(chan error, 1)
		go func() {
			over <- answer(t.Context(), Visitor{Conn: server}, other, newMachine(), func(s string) { said <- s }, long)
		}()
		_, err := begin(&connection{link: newLink(client, long)}, facts, long)
		mismatch := new(MismatchError)
		if !errors.As(err, &mismatch) || mismatch.What != what || mismatch.Here == mismatch.There {
			t.Errorf("%s: %v", what, err)
		}
		if text := <-said; !strings.Contains(text, what) || <-over != nil {
			t.Errorf("the server said %q", text)
		}
	}
	own := facts
	own.Protocol = Protocol
	if err := differ(own, Facts{Protocol: Protocol + 1, Tool: own.Tool, Image: own.Image}); err == nil {
		t.Error("another protocol was taken")
	}
}

// hello is what an honest client begins with.
func hello(t *testing.T) []byte {
	t.Helper()
	own := facts
	own.Protocol = Protocol
	var b bytes.Buffer
	if err := write(&b, message{Kind: kindHello, Hello: &own}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// framed is a text as a message.
func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// A client that has the key and is hostile gets nothing but an end.
func TestHostileClient(t *testing.T) {
	many := bytes.NewBuffer(hello(t))
	for n := range 2 * limit.PeerEnds.Items {
		many.Write(framed(fmt.Sprintf(`{"kind":"start","number":%d,"end":{"id":"tare-s1-%d-0"}}`, n+1, n)))
	}
	for name, sent := range map[string][]byte{
		"nothing":      nil,
		"text":         []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"length":       {0xff, 0xff, 0xff, 0xff, '{'},
		"cut":          hello(t)[:20],
		"not JSON":     framed(`{"kind":`),
		"deep":         framed(strings.Repeat(`{"a":`, 100)),
		"wide":         framed(`{"facts":{"notes":{` + strings.Repeat(`"a":"",`, 40000) + `"b":""}}}`),
		"no hello":     framed(`{"kind":"start","number":1,"end":{"id":"tare-s1-1-0"}}`),
		"empty hello":  framed(`{"kind":"hello"}`),
		"an answer":    append(hello(t), framed(`{"kind":"done","number":7}`)...),
		"hello twice":  append(hello(t), hello(t)...),
		"no end":       append(hello(t), framed(`{"kind":"start","number":1}`)...),
		"a path as id": append(hello(t), framed(`{"kind":"start","number":1,"end":{"id":"tare-../../etc"}}`)...),
		"one id twice": bytes.Join([][]byte{hello(t), framed(`{"kind":"start","number":1,"end":{"id":"tare-s1-1-0"}}`), framed(`{"kind":"start","number":2,"end":{"id":"tare-s1-1-0"}}`)}, nil),
		"stop nothing": append(hello(t), framed(`{"kind":"stop","number":1,"id":"tare-s1-1-0"}`)...),
		"many":         many.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			client, server := wire(t)
			m := newMachine()
			over := make(chan error, 1)
			go func() { over <- answer(t.Context(), Visitor{Conn: server}, facts, m, func(string) {}, long) }()
			go func() {
				_, _ = client.Write(sent) // the server may have hung up
				_ = client.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(io.Discard, client)
			if err := <-over; err != nil || m.left() != 0 || m.started > limit.PeerEnds.Items {
				t.Errorf("%v, %d run, %d were started", err, m.left(), m.started)
			}
		})
	}
}

// A client that makes requests and reads no answer is given up before its requests fill
// the memory.
func TestRequestsWithoutReading(t *testing.T) {
	client, server := wire(t)
	m := newMachine()
	over := make(chan error, 1)
	go func() { over <- answer(t.Context(), Visitor{Conn: server}, facts, m, func(string) {}, long) }()
	request := framed(`{"kind":"stop","number":1,"id":"tare-s1-1-0"}`)
	go func() {
		_, err := client.Write(hello(t))
		for err == nil {
			_, err = client.Write(bytes.Repeat(request, 1000))
		}
	}()
	if err := <-over; err != nil || m.left() != 0 {
		t.Errorf("%v, %d run", err, m.left())
	}
}

// A key opens one connection, and no other key, certificate or protocol opens any.
func TestKeys(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type next struct {
		v       Visitor
		refused int
		err     error
	}
	shown, came := make(chan Key, 1), make(chan next, 1)
	wait := func() {
		v, refused, err := l.Next(t.Context(), func(k Key) { shown <- k })
		came <- next{v, refused, err}
	}
	go wait()
	key := <-shown
	connect := func(config *tls.Config) error {
		c, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Read(make([]byte, 1)) // TLS 1.3 tells a client late that it was refused
		return err
	}
	right, err := key.client()
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := oneTime()
	if err != nil {
		t.Fatal(err)
	}
	other.server = key.server
	stranger, err := other.client()
	if err != nil {
		t.Fatal(err)
	}
	bare, old, elsewhere := right.Clone(), right.Clone(), right.Clone()
	bare.Certificates = nil
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	elsewhere.NextProtos = []string{"h2"}
	var wrong Key
	wrong.seed = key.seed
	mistaken, err := wrong.client()
	if err != nil {
		t.Fatal(err)
	}
	refusals := 0
	for name, config := range map[string]*tls.Config{"stranger": stranger, "no certificate": bare, "TLS 1.2": old, "another protocol": elsewhere, "another server": mistaken} {
		if err := connect(config); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		refusals++
	}
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Write(hello(t)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, plain)
	plain.Close()
	refusals++
	for under := 1; under > 0; time.Sleep(time.Millisecond) { // a client may know of its refusal first
		l.mu.Lock()
		under = refusals - l.refused
		l.mu.Unlock()
	}
	first, err := dialTLS(t.Context(), l.Addr().String()+"#"+key.String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.conn.Close()
	got := <-came
	if got.err != nil || got.refused != refusals || got.v.There != netip.MustParseAddr("127.0.0.1") || first.there != got.v.Here {
		t.Errorf("%+v, and %d were refused", got, refusals)
	}
	defer got.v.Conn.Close()
	if second, err := dialTLS(t.Context(), l.Addr().String()+"#"+key.String()); err == nil {
		second.conn.Close()
		t.Error("a second connection while one is served")
	} else if !strings.Contains(err.Error(), "one connection") {
		t.Error(err)
	}
	go wait()
	if again := <-shown; again.String() == key.String() {
		t.Error("the same key again")
	}
	if err := connect(right); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a used key: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := <-came; n.err == nil {
		t.Errorf("after the end: %+v", n)
	}
}

// Connections that say nothing do not keep the client out that has the key.
func TestFlood(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	shown, came := make(chan Key, 1), make(chan error, 1)
	go func() {
		v, _, err := l.Next(t.Context(), func(k Key) { shown <- k })
		if err == nil {
			v.Conn.Close()
		}
		came <- err
	}()
	key := <-shown
	for range 4 * strangersMost {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for deadline := time.Now().Add(3 * handshakeWithin); ; {
		c, err := dialTLS(t.Context(), l.Addr().String()+"#"+key.String())
		if err == nil {
			c.conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until those that were first have had their time
	}
	if err := <-came; err != nil {
		t.Error(err)
	}
}

func TestPlaces(t *testing.T) {
	var key Key
	for where, good := range map[string]bool{
		"192.0.2.1:7450#" + key.String():       true,
		"[2001:db8::1]:7450#" + key.String():   true,
		"192.0.2.1:7450":                       false,
		"192.0.2.1:7450#" + key.String()[1:]:   false,
		"192.0.2.1#" + key.String():            false,
		"ssh://root@node7":                     true,
		"ssh://root@node7:2222/usr/bin/tare":   true,
		"ssh://root@[2001:db8::2]:22/bin/tare": true,
		"ssh://[2001:db8::2%25eth0]":           false,
		"ssh://-oProxyCommand=id":              false,
		"ssh://-l@node7":                       false,
		"ssh://root@node7/usr/bin/tare;id":     false,
		"ssh://root@node7/usr/bin/$(id)":       false,
		"ssh://root@node7/usr/bin/tare?x=1":    false,
		"ssh://root@node7/usr/bin/tare#x":      false,
		"ssh://":                               false,
		"ssh://ro ot@node7":                    false,
		"ssh://root@node7/usr/local/bin/tare ": false,
	} {
		if err := Check(where); (err == nil) != good {
			t.Errorf("%q: %v", where, err)
		}
	}
	argv, err := sshCommand("ssh://root@node7:2222/usr/bin/tare")
	if want := "ssh -T -p 2222 -- root@node7 /usr/bin/tare serve --stdio"; err != nil || strings.Join(argv, " ") != want {
		t.Errorf("%q, %v", argv, err)
	}
	if where := "192.0.2.1:7450#" + key.String(); WithoutKey("--peer="+where, where) != "--peer=192.0.2.1:7450" {
		t.Error(WithoutKey("--peer="+where, where))
	}
}

// A helper of ssh that keeps ssh's standard error, as that of ProxyJump may, does not keep
// this side from leaving.
func TestSilentHelperOfSSH(t *testing.T) {
	dir := t.TempDir()
	end := filepath.Join(dir, "end") // the helper ends when somebody has opened it for writing
	if err := unix.Mkfifo(end, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ncat " + end + " >/dev/null </dev/null &\ncat >/dev/null\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	c, err := dialSSH(t.Context(), "ssh://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() { left <- c.stop() }()
	select {
	case err := <-left:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute): // it is for ever
		t.Error("it waits for a process that ssh left")
	}
	f, err := os.OpenFile(end, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// Who interrupts this side does not wait for a server that says nothing.
func TestSilentServerOfSSH(t *testing.T) {
	dir := t.TempDir()
	asked := filepath.Join(dir, "asked")
	script := "#!/bin/sh\nhead -c 1 >" + asked + "\ncat >/dev/null\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		for info, err := os.Stat(asked); err != nil || info.Size() == 0; info, err = os.Stat(asked) {
			time.Sleep(time.Millisecond)
		}
		cancel(interrupted)
	}()
	if _, err := Connect(ctx, "ssh://127.0.0.1", facts); !errors.Is(err, interrupted) {
		t.Errorf("%v", err)
	}
}

// FuzzMessage: no bytes of the other side make the reader panic, take more than it may, or
// read a message that it would not write.
func FuzzMessage(f *testing.F) {
	f.Add(framed(`{"kind":"ask"}`))
	f.Add(framed(`{"kind":"start","number":1,"end":{"id":"tare-s1-1-0","target":"native","server":["a"],"limits":{"CPUs":1.5}}}`))
	f.Add(framed(`{"kind":"done","number":1,"error":{"text":"x","cannot":{"Target":"runc"}}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(framed(`{"kind":"hello","hello":{"protocol":1,"host":{"mitigations":{"a":"b"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m message
		var err error
		if over := limit.PeerMessage.CheckAlloc(func() { m, err = read(bytes.NewReader(data)) }); over != nil {
			t.Fatal(over)
		}
		if err != nil {
			return
		}
		_ = m.Error.error()
		var again bytes.Buffer
		if err := write(&again, m); err != nil && !errors.As(err, new(*limit.Error)) {
			t.Fatal(err)
		}
	})
}
