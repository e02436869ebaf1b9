// Package learn says what a command uses of a kernel, by a trace of its run in a
// machine, and proposes needs of it. It is pure: the trace is text, and where the
// kernel's code stands is asked of a Source.
package learn

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// script traces a command.
//
//go:embed trace.sh
var script string

// A Run is a command to be run in a machine.
type Run struct {
	Command []string // its words, or one line for /bin/sh
	Images  []string // names of archives among the errand's files, which the engine loads first
	Traced  bool
}

// Script is what the machine runs.
func (r Run) Script() string {
	var b strings.Builder
	fmt.Fprintf(&b, "images=%s\n", quoted(strings.Join(r.Images, " ")))
	if r.Traced {
		b.WriteString("traced=yes\n")
	}
	line := r.Command[0]
	if len(r.Command) > 1 {
		words := make([]string, len(r.Command))
		for i, w := range r.Command {
			words[i] = quoted(w)
		}
		line = strings.Join(words, " ")
	}
	fmt.Fprintf(&b, "workload() {\ncd \"$files\" 2>/dev/null || cd /\n%s\n}\n", line)
	return b.String() + script
}

// quoted is a word as the shell takes it.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// Parameters are those of a kernel that is traced: it logs the initcalls of modules,
// and its code is where kallsyms says.
var Parameters = []string{"initcall_debug", "log_buf_len=4M", "nokaslr"}

// An Observed is what a trace shows of one run of a command. All of it was said by a
// guest, and is bounded and checked for its form alone.
type Observed struct {
	Release    string      `json:"release"`
	Up         float64     `json:"up"`      // seconds from the guest's start until its engine was up
	Seconds    float64     `json:"seconds"` // of the command, by the guest's clock
	Exit       int         `json:"exit"`
	Said       string      `json:"said,omitempty"` // the end of what the command printed
	Modules    []Module    `json:"modules,omitempty"`
	Present    []Module    `json:"present,omitempty"`  // loaded before, without who asked for them
	Requests   []Request   `json:"requests,omitempty"` // of the kernel, for modules
	Calls      []Call      `json:"calls,omitempty"`
	Refused    map[int]int `json:"refused,omitempty"` // how often a system call ended as one that the kernel does not have
	Sockets    []Socket    `json:"sockets,omitempty"`
	Mounts     []Use       `json:"mounts,omitempty"`     // types of file systems
	Opened     []Use       `json:"opened,omitempty"`     // paths below /dev, /proc and /sys
	Namespaces []Use       `json:"namespaces,omitempty"` // flags, as CLONE_NEWNET
	Initcalls  []Initcall  `json:"initcalls,omitempty"`  // of modules
	DevNames   []DevName   `json:"devnames,omitempty"`
	Functions  []Function  `json:"functions,omitempty"` // that the command was the first to reach
	Syscalls   []string    `json:"syscalls,omitempty"`  // entries of all system calls that the kernel has
	Warnings   []string    `json:"warnings,omitempty"`

	Config  *kconfig.Config `json:"-"` // the kernel's; nil where the guest does not have it
	symbols symbolTable     // of the kernel, for addresses
}

// A Module is one of the kernel's that is loaded.
type Module struct {
	Name    string   `json:"name"`
	Object  string   `json:"object"` // below the kernel tree's root, as drivers/net/vxlan/vxlan.o; "" where it is not known
	By      string   `json:"by,omitempty"`
	Aliases []string `json:"aliases,omitempty"` // that requests named
	Depends []string `json:"depends,omitempty"`
}

// A Request is a module that the kernel asked for.
type Request struct {
	Alias string `json:"alias"`
	By    string `json:"by"` // the process for which it did
}

// A Call is a system call of a process.
type Call struct {
	Number int    `json:"number"`
	By     string `json:"by"`
	Count  int    `json:"count"`
}

// A Socket is one that a process asked for.
type Socket struct {
	Family   int    `json:"family"`
	Protocol int    `json:"protocol"`
	By       string `json:"by"`
}

// A Use is a thing by its name, with a process that used it.
type Use struct {
	Name  string `json:"name"`
	By    string `json:"by"`
	Count int    `json:"count"`
}

// An Initcall is a module's.
type Initcall struct {
	Name   string `json:"name"`
	Module string `json:"module"`
	Micros int    `json:"micros"`
}

// A DevName is a device whose opening loads a module.
type DevName struct {
	Module string `json:"module"`
	Name   string `json:"name"` // below /dev
}

// A Function is one of the kernel's.
type Function struct {
	Name   string `json:"name"`
	Module string `json:"module,omitempty"` // "" for one that is built in
}
