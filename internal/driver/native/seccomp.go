package native

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	profile "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	filter "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
)

// writeProfile compiles Docker's default seccomp profile, for a process with the
// named capabilities, into the array of struct sock_filter that the launcher
// loads.
func writeProfile(file string, capabilities []string) error {
	policy, err := policyFor(capabilities)
	if err != nil {
		return err
	}
	program, err := policy.Assemble()
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	var code []byte
	for _, r := range raw { // struct sock_filter { __u16 code; __u8 jt, jf; __u32 k; }
		code = binary.NativeEndian.AppendUint16(code, r.Op)
		code = append(code, r.Jt, r.Jf)
		code = binary.NativeEndian.AppendUint32(code, r.K)
	}
	return os.WriteFile(file, code, 0o600)
}

// policyFor translates the profile: other ABIs of the machine (32-bit, x32) are
// refused, which Docker allows; no static payload of this laboratory uses them.
func policyFor(capabilities []string) (filter.Policy, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return filter.Policy{}, err
	}
	if len(machine.SyscallNames) == 0 {
		return filter.Policy{}, fmt.Errorf("there is no table of system calls for %s", machine.Name)
	}
	rules, err := profile.GetDefaultProfile(&specs.Spec{Process: &specs.Process{
		Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
	if err != nil {
		return filter.Policy{}, err
	}
	policy := filter.Policy{DefaultAction: filter.ActionErrno}
	if rules.DefaultAction != specs.ActErrno || rules.DefaultErrnoRet != nil && *rules.DefaultErrnoRet != uint(unix.EPERM) {
		return policy, fmt.Errorf("the profile's default action is %s, not EPERM", rules.DefaultAction)
	}
	for _, rule := range rules.Syscalls {
		group, err := groupFor(rule, machine)
		if err != nil {
			return policy, err
		}
		policy.Syscalls = append(policy.Syscalls, group)
	}
	return policy, nil
}

// groupFor translates one rule, without the names that this machine's kernel
// never had.
func groupFor(rule specs.LinuxSyscall, machine *arch.Info) (filter.SyscallGroup, error) {
	var group filter.SyscallGroup
	switch rule.Action {
	case specs.ActAllow:
		group.Action = filter.ActionAllow
	case specs.ActErrno:
		group.Action = filter.ActionErrno
		if rule.ErrnoRet != nil {
			group.Action |= filter.Action(*rule.ErrnoRet)
		}
	default:
		return group, fmt.Errorf("the profile has a rule with action %s", rule.Action)
	}
	var conditions filter.ArgumentConditions
	for _, a := range rule.Args {
		c, err := conditionFor(a)
		if err != nil {
			return group, err
		}
		conditions = append(conditions, c)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(rule.Names))) {
		if _, known := machine.SyscallNames[name]; !known {
			continue
		}
		if len(conditions) == 0 {
			group.Names = append(group.Names, name)
		} else {
			group.NamesWithCondtions = append(group.NamesWithCondtions, filter.NameWithConditions{Name: name, Conditions: conditions})
		}
	}
	return group, nil
}

func conditionFor(a specs.LinuxSeccompArg) (filter.Condition, error) {
	c := filter.Condition{Argument: uint32(a.Index), Value: a.Value}
	switch {
	case a.Op == specs.OpEqualTo:
		c.Operation = filter.Equal
	case a.Op == specs.OpNotEqual:
		c.Operation = filter.NotEqual
	case a.Op == specs.OpMaskedEqual && a.ValueTwo == 0:
		c.Operation = filter.BitsNotSet // (argument & Value) == 0
	default:
		return c, fmt.Errorf("the profile compares an argument by %s with %#x, %#x", a.Op, a.Value, a.ValueTwo)
	}
	return c, nil
}
