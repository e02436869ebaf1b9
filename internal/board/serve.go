package board

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"
)

//go:embed page
var files embed.FS

// Limits on those who ask.
const (
	connectionsMost = 64
	headerMost      = 16 << 10 // bytes
	answerWithin    = 10 * time.Second
	idleWithin      = 2 * time.Minute
)

// Listen listens at an address: PORT or :PORT is this machine alone, an address of all
// its networks has to be given in full. The host is an IP address or localhost.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not ADDRESS:PORT, such as 127.0.0.1:9815 or [::1]:9815", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return nil, fmt.Errorf("%q is neither an IP address nor localhost: name the address to listen at, such as 0.0.0.0:%s for all networks", host, port)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("%q is not a port: take one of 1 to 65535, or 0 for any that is free", port)
	} else if n == 0 {
		port = "0"
	}
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// Local reports whether only this machine can reach the listener.
func Local(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// Serve answers until ctx is cancelled, which is no error.
func Serve(ctx context.Context, l net.Listener, b *Board) error {
	server := &http.Server{
		Handler: b.Handler(Local(l)), ErrorLog: log.New(io.Discard, "", 0), // what strangers send fills no log
		ReadTimeout: answerWithin, WriteTimeout: answerWithin, IdleTimeout: idleWithin, MaxHeaderBytes: headerMost,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // it only closes connections
	defer stop()
	if err := server.Serve(netutil.LimitListener(l, connectionsMost)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the watch: %w", err)
	}
	return nil
}

// Handler answers /, the page; /metrics, OpenMetrics; and /readings, what the page asks
// for. Local says that only this machine can reach it: then a name that a stranger's page
// has pointed at this machine (DNS rebinding) is refused.
func (b *Board) Handler(local bool) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /metrics", b.serveMetrics)
	mux.HandleFunc("GET /readings", b.serveReadings)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		if local && !namesThisMachine(r.Host) {
			http.Error(w, "name this machine by its address, or as localhost", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// protect keeps other pages from reading answers, and this one from loading anything else.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

func namesThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil
}

func (b *Board) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	var out bytes.Buffer
	if err := b.openMetrics(&out); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
	_, _ = w.Write(out.Bytes()) // whoever asked may have gone
}

func (b *Board) serveReadings(w http.ResponseWriter, r *http.Request) {
	after := -1.
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseFloat(text, 64); err != nil {
			http.Error(w, "after is not a number of seconds", http.StatusBadRequest)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(b.after(after)) // whoever asked may have gone
}
