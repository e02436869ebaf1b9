package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"
)

// userEngine is the user's own engine of one kind. It is looked for once, because an
// engine that hangs costs the whole time limit, and because all drivers must use the
// same one.
type userEngine struct {
	mu     sync.Mutex
	looked bool
	socket string // "" where none answers
	err    error
	unused string // why the engines at the usual sockets are not used; "" for nothing
}

// sockets are the paths at which the user's own engine listens, unless a variable names
// another. For users other than root, $XDG_RUNTIME_DIR comes first, where engines
// without root listen.
func sockets(root bool, rootless, usual string) []string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if root || dir == "" {
		return []string{usual}
	}
	return []string{filepath.Join(dir, rootless), usual}
}

// userEngineTime bounds how long the user's own engine may take to answer, on a real CPU.
const userEngineTime = 3 * time.Second

// userSocket returns the socket of the user's own engine, or "" where none answers. It
// is an error if the engine that the user has named does not answer.
func (e *engine) userSocket(ctx context.Context) (string, error) {
	o := e.flavor.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looked {
		return o.socket, o.err
	}
	socket, unused, err := e.look(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err() // of the caller's time, not of the engine
	}
	o.looked, o.socket, o.unused, o.err = true, socket, unused, err
	return socket, err
}

// unused says why the engines at the usual sockets are not used; "" for nothing.
func (e *engine) unused() string {
	o := e.flavor.own
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.unused
}

// userEngineKnows reports whether the user's own engine would be used and knows a
// runtime of that name.
func (e *engine) userEngineKnows(ctx context.Context, runtime string) bool {
	if e.lab.PrivateEngines {
		return false
	}
	socket, err := e.userSocket(ctx)
	if err != nil || socket == "" {
		return false
	}
	c, err := connect(socket)
	if err != nil {
		return false
	}
	defer c.Close()
	info, err := c.Info(ctx, client.InfoOptions{})
	_, known := info.Info.Runtimes[runtime]
	return err == nil && known
}

// look finds the user's own engine.
func (e *engine) look(ctx context.Context) (socket, unused string, err error) {
	answers := func(socket string) error {
		ctx, cancel := context.WithTimeout(ctx, e.lab.AtMost(userEngineTime))
		defer cancel()
		return e.flavor.daemon.answers(ctx, socket)
	}
	if host := os.Getenv(e.flavor.variable); host != "" {
		socket := strings.TrimPrefix(host, "unix://")
		if !filepath.IsAbs(socket) {
			return "", "", e.cannot("unset it, or use --private-engines", "%s=%s is no unix:// socket, and an engine elsewhere cannot be weighed here", e.flavor.variable, host)
		}
		if err := answers(socket); err != nil {
			return "", "", e.cannot("unset it, or use --private-engines", "at %s=%s: %v", e.flavor.variable, host, err)
		}
		return socket, "", nil
	}
	var why []string
	for _, socket := range e.flavor.sockets {
		info, err := os.Stat(socket)
		switch {
		case errors.Is(err, fs.ErrPermission):
		case err != nil, info.Mode()&os.ModeSocket == 0:
			continue // nobody's
		default:
			if err = answers(socket); err == nil {
				return socket, "", nil
			}
		}
		why = append(why, err.Error())
	}
	return "", strings.Join(why, "; "), nil
}
