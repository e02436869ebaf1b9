package engine

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// streamingServer takes one connection, reads its request, and hands it on.
func streamingServer(t *testing.T) (url string, asked <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	taken := make(chan net.Conn, 1)
	go func() {
		defer close(taken)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			taken <- conn
		}
	}()
	return "http://" + l.Addr().String() + "/attach/x", taken
}

// A streaming server that takes the request and is silent is left with the context.
func TestSilentStreamingServer(t *testing.T) {
	url, asked := streamingServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn := <-asked
		cancel()
		if conn != nil {
			_, _ = io.Copy(io.Discard, conn) // until it is left
			conn.Close()
		}
	}()
	if _, err := upgrade(ctx, url, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The context that ends after the upgrade does not cut the connection.
func TestStreamsOutliveTheirUpgrade(t *testing.T) {
	url, asked := streamingServer(t)
	there := make(chan net.Conn, 1)
	go func() {
		conn := <-asked
		if conn != nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		}
		there <- conn
	}()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := upgrade(ctx, url, "")
	cancel()
	server := <-there
	if err != nil || server == nil {
		t.Fatal(err)
	}
	defer server.Close()
	defer conn.Close()
	// CreateStream would wait for an answer; its request alone has to arrive.
	go func() { _, _ = conn.CreateStream(http.Header{"streamType": {"error"}}) }()
	if _, err := io.ReadFull(server, make([]byte, 8)); err != nil {
		t.Errorf("the connection was cut: %v", err)
	}
}
