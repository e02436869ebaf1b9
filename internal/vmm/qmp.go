package vmm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tarelab/tare/internal/limit"
)

// qmp is the client's side of the QEMU Machine Protocol
// (docs/interop/qmp-spec in QEMU), as far as tare needs it: the greeting, one
// command at a time, and the event that says that the guest cannot go on.
type qmp struct {
	conn    net.Conn
	lines   *bufio.Reader
	stopped bool // the guest was, and nobody has asked why
}

// message is any line that a VMM sends.
type message struct {
	Greeting *struct{} `json:"QMP"`
	Event    string    `json:"event"`
	Return   *struct {
		Status string `json:"status"`
	} `json:"return"`
	Error *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// dialQMP waits for the greeting and leaves the negotiation behind.
func dialQMP(ctx context.Context, conn net.Conn, _ Machine) (control, error) {
	q := &qmp{conn: conn, lines: bufio.NewReaderSize(conn, 16<<10)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	m, err := q.read()
	if err == nil && m.Greeting == nil {
		err = errors.New("the first line is no greeting")
	}
	if err == nil {
		_, err = q.execute("qmp_capabilities")
	}
	if err != nil {
		return nil, fmt.Errorf("QMP: %w", err)
	}
	return q, nil
}

// read is the next line.
func (q *qmp) read() (message, error) {
	var m message
	var line []byte
	for {
		piece, err := q.lines.ReadSlice('\n')
		line = append(line, piece...)
		if err := limit.MonitorLine.CheckBytes(int64(len(line))); err != nil {
			return m, err
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return m, err
		}
		break
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("%.100q is no QMP: %w", line, err)
	}
	return m, nil
}

// execute runs a command without arguments, and gives the status in its answer
// where it has one. Of events that come before the answer, STOP alone is kept.
func (q *qmp) execute(command string) (string, error) {
	if _, err := fmt.Fprintf(q.conn, "{\"execute\":%q}\r\n", command); err != nil {
		return "", err
	}
	for {
		m, err := q.read()
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", command, err)
		case m.Error != nil:
			return "", fmt.Errorf("%s: %s: %s", command, m.Error.Class, m.Error.Desc)
		case m.Return != nil:
			return m.Return.Status, nil
		}
		q.stopped = q.stopped || m.Event == "STOP"
	}
}

// watch reads events. STOP means that the guest stands still; the status says
// why (QEMU's qapi/run-state.json).
func (q *qmp) watch() error {
	for {
		if q.stopped {
			q.stopped = false
			status, err := q.execute("query-status")
			if err == nil && (status == "internal-error" || status == "io-error" || status == "guest-panicked") {
				return fmt.Errorf("the VMM stopped the guest: %s", status)
			}
			continue
		}
		m, err := q.read()
		if errors.Is(err, net.ErrClosed) || Gone(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("QMP: %w", err)
		}
		q.stopped = m.Event == "STOP"
	}
}

func (q *qmp) close() error { return q.conn.Close() }
