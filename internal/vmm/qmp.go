package vmm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
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

	asking atomic.Bool  // somebody asks while watch reads
	heard  chan message // what watch reads meanwhile, for whoever asks
	sent   atomic.Int64 // commands so far; the last one's id
}

// message is any line that a VMM sends.
type message struct {
	Greeting *struct{} `json:"QMP"`
	ID       string    `json:"id"` // of the command that it answers; "" where it answers none
	Event    string    `json:"event"`
	Data     struct {
		Info struct {
			Status int `json:"status"` // of ACPI_DEVICE_OST: 0 is success
		} `json:"info"`
	} `json:"data"`
	Return *struct {
		Status string `json:"status"`
		Actual int64  `json:"actual"`     // bytes of a guest with a balloon
		Why    string `json:"error-desc"` // of a migration that failed
	} `json:"return"`
	Error *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
}

// dialQMP waits for the greeting and leaves the negotiation behind.
func dialQMP(ctx context.Context, conn net.Conn, _ Machine) (control, error) {
	q := &qmp{conn: conn, lines: bufio.NewReaderSize(conn, 16<<10), heard: make(chan message)}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	m, err := q.read()
	if err == nil && m.Greeting == nil {
		err = errors.New("the first line is no greeting")
	}
	if err == nil {
		_, err = q.execute("qmp_capabilities", nil)
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

// execute runs a command, whose arguments may be nil, and gives the status in its answer
// where it has one. Of events that come before the answer, STOP alone is kept.
func (q *qmp) execute(command string, arguments any) (string, error) {
	id, err := q.send(command, arguments)
	if err != nil {
		return "", err
	}
	for {
		m, err := q.read()
		switch {
		case err != nil:
			return "", fmt.Errorf("%s: %w", command, err)
		case m.answersOther(id):
			q.pass(m)
		case m.Error != nil:
			return "", fmt.Errorf("%s: %s: %s", command, m.Error.Class, m.Error.Desc)
		case m.Return != nil && m.Return.Status == "failed":
			return "", fmt.Errorf("%s: failed: %s", command, m.Return.Why)
		case m.Return != nil:
			return m.Return.Status, nil
		}
		q.stopped = q.stopped || m.Event == "STOP"
	}
}

// answersOther reports whether a message is the answer to another command than that.
func (m message) answersOther(id string) bool { return m.ID != "" && m.ID != id }

// send writes a command, and gives the id that its answer will have: a string, as
// StratoVirt takes no number.
func (q *qmp) send(command string, arguments any) (id string, err error) {
	id = strconv.FormatInt(q.sent.Add(1), 10)
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        string `json:"id"`
	}{command, arguments, id})
	if err != nil {
		return id, err
	}
	_, err = q.conn.Write(append(text, "\r\n"...))
	return id, err
}

// ask is execute while watch reads, with all that the answer holds. Events that come
// before the answer are passed over. The caller has set asking.
func (q *qmp) ask(ctx context.Context, command string, arguments any) (message, error) {
	id, err := q.send(command, arguments)
	if err != nil {
		return message{}, err
	}
	for {
		select {
		case m := <-q.heard:
			if m.answersOther(id) {
				continue
			}
			if m.Error != nil {
				return m, fmt.Errorf("%s: %s: %s", command, m.Error.Class, m.Error.Desc)
			}
			if m.Return != nil {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("%s: %w", command, ctx.Err())
		}
	}
}

// pass hands a message to who asks, as long as somebody does.
func (q *qmp) pass(m message) {
	for q.asking.Load() {
		select {
		case q.heard <- m:
			return
		case <-time.After(statusPause):
		}
	}
}

// watch reads events. STOP means that the guest stands still; the status says
// why (QEMU's qapi/run-state.json).
func (q *qmp) watch() error {
	for {
		if q.stopped {
			q.stopped = false
			status, err := q.execute("query-status", nil)
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
		q.pass(m)
	}
}

// statusPause is the time between two questions for a status.
const statusPause = time.Millisecond

// await asks for a status until it is none of those.
func (q *qmp) await(ctx context.Context, command string, not ...string) (string, error) {
	for {
		status, err := q.execute(command, nil)
		if err != nil || !slices.Contains(not, status) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(statusPause):
		}
	}
}

// saveQMP pauses a guest and saves it by the migration to that address.
func (q *qmp) saveQMP(ctx context.Context, uri string) error {
	if _, err := q.execute("stop", nil); err != nil {
		return err
	}
	if _, err := q.execute("migrate", map[string]string{"uri": uri}); err != nil {
		return err
	}
	status, err := q.await(ctx, "query-migrate", "", "none", "setup", "active", "device", "None", "Setup", "Active")
	if err == nil && !strings.EqualFold(status, "completed") {
		err = fmt.Errorf("query-migrate: the guest was not saved: %s", status)
	}
	return err
}

// bounded has a channel's reads and writes end with the context.
func (q *qmp) bounded(ctx context.Context, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = q.conn.SetDeadline(time.Now()) })
	defer stop()
	return do()
}
