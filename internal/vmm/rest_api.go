package vmm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// rest is the API of a VMM that was told all it must know when it was started:
// one request says that it is ready.
type rest struct{ conn net.Conn }

// dialREST asks for path, and takes any answer of success.
func dialREST(path string) func(context.Context, net.Conn, Machine) (control, error) {
	return func(ctx context.Context, conn net.Conn, _ Machine) (control, error) {
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		defer stop()
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", path); err != nil {
			return nil, fmt.Errorf("API: %w", err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return nil, fmt.Errorf("API: GET %s: %w", path, err)
		}
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return nil, fmt.Errorf("API: GET %s: %w", path, err)
		}
		if answer.StatusCode/100 != 2 {
			return nil, fmt.Errorf("API: GET %s: %s: %s", path, answer.Status, text)
		}
		return rest{conn}, nil
	}
}

// watch has nothing to hear: these APIs tell nothing unasked.
func (r rest) watch() error {
	_, err := io.Copy(io.Discard, r.conn)
	if err == nil || Gone(err) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("API: %w", err)
}

func (r rest) close() error { return r.conn.Close() }
