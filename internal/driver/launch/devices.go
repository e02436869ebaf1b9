package launch

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
)

// device is a character device that a container may use.
type device struct {
	name         string
	major, minor uint32 // minor anyMinor is all of them
}

const anyMinor = ^uint32(0)

// defaultDevices are those that runc allows (opencontainers/runc,
// libcontainer/specconv/spec_linux.go, AllowedDevices). The first six are nodes of
// each /dev; of the others its own devpts makes the nodes.
var defaultDevices = []device{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
	{"ptmx", 5, 2}, {"pts", 136, anyMinor},
}

// DeviceGuard is how the payload's cgroup keeps it from devices that are not a
// container's: it may make any node, as in runc, and open the default ones only.
type DeviceGuard struct {
	tree sys.Hierarchy
}

// FindDeviceGuard chooses among the trees in which this user may make groups: the
// eBPF program of cgroup version 2, else the controller of version 1. ok is false
// where the kernel has neither, or this user may not use it.
func FindDeviceGuard(groups sys.Hierarchies) (guard DeviceGuard, ok bool) {
	if tree, v2 := groups.Unified(); v2 && features.HaveProgramType(ebpf.CGroupDevice) == nil {
		return DeviceGuard{tree}, true
	}
	return V1DeviceGuard(groups)
}

// V1DeviceGuard is FindDeviceGuard without eBPF.
func V1DeviceGuard(groups sys.Hierarchies) (guard DeviceGuard, ok bool) {
	tree, ok := groups.With("devices")
	return DeviceGuard{tree}, ok && tree.Version == 1
}

// Tree is the cgroup tree whose group the payload must be in.
func (g DeviceGuard) Tree() sys.Hierarchy { return g.tree }

// Steps guard the group rel of the tree, which must exist when they are done. dir
// is the instance's directory, which takes the program.
func (g DeviceGuard) Steps(rel, dir string) ([]Step, error) {
	if g.tree.Version == 2 {
		file := filepath.Join(dir, "devices.bpf")
		if err := os.WriteFile(file, deviceProgram(), 0o600); err != nil {
			return nil, driver.Labf("device rules: %w", err)
		}
		return []Step{{"devices", g.tree.Dir(rel), file}}, nil
	}
	deny, allow := filepath.Join(g.tree.Dir(rel), "devices.deny"), filepath.Join(g.tree.Dir(rel), "devices.allow")
	steps := []Step{Write(deny, "a"), Write(allow, "c *:* m"), Write(allow, "b *:* m")}
	for _, d := range defaultDevices {
		minor := fmt.Sprint(d.minor)
		if d.minor == anyMinor {
			minor = "*"
		}
		steps = append(steps, Write(allow, fmt.Sprintf("c %d:%s rwm", d.major, minor)))
	}
	return steps, nil
}

// What the program reads of struct bpf_cgroup_dev_ctx (linux/bpf.h).
const (
	ctxAccessType = 0 // access in the upper half, type in the lower one
	ctxMajor      = 4
	ctxMinor      = 8
)

// deviceProgram is the program as an array of struct bpf_insn, in the machine's
// byte order. It returns 1 to allow.
func deviceProgram() []byte {
	const typ, access, major, minor = 2, 3, 4, 5 // registers
	const (
		load   = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
		move   = unix.BPF_ALU64 | unix.BPF_MOV
		and    = unix.BPF_ALU64 | unix.BPF_AND
		shift  = unix.BPF_ALU64 | unix.BPF_RSH
		isNot  = unix.BPF_JMP | unix.BPF_JNE
		equals = unix.BPF_JMP | unix.BPF_JEQ
		exit   = unix.BPF_JMP | unix.BPF_EXIT
	)
	var p bpf
	const answer = 2 // instructions
	deny := func() { p.add(move, 0, 0, 0, 0); p.add(exit, 0, 0, 0, 0) }
	allow := func() { p.add(move, 0, 0, 0, 1); p.add(exit, 0, 0, 0, 0) }
	p.add(load, typ, 1, ctxAccessType, 0)
	p.add(move|unix.BPF_X, access, typ, 0, 0)
	p.add(and, typ, 0, 0, 0xffff)
	p.add(shift, access, 0, 0, 16)
	p.add(load, major, 1, ctxMajor, 0)
	p.add(load, minor, 1, ctxMinor, 0)
	p.add(isNot, access, 0, answer, unix.BPF_DEVCG_ACC_MKNOD) // mknod(2) alone
	allow()
	p.add(equals, typ, 0, answer, unix.BPF_DEVCG_DEV_CHAR)
	deny()
	for _, d := range defaultDevices {
		if d.minor == anyMinor {
			p.add(isNot, major, 0, answer, int32(d.major))
		} else {
			p.add(isNot, major, 0, 1+answer, int32(d.major))
			p.add(isNot, minor, 0, answer, int32(d.minor))
		}
		allow()
	}
	deny()
	return p
}

// bpf is a program of the kernel's own instructions.
type bpf []byte

// add appends one struct bpf_insn { __u8 code; __u8 dst_reg:4, src_reg:4; __s16 off;
// __s32 imm; }.
func (p *bpf) add(code, to, from byte, off int16, imm int32) {
	registers := to | from<<4
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		registers = to<<4 | from
	}
	*p = append(*p, code, registers)
	*p = binary.NativeEndian.AppendUint16(*p, uint16(off))
	*p = binary.NativeEndian.AppendUint32(*p, uint32(imm))
}
