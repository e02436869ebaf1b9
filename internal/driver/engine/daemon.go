package engine

import "context"

// flavor is what tare knows of one kind of engine, as data.
type flavor struct {
	name     string
	program  string   // the daemon's
	daemons  []string // names of the processes of the user's own
	remedy   string   // how it is installed
	variable string   // of the environment: where the user's own listens
	sockets  []string // where the user's own listens otherwise
	own      *userEngine
	// runtimes: a request may name the runtime that starts the container.
	runtimes bool
	// proxy is the program that publishes ports too, for clients that rules miss; "" for none.
	proxy string
	// monitor is the group below a container's parent in which the engine puts a
	// process of its own for each container, which starts the runtime; "" for none.
	monitor string
	daemon  daemon
}

// daemon is how tare talks to an engine as a whole. Containers are the drivers'.
// Every method but command asks the engine that listens at socket.
type daemon interface {
	// command is how a private engine is started that listens at socket.
	command(e *engine, program, socket string) (daemonCommand, error)
	// answers returns an error unless an engine of this kind answers.
	answers(ctx context.Context, socket string) error
	// owners are those whose containers, networks or images the engine has, see owner.
	owners(ctx context.Context, socket string) ([]string, error)
	// removeContainers removes the owner's containers.
	removeContainers(ctx context.Context, socket, owner string) error
	// removeAll removes all that is the owner's: containers that a client had no
	// answer about, networks and images.
	removeAll(ctx context.Context, socket, owner string) error
}

// daemonCommand is how a private engine is started.
type daemonCommand struct {
	args []string
	env  []string
	// starts are the names of further daemons that it starts itself.
	starts []string
	// hideUnified: what it starts does not work where cgroup v1 and v2 are
	// mounted together. There the v2 tree is covered in its mount namespace.
	hideUnified bool
	// covers are directories in which it writes at fixed places: they get an
	// overlay of its own.
	covers []string
	// hides are directories of fixed places that it reads and writes: it gets
	// empty ones of its own, whatever the machine has there.
	hides []string
}
