package vm

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// The frames between the host and the agent; helpers/init.c describes them.
const (
	frameHello  = 'H'
	frameOutput = 'O'
	frameErrors = 'E'
	frameWindow = 'W'
	frameExit   = 'X'
	frameSeen   = 'P'
	frameTimes  = 'T'
	frameFailed = 'F'
	frameRun    = 'R'
	frameInput  = 'I'
	frameQuit   = 'Q'
	frameSave   = 'S' // and the agent's answer
	frameAgain  = 'A'
)

// agent is the host's side of a conversation with helpers/init.c.
type agent struct {
	conn net.Conn
	in   *bufio.Reader
	way  string // the channel that the agent took
	// By the guest's own clock: when its first process began and when the agent said
	// hello; 0 where it does not tell.
	began, hello time.Duration
	out          sync.Mutex // guards writing: input and commands come from two goroutines
}

// seed is how many random bytes a restored guest gets.
const seed = 32

// wake has the agent of a restored guest take over the host's calendar time and fresh
// random numbers, and say hello again. What it answers is for greet.
func wake(conn net.Conn) error {
	news := binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	news = append(news, make([]byte, seed)...)
	if _, err := rand.Read(news[len(news)-seed:]); err != nil {
		return driver.Labf("random numbers for a guest: %w", err)
	}
	return (&agent{conn: conn}).send(frameAgain, news)
}

// greet waits for the agent's hello on a channel.
func greet(conn net.Conn) (*agent, error) {
	a := &agent{conn: conn, in: bufio.NewReaderSize(conn, 128<<10)}
	kind, text, err := a.receive()
	if err != nil {
		return nil, err
	}
	version, way, _ := strings.Cut(string(text), "\n")
	if kind != frameHello || version != "1" {
		return nil, fmt.Errorf("the guest's first words are no agent's: %q, %.60q", kind, text)
	}
	way, clock, _ := strings.Cut(way, "\n")
	a.way = way
	if _, err := fmt.Sscan(clock, (*int64)(&a.began), (*int64)(&a.hello)); clock != "" && (err != nil || a.began < 0 || a.hello < a.began) {
		return nil, fmt.Errorf("the agent's clock says %.60q", clock)
	}
	return a, nil
}

func (a *agent) receive() (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(a.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if err := limit.AgentFrame.CheckBytes(int64(n)); err != nil {
		return 0, nil, err
	}
	data = make([]byte, n)
	_, err = io.ReadFull(a.in, data)
	return head[0], data, err
}

func (a *agent) send(kind byte, data []byte) error {
	a.out.Lock()
	defer a.out.Unlock()
	frame := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	_, err := a.conn.Write(append(frame, data...))
	return err
}

// request is the payload as the agent reads it.
func request(spec driver.Spec) ([]byte, error) {
	input := "0"
	if spec.Stdio.Stdin != nil {
		input = "1"
	}
	texts := []string{
		strconv.FormatUint(uint64(spec.User.UID), 10), strconv.FormatUint(uint64(spec.User.GID), 10),
		strconv.FormatInt(spec.Limits.Pids, 10), input,
		strconv.Itoa(len(spec.Args)), strconv.Itoa(len(spec.Env)), spec.Cwd,
	}
	texts = append(append(texts, spec.Args...), spec.Env...)
	for _, t := range texts {
		if strings.ContainsRune(t, 0) {
			return nil, fmt.Errorf("%q holds a NUL byte", t)
		}
	}
	return []byte(strings.Join(texts, "\x00") + "\x00"), nil
}

// exitOf reads the wait status of an exit frame.
func exitOf(data []byte) (driver.Exit, error) {
	if len(data) != 4 {
		return driver.Exit{}, fmt.Errorf("the agent's report of the exit has %d bytes", len(data))
	}
	status := unix.WaitStatus(binary.LittleEndian.Uint32(data))
	switch {
	case status.Signaled():
		return driver.Exit{Signal: int(status.Signal())}, nil
	case status.Exited():
		return driver.Exit{Code: status.ExitStatus()}, nil
	}
	return driver.Exit{}, fmt.Errorf("the agent reported the wait status %#x, which is neither an exit nor a signal", uint32(status))
}

// feeder passes standard input on, as much as the agent has room for. It reads
// nothing that the payload does not want, because others may read the same file.
type feeder struct {
	from   *os.File
	room   chan uint32
	cancel *os.File // closing the other end wakes the poll
	waker  *os.File
	done   sync.WaitGroup
}

func newFeeder(stdin *os.File) (*feeder, error) {
	from, err := sys.Duplicate(stdin)
	if err != nil || from == nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		from.Close()
		return nil, err
	}
	return &feeder{from: from, room: make(chan uint32, 1), cancel: r, waker: w}, nil
}

func (f *feeder) start(a *agent) {
	f.done.Go(func() {
		for room := range f.room {
			data, err := f.read(room)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			// An input that cannot be read has ended for the payload.
			if a.send(frameInput, data) != nil || len(data) == 0 {
				return
			}
		}
	})
}

// read waits for input, or for close. The file may be of any kind, which a
// deadline does not serve.
func (f *feeder) read(room uint32) ([]byte, error) {
	data := make([]byte, min(int64(room), limit.AgentFrame.Bytes))
	for {
		fds := []unix.PollFd{{Fd: int32(f.from.Fd()), Events: unix.POLLIN}, {Fd: int32(f.cancel.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, err
		}
		if fds[1].Revents != 0 {
			return nil, os.ErrClosed
		}
		n, err := unix.Read(int(fds[0].Fd), data)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // another reader was faster
		}
		return data[:max(n, 0)], err
	}
}

// close ends the feeder; nobody may add room any more.
func (f *feeder) close() {
	if f == nil {
		return
	}
	close(f.room)
	f.waker.Close()
	f.done.Wait()
	f.cancel.Close()
	f.from.Close()
}

// outlet writes one of the payload's streams.
type outlet struct{ to *os.File }

// write drops what nobody reads any more.
func (o outlet) write(data []byte) error {
	if o.to == nil {
		return nil
	}
	_, err := o.to.Write(data)
	if errors.Is(err, unix.EPIPE) {
		return nil
	}
	if err != nil {
		return driver.Labf("pass on the payload's output: %w", err)
	}
	return nil
}

// interrupt makes a write that nobody reads end.
func (o outlet) interrupt() {
	if o.to != nil {
		_ = o.to.SetWriteDeadline(time.Now()) // a file that takes none does not block
	}
}

func (o outlet) close() {
	if o.to != nil {
		o.to.Close()
	}
}
