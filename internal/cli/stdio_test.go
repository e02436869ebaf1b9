package cli

import (
	"os"
	"testing"
)

// TestStandardStreamsEnd: a read of a standard input that stays open ends with Close, as it
// must when a client is given up that sshd still keeps connected.
func TestStandardStreamsEnd(t *testing.T) {
	in, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	in.Fd() // from here on it blocks, as standard input does
	s := standard(in, out)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	if _, err := held.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := s.Read(make([]byte, 1))
		ended <- err
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a read from nobody succeeded")
	}
	if _, err := s.Write([]byte("x")); err == nil {
		t.Error("a write succeeded after Close")
	}
}
