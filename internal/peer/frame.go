// Package peer lets one machine's tare start far ends on another machine: the protocol
// between the two, which tare serve answers and tare run --peer asks. Nothing is read of
// a stranger beyond TLS, no command is taken from the other side, and what one side
// started ends when the other does not answer any more.
package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/hostinfo"
	"github.com/tarelab/tare/internal/limit"
)

// Protocol is the version of the messages. Two sides of different versions refuse each
// other.
const Protocol = 2

// kind says what a message is.
type kind string

// The kinds. Requests have a number, which their answer repeats.
const (
	kindHello kind = "hello" // the first one, of both sides
	kindAsk   kind = "ask"   // is the other side there: request
	kindProve kind = "prove" // prove a target: request
	kindStart kind = "start" // start a far end: request
	kindStop  kind = "stop"  // stop one: request
	kindDone  kind = "done"  // answer
	kindEnded kind = "ended" // a far end has ended by itself
)

// message is what travels, as a JSON text behind its length.
type message struct {
	Kind    kind           `json:"kind"`
	Number  uint64         `json:"number,omitempty"`
	Hello   *Facts         `json:"hello,omitempty"`
	Target  string         `json:"target,omitempty"` // to prove
	Facts   *driver.Facts  `json:"facts,omitempty"`  // of that target
	End     *driver.FarEnd `json:"end,omitempty"`    // to start
	ID      string         `json:"id,omitempty"`     // of the far end that is stopped, or has ended
	Address netip.Addr     `json:"address,omitzero"` // of the far end that was started
	Port    string         `json:"port,omitempty"`   // at which it listens
	Tunnel  *driver.Tunnel `json:"tunnel,omitempty"` // to it
	Error   *failure       `json:"error,omitempty"`
}

// Facts are what a side tells of itself before anything else.
type Facts struct {
	Protocol int           `json:"protocol"`
	Tool     string        `json:"tool"`              // tare's version
	Image    string        `json:"image"`             // digest of its workbench
	Host     hostinfo.Host `json:"host"`              // the machine
	Address  string        `json:"address,omitempty"` // at which the other side reaches it, where that cannot be seen from the connection
}

// failure is an error as it travels: with whose fault it is.
type failure struct {
	Text   string              `json:"text"`
	Lab    bool                `json:"laboratory,omitempty"`
	Cannot *driver.CannotError `json:"cannot,omitempty"`
}

// textMost is how many bytes of an error travel.
const textMost = 4 << 10

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error(), Lab: driver.IsLab(err)}
	if len(f.Text) > textMost {
		f.Text = f.Text[:textMost] + " ..."
	}
	errors.As(err, &f.Cannot)
	return f
}

// error is the failure as this side's drivers return errors.
func (f *failure) error() error {
	switch {
	case f == nil:
		return nil
	case f.Cannot != nil:
		return f.Cannot
	case f.Lab:
		return driver.Labf("on the other machine: %s", f.Text)
	}
	return fmt.Errorf("on the other machine: %s", f.Text)
}

// lengthBytes is how long the length before a message is.
const lengthBytes = 4

// write sends a message.
func write(to io.Writer, m message) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = limit.PeerMessage.CheckBytes(int64(len(text)))
	}
	if err != nil {
		return fmt.Errorf("message %q: %w", m.Kind, err)
	}
	_, err = to.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, lengthBytes+len(text)), uint32(len(text))), text...))
	return err
}

// read receives a message. The room for it grows with what arrives, not with the length
// that is announced.
func read(from io.Reader) (message, error) {
	var m message
	var length [lengthBytes]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return m, err
	}
	n := int64(binary.BigEndian.Uint32(length[:]))
	if err := limit.PeerMessage.CheckBytes(n); err != nil {
		return m, fmt.Errorf("%w: it begins with %q, which is not a message of tare", err, length)
	}
	text, err := io.ReadAll(io.LimitReader(from, n))
	if err == nil && int64(len(text)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = limit.PeerMessage.CheckJSON(text)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return message{}, fmt.Errorf("message of the other machine: %w", err)
	}
	return m, nil
}
