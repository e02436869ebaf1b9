package net

import (
	"errors"
	"fmt"
	"net"
	"strconv"
)

// FreePort is a TCP port of the machine's own loopback that nobody listens at.
func FreePort() (port string, err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
