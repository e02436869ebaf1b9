package workload

import (
	"strconv"

	"github.com/tarelab/tare/internal/driver"
)

// Server returns whom a server's command runs as, and whether it is the other end of one
// of tare's own workloads: with the same arguments as with the usual parameters, but for
// numbers, which no parameter may make larger. A command that came from another machine is
// executed only then.
func Server(args []string) (as driver.User, own bool) {
	for _, w := range All() {
		usual, most := peerOf(w, nil), peerOf(w, largest(w.Params()))
		if len(usual.Peer) > 0 && len(usual.Peer) == len(most.Peer) && within(args, usual.Peer, most.Peer) {
			return usual.User, true
		}
	}
	return driver.User{}, false
}

// peerOf is a workload's command with some parameters; empty where it does not take them.
func peerOf(w Workload, given map[string]string) Command {
	values, err := Check(w.Params(), given)
	if err != nil {
		return Command{}
	}
	command, err := w.Command(values, nil)
	if err != nil {
		return Command{}
	}
	return command
}

// largest gives each number and each size its largest value.
func largest(params []Param) map[string]string {
	all := map[string]string{}
	for _, p := range params {
		if p.Type == Integer || p.Type == Size {
			all[p.Name] = strconv.FormatInt(p.Max, 10)
		}
	}
	return all
}

// within reports whether arguments are the usual ones, but for numbers up to the largest.
func within(args, usual, most []string) bool {
	if len(args) != len(usual) {
		return false
	}
	for i, arg := range args {
		if arg != usual[i] && (!atMost(usual[i], most[i]) || !atMost(arg, most[i])) {
			return false
		}
	}
	return true
}

// atMost reports whether an argument is a number in decimal digits that is not above another.
func atMost(arg, most string) bool {
	a, err := strconv.ParseUint(arg, 10, 63)
	m, wrong := strconv.ParseUint(most, 10, 63)
	return err == nil && wrong == nil && a <= m
}
