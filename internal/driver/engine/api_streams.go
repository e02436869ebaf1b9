package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/sys"
)

// streams carries a payload's streams over the connection that is attached to
// its container.
type streams struct {
	conn   client.HijackedResponse
	stdin  *os.File // a descriptor of our own, so that reading can be broken off; nil for none
	copied chan error
	fed    sync.WaitGroup
}

func newStreams(conn client.HijackedResponse, stdio driver.Stdio) (*streams, error) {
	conn.Reader = nil // of 4 KiB for as long as a container is held; nothing has been read by it yet
	stdin, err := sys.Duplicate(stdio.Stdin)
	if err != nil {
		conn.Close()
		return nil, driver.Labf("standard input: %w", err)
	}
	s := &streams{conn: conn, stdin: stdin, copied: make(chan error, 1)}
	if stdin != nil {
		s.fed.Go(s.feed)
	}
	go func() {
		s.copied <- frames(bufio.NewReaderSize(s.conn.Conn, frameBuffer), orDiscard(stdio.Stdout), orDiscard(stdio.Stderr))
	}()
	return s, nil
}

// frameHeader is how long the header of a piece of output is: the stream, and in its
// last four bytes the length of what follows (Docker's API, ContainerAttach: stream
// format).
const frameHeader = 8

// frameBuffer is for headers and short lines: longer pieces pass by it.
const frameBuffer = 256

// frames passes on what from says of both streams, until its end. The library's
// StdCopy does so with a buffer of 32 KiB, which would be most of what a container
// takes here that is held and silent.
func frames(from io.Reader, stdout, stderr io.Writer) error {
	header := make([]byte, frameHeader)
	for {
		if _, err := io.ReadFull(from, header); err != nil {
			return err
		}
		length := int64(binary.BigEndian.Uint32(header[4:]))
		to := stdout
		switch stream := stdcopy.StdType(header[0]); stream {
		case stdcopy.Stdout:
		case stdcopy.Stderr:
			to = stderr
		case stdcopy.Systemerr:
			told, err := io.ReadAll(io.LimitReader(from, min(length, limit.DaemonError.Bytes)))
			return errors.Join(fmt.Errorf("the engine says: %s", told), err)
		default:
			return fmt.Errorf("a piece of an unknown stream, %d", stream)
		}
		if _, err := io.CopyN(to, from, length); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
	}
}

// orDiscard stands for /dev/null.
func orDiscard(f *os.File) io.Writer {
	if f == nil {
		return io.Discard
	}
	return f
}

// feed passes standard input on until it ends, the payload stops reading or
// close breaks it off: the first is all that matters here.
func (s *streams) feed() {
	_, _ = io.Copy(s.conn.Conn, s.stdin)
	_ = s.conn.CloseWrite()
}

// streamGrace is how long a payload's output may lag behind its end.
const streamGrace = 10 * time.Second

// drained waits until all of the payload's output has been passed on.
func (s *streams) drained(ctx context.Context) error {
	select {
	case err := <-s.copied:
		s.copied <- nil
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("its output: %w", err)
		}
		return nil
	case <-time.After(streamGrace):
		return fmt.Errorf("its output has not ended %v after it", streamGrace)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *streams) close() {
	if s.stdin != nil {
		_ = s.stdin.SetReadDeadline(time.Now()) // a file that knows no deadlines does not block
	}
	s.conn.Close()
	s.fed.Wait()
	if s.stdin != nil {
		s.stdin.Close()
	}
	<-s.copied
}
