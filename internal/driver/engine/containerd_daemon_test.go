package engine

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// fullOnce is a connection of which one write fails, and no read.
type fullOnce struct {
	net.Conn
	full *atomic.Bool
}

func (c fullOnce) Write(b []byte) (int, error) {
	if c.full.Swap(false) {
		return 0, syscall.ENOBUFS
	}
	return c.Conn.Write(b)
}

// A call whose connection cannot be written to any more ends: gRPC by itself retries it
// for ever on the same connection.
func TestAFailedWriteEndsTheConnection(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "") }))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	var full atomic.Bool
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			c, err := dialContainerd(ctx, address)
			if err != nil {
				return nil, err
			}
			c = closedByAWrite{fullOnce{c, &full}}
			return c, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	call := func() codes.Code {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return status.Code(c.Invoke(ctx, "/none/none", &emptypb.Empty{}, &emptypb.Empty{}))
	}
	if code := call(); code != codes.Unimplemented {
		t.Fatalf("before: %v", code)
	}
	full.Store(true)
	if code := call(); code == codes.DeadlineExceeded {
		t.Errorf("the write that fails: %v", code)
	}
	if code := call(); code != codes.Unimplemented {
		t.Errorf("after: %v", code)
	}
}
