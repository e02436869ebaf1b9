package vmm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// rest is the API of a VMM that was told all it must know when it was started:
// one request says that it is ready. Others save and restore a guest.
type rest struct {
	conn    net.Conn
	answers *bufio.Reader
}

// dialREST asks for path, and takes any answer of success.
func dialREST(path string) func(context.Context, net.Conn, Machine) (control, error) {
	return func(ctx context.Context, conn net.Conn, _ Machine) (control, error) {
		r := &rest{conn, bufio.NewReader(conn)}
		if err := r.request(ctx, http.MethodGet, path, nil); err != nil {
			return nil, err
		}
		return r, nil
	}
}

// request makes one request, whose body is JSON or nil, and takes any answer of success.
func (r *rest) request(ctx context.Context, method, path string, body any) error {
	stop := context.AfterFunc(ctx, func() { _ = r.conn.SetDeadline(time.Now()) })
	defer stop()
	if err := r.exchange(method, path, body); err != nil {
		return fmt.Errorf("API: %s %s: %w", method, path, err)
	}
	return nil
}

func (r *rest) exchange(method, path string, body any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	request, err := http.NewRequest(method, "http://localhost"+path, &text)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "*/*")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if err := request.Write(r.conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(r.answers, request)
	if err != nil {
		return err
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", answer.Status, said)
	}
	return nil
}

// watch has nothing to hear: these APIs tell nothing unasked.
func (r *rest) watch() error {
	_, err := io.Copy(io.Discard, r.answers)
	if err == nil || Gone(err) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("API: %w", err)
}
