package vm

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/tarelab/tare/internal/limit"
)

// FuzzAgent: no bytes of a guest make the reader of its agent's frames panic or take
// a frame that is longer than the most.
func FuzzAgent(f *testing.F) {
	f.Add([]byte{frameHello, 2, 0, 0, 0, '1', '\n'})
	f.Add([]byte{frameExit, 4, 0, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{frameExit, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{frameExit, 4, 0, 0, 0, 0x7f, '0', '0', '0'}) // stopped: it was exit code -1
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &agent{in: bufio.NewReader(bytes.NewReader(data))}
		for {
			kind, frame, err := a.receive()
			if err != nil {
				return
			}
			if limit.AgentFrame.CheckBytes(int64(len(frame))) != nil {
				t.Fatalf("a frame of %d bytes", len(frame))
			}
			if exit, err := exitOf(frame); kind == frameExit && err == nil && (exit.Code < 0 || exit.Code > 255) {
				t.Fatalf("exit %+v of % x", exit, frame)
			}
		}
	})
}
