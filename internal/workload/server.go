package workload

import (
	"slices"
	"strconv"

	"github.com/tarelab/tare/internal/driver"
)

// Server returns whom a server's command runs as, and whether it is the other end of one
// of tare's own workloads: with the same arguments as with the usual parameters, but for
// numbers. A command that came from another machine is executed only then.
func Server(args []string) (as driver.User, own bool) {
	for _, w := range All() {
		values, err := Check(w.Params(), nil)
		if err != nil {
			continue
		}
		usual, err := w.Command(values, nil)
		if err != nil || len(usual.Peer) == 0 {
			continue
		}
		if slices.EqualFunc(usual.Peer, args, func(a, b string) bool { return a == b || counts(a) && counts(b) }) {
			return usual.User, true
		}
	}
	return driver.User{}, false
}

// counts reports whether an argument is a count in decimal digits.
func counts(arg string) bool {
	_, err := strconv.ParseUint(arg, 10, 32)
	return err == nil
}
