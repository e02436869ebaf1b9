package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// A container's output reaches its user in two ways, and neither is enough alone. The
// log has all of it, but by lines, without the carriage return before a line's end. Who
// attaches gets the bytes as they are, but only from then on, and can attach only to a
// container that runs. So the mark comes by the log, as a line, and the payload waits
// behind it until tare is attached.

// podLogName is the log in the instance's directory: a fifo, so that a payload that
// writes without end fills no disk.
const podLogName = "log"

// markLine is the end of the log's line with the mark (mark -line).
var markLine = []byte(" stdout F " + driver.Acted + "\n")

// podLog is the container's log.
type podLog struct {
	fifo   *os.File
	marked chan struct{} // closed when the mark has come
	ended  chan struct{}
}

// newPodLog makes the log. The mark is passed on to stdout where pass is set.
func newPodLog(file string, stdout *os.File, pass bool) (*podLog, error) {
	if err := unix.Mkfifo(file, 0o600); err != nil {
		return nil, driver.Labf("log of a pod: %w", err)
	}
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // for writing, too: it has no end before close
	if err != nil {
		return nil, driver.Labf("log of a pod: %w", err)
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, logBytesAhead) // with less the daemon waits for tare more often
	fifo := os.NewFile(uintptr(fd), file)
	l := &podLog{fifo: fifo, marked: make(chan struct{}), ended: make(chan struct{})}
	to := io.Discard
	if pass {
		to = orDiscard(stdout)
	}
	go func() {
		defer close(l.ended)
		r := bufio.NewReaderSize(fifo, logBuffer)
		if err := untilMark(r, to); err == nil {
			close(l.marked)
		}
		_, _ = io.Copy(io.Discard, r) // until close
	}()
	return l, nil
}

// logBytesAhead is how far the daemon may be ahead of tare: as far as any user may ask
// for.
const logBytesAhead = 1 << 20

// logBuffer holds the beginning of a line, the mark's as a whole.
const logBuffer = 256

// untilMark reads a log up to the line with the mark, and writes the mark.
func untilMark(from *bufio.Reader, to io.Writer) error {
	for {
		line, err := from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if bytes.HasSuffix(line, markLine) {
			_, err := to.Write([]byte(driver.Acted))
			return err
		}
	}
}

func (l *podLog) close() {
	l.fifo.Close()
	<-l.ended
}

// attachment carries a payload's streams.
type attachment struct {
	conn   httpstream.Connection
	stdin  httpstream.Stream
	input  *os.File      // a descriptor of our own; nil for none
	opened chan struct{} // a message for each output at the first byte of the gate
	copied chan error    // a message for each output at its end
	fed    sync.WaitGroup
}

// outputs are the streams of an attachment that are copied.
const outputs = 2

// attachTo attaches to a container that runs. Its payload waits behind the gate.
func attachTo(ctx context.Context, c cri.RuntimeServiceClient, container, netns string, stdio driver.Stdio) (*attachment, error) {
	r, err := c.Attach(ctx, &cri.AttachRequest{ContainerId: container, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, err
	}
	conn, err := upgrade(ctx, r.GetUrl(), netns)
	if err != nil {
		return nil, err
	}
	a := &attachment{conn: conn, opened: make(chan struct{}, outputs), copied: make(chan error, outputs)}
	streams := map[string]httpstream.Stream{}
	for _, kind := range []string{"error", "stdin", "stdout", "stderr"} { // Kubernetes' remote command protocol
		if streams[kind], err = conn.CreateStream(http.Header{"streamType": {kind}}); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if a.input, err = sys.Duplicate(stdio.Stdin); err != nil {
		return nil, errors.Join(driver.Labf("standard input: %w", err), conn.Close())
	}
	a.stdin = streams["stdin"]
	_ = streams["error"].Close() // our side of it says nothing
	go func() { a.copied <- a.copy(orDiscard(stdio.Stdout), streams["stdout"]) }()
	go func() { a.copied <- a.copy(orDiscard(stdio.Stderr), streams["stderr"]) }()
	return a, nil
}

// upgrade asks the daemon's streaming server for a connection of many streams. The end of
// ctx breaks it off; a connection that was returned does not depend on ctx.
func upgrade(ctx context.Context, url, netns string) (httpstream.Connection, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, "v4.channel.k8s.io")
	conn, err := dialIn(ctx, netns, request.URL.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) }) // fails on a closed one alone
	defer stop()
	if err := request.Write(conn); err != nil {
		return nil, errors.Join(ctx.Err(), err, conn.Close())
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1), request) // no byte beyond: what follows is no HTTP
	if err != nil {
		return nil, errors.Join(ctx.Err(), err, conn.Close())
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return nil, errors.Join(fmt.Errorf("the streaming server at %s answered %s", request.URL.Host, answer.Status), conn.Close())
	}
	if !stop() {
		return nil, errors.Join(ctx.Err(), conn.Close())
	}
	return spdy.NewClientConnection(conn)
}

// networkOf is the path of the network namespace of the process that listens at a
// socket, where its streaming server listens, too; "" for that of this process.
func networkOf(socket string) (string, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "", err
	}
	var peer *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil {
		return "", cerr
	}
	if err != nil {
		return "", err
	}
	theirs := fmt.Sprintf("/proc/%d/ns/net", peer.Pid)
	var of, own unix.Stat_t
	if unix.Stat(theirs, &of) != nil || unix.Stat("/proc/thread-self/ns/net", &own) != nil || of.Ino == own.Ino {
		return "", nil // ours, or one that we may not see
	}
	return theirs, nil
}

// dialIn connects to an address as the network namespace at a path knows it; "" is our
// own.
func dialIn(ctx context.Context, netns, address string) (conn net.Conn, err error) {
	dial := func() { conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address) }
	if netns == "" {
		dial()
		return conn, err
	}
	if nerr := within(netns, dial); nerr != nil {
		return nil, driver.Labf("connect in the engine's network namespace: %w", nerr)
	}
	return conn, err
}

// within calls do on a thread that is in the network namespace at a path for that time.
func within(netns string, do func()) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err == nil {
		defer own.Close()
		err = enter(netns)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	do()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		return err // the thread stays locked: nobody else works in there
	}
	runtime.UnlockOSThread()
	return nil
}

// enter puts this thread into the network namespace at a path.
func enter(netns string) error {
	f, err := os.Open(netns)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}

// The gate's bytes (mark -gate): ping comes back on both outputs, and the payload begins
// after letGo has.
const (
	ping  = '\n'
	letGo = 4
)

// copyBuffer is small: most containers that are held are silent.
const copyBuffer = 4 << 10

// copy passes on what a stream has after the gate.
func (a *attachment) copy(to io.Writer, from io.Reader) error {
	var one [1]byte
	for first := true; one[0] != letGo; first = false {
		if _, err := io.ReadFull(from, one[:]); err != nil {
			return errNoAttach
		}
		if first {
			a.opened <- struct{}{}
		}
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, from, make([]byte, copyBuffer))
	return err
}

// errNoAttach is the error of an output that ended before the payload began.
var errNoAttach = errors.New("its streams ended before the payload began")

// pingPause is how long tare waits for a ping before it sends another. One that came
// before the daemon had attached both outputs does not come back.
const pingPause = 20 * time.Millisecond

// open lets the payload begin, after the mark was passed on, and feeds it.
func (a *attachment) open(ctx context.Context, marked <-chan struct{}) error {
	again := time.NewTicker(pingPause)
	defer again.Stop()
	_, err := a.stdin.Write([]byte{ping})
	for open := 0; err == nil && (open < outputs || marked != nil); {
		select {
		case <-a.opened:
			open++
		case <-marked:
			marked = nil
		case <-again.C:
			if open < outputs {
				_, err = a.stdin.Write([]byte{ping})
			}
		case err = <-a.copied:
			a.copied <- err
			err = errors.Join(err, errNoAttach)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		_, err = a.stdin.Write([]byte{letGo})
	}
	if err == nil {
		a.fed.Go(a.feed)
	}
	return err
}

// feed passes standard input on until it ends, the payload stops reading or close
// breaks it off: the first is all that matters here.
func (a *attachment) feed() {
	if a.input != nil {
		_, _ = io.Copy(a.stdin, a.input)
	}
	_ = a.stdin.Close()
}

// lost says that the daemon has given up an output before its end. Containerd 1.6.20,
// Debian 12's, closes what a payload has written and it has not read yet, if that takes
// longer than to remove the payload's process.
const lost = "the daemon has lost the end of its output (containerd 1.6.20 does so; 1.6.21 and later do not)"

// complete returns an error where the log of a private daemon says that it gave up an
// output of the container. It says so before it closes the output.
func (p *private) complete(container string) error {
	if p == nil {
		return nil // nobody knows
	}
	said, err := tail(p.log(), saidBytes)
	if err != nil {
		return driver.Labf("log of the engine: %w", err)
	}
	for line := range bytes.Lines(said) {
		if bytes.Contains(line, []byte("Failed to pipe")) && bytes.Contains(line, []byte(container)) {
			return errors.New(lost)
		}
	}
	return nil
}

// drained waits until all of the payload's output has been passed on.
func (a *attachment) drained(ctx context.Context) error {
	late := time.NewTimer(streamGrace)
	defer late.Stop()
	var errs []error
	for range outputs {
		select {
		case err := <-a.copied:
			errs = append(errs, err)
		case <-late.C:
			return fmt.Errorf("its output has not ended %v after it", streamGrace)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func (a *attachment) close() {
	if a.input != nil {
		_ = a.input.SetReadDeadline(time.Now()) // a file that knows no deadlines does not block
	}
	_ = a.conn.Close() // nobody is left at its other end
	a.fed.Wait()
	if a.input != nil {
		a.input.Close()
	}
}
