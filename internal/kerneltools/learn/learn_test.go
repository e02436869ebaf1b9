package learn

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kbuild"
	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/limit"
)

// told is a trace in the words of Linux 6.1, in small.
const told = `@@ release
6.1.0-56-cloud-amd64
@@ times
20.50 33.10 41.35
@@ exit
0
@@ said
it went well
@@ lacks
events/tare/clone3/enable
@@ modules
name: vxlan
filename:       /lib/modules/6.1.0-56-cloud-amd64/kernel/drivers/net/vxlan/vxlan.ko
alias:          rtnl-link-vxlan
depends:        udp_tunnel,ip6_udp_tunnel
name: udp_tunnel
filename:       /lib/modules/6.1.0-56-cloud-amd64/kernel/net/ipv4/udp_tunnel.ko
depends:        
name: away
filename:       /root/../etc/lib/modules/6.1/kernel/../../passwd.ko
@@ devnames
fuse fuse c10:229
@@ hist sys_enter
{ id:         41, common_pid: dockerd         [       412] } hitcount:          3
{ id:        240, common_pid: test, [1] x     [       900] } hitcount:          1
{ id:        321, common_pid: runc            [       901] } hitcount:          7
    Dropped: 12
@@ hist sys_exit
{ id:        321 } hitcount:          7
@@ hist sys_enter_socket
{ family:         16, protocol:         12, common_pid: iptables        [       950] } hitcount:          1
{ family:         38, protocol:          0, common_pid: ip              [       950] } hitcount:          1
@@ hist sys_enter_clone
{ clone_flags: 60020011, common_pid: runc            [       901] } hitcount:          1
@@ hist sys_enter_unshare
@@ trace
              ip-960     [001] .....    38.100000: module_request: rtnl-link-vxlan wait=1 call_site=rtnl_newlink+0x1 
        modprobe-961     [000] .....    38.200000: module_load: udp_tunnel 
        modprobe-961     [000] .....    38.300000: module_load: vxlan 
     docker-init-970     [000] .....    38.400000: mount: (syscalls.sys_enter_mount) type="mqueue"
     docker-init-970     [000] .....    38.400000: mount: (syscalls.sys_enter_mount) type=(fault)
     docker-init-970     [000] .....    38.400000: mount: (syscalls.sys_enter_mount) type="mqueue.sub"
     docker-init-970     [000] .....    38.400000: mount: (syscalls.sys_enter_mount) type=".none"
            runc-971     [000] .....    38.500000: open: (syscalls.sys_enter_openat) file="/proc/4711/ns/net"
            runc-971     [000] .....    38.500000: open: (syscalls.sys_enter_openat) file="/dev/fuse"
            runc-971     [000] .....    38.500000: tracing_mark_write: tare: the command begins
@@ config
CONFIG_VXLAN=m
CONFIG_POSIX_MQUEUE=y
CONFIG_NETFILTER_NETLINK=y
CONFIG_PID_NS=y
CONFIG_NET_NS=y
CONFIG_NAMESPACES=y
CONFIG_BRIDGE=y
@@ initcalls
[   38.3] initcall vxlan_init_module+0x0/0x1000 [vxlan] returned 0 after 1234 usecs
@@ functions
ffffffff81000000 T _stext
ffffffff81000100 T __x64_sys_read
ffffffff81000200 W __x64_sys_kexec_load
ffffffff81000300 t tracing_mark_write
ffffffff81000400 t tracing_mark_raw_write
ffffffff81000500 t br_add_if.isra.0
ffffffff81000600 t shared
ffffffffc0000000 t vxlan_xmit [vxlan]
@@ end
`

var source = Source{
	Definitions: kbuild.Definitions{
		Functions: map[string][]kbuild.Origin{"br_add_if": {{Object: "net/bridge/br_if.o", Symbol: "BRIDGE", Known: true}},
			"shared": {{Object: "a.o", Symbol: "A", Known: true}, {Object: "b.o", Symbol: "B", Known: true}}},
		Calls:       map[string][]kbuild.Origin{"mq_open": {{Object: "ipc/mqueue.o", Symbol: "POSIX_MQUEUE", Known: true}}, "bpf": {{Object: "kernel/bpf/syscall.o", Symbol: "BPF_SYSCALL", Known: true}}},
		FileSystems: map[string][]kbuild.Origin{"mqueue": {{Object: "ipc/mqueue.o", Symbol: "POSIX_MQUEUE", Known: true}}},
	},
	Objects: map[string]kbuild.Origin{"drivers/net/vxlan/vxlan.o": {Object: "drivers/net/vxlan/vxlan.o", Symbol: "VXLAN", Known: true},
		"net/ipv4/udp_tunnel.o": {Object: "net/ipv4/udp_tunnel.o", Symbol: "NET_UDP_TUNNEL", Known: true}},
	Entries: map[int]string{41: "socket", 240: "mq_open", 321: "bpf"},
	Asked:   map[string]bool{"VXLAN": true, "POSIX_MQUEUE": true, "NETFILTER_NETLINK": true, "PID_NS": true, "NET_NS": true, "NAMESPACES": true, "BRIDGE": true, "BPF_SYSCALL": true, "CRYPTO_USER_API": true},
}

func parsed(t *testing.T) *Observed {
	t.Helper()
	o, err := Parse([]byte(told))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParse(t *testing.T) {
	o := parsed(t)
	if o.Release != "6.1.0-56-cloud-amd64" || o.Exit != 0 || o.Seconds != 8.25 || o.Up != 20.5 || o.Said != "it went well" {
		t.Errorf("%+v", o)
	}
	if len(o.Modules) != 3 || o.Modules[2].Name != "vxlan" || o.Modules[2].By != "modprobe" || !slices.Equal(o.Modules[2].Aliases, []string{"rtnl-link-vxlan"}) {
		t.Errorf("modules %+v", o.Modules)
	}
	if o.Modules[0].Object != "" {
		t.Errorf("a module outside of the kernel's directory has the object %q", o.Modules[0].Object)
	}
	if want := []Call{{41, "dockerd", 3}, {240, "test, [1] x", 1}, {321, "runc", 7}}; !slices.Equal(o.Calls, want) {
		t.Errorf("calls %+v", o.Calls)
	}
	if want := []Use{{"/dev/fuse", "runc", 1}, {"/proc/N/ns/net", "runc", 1}}; !slices.Equal(o.Opened, want) {
		t.Errorf("opened %+v", o.Opened)
	}
	if want := []Use{{"CLONE_NEWNET", "runc", 1}, {"CLONE_NEWNS", "runc", 1}, {"CLONE_NEWPID", "runc", 1}}; !slices.Equal(o.Namespaces, want) {
		t.Errorf("namespaces %+v", o.Namespaces)
	}
	if !slices.Equal(o.Syscalls, []string{"read"}) {
		t.Errorf("system calls that the kernel has: %v", o.Syscalls)
	}
	if want := []Initcall{{"vxlan_init_module", "vxlan", 1234}}; !slices.Equal(o.Initcalls, want) {
		t.Errorf("initcalls %+v", o.Initcalls)
	}
	if len(o.Warnings) != 2 || !strings.Contains(o.Warnings[0], "clone3") || !strings.Contains(o.Warnings[1], "Dropped: 12") {
		t.Errorf("warnings %q", o.Warnings)
	}
}

// TestNoPaths: where a kernel shows no opened path, a warning says so.
func TestNoPaths(t *testing.T) {
	o, err := Parse([]byte(strings.ReplaceAll(strings.ReplaceAll(told, `file="`, `file=(fault) "`), "/dev/", "")))
	if err != nil || !strings.Contains(strings.Join(o.Warnings, " "), "no path that was opened") {
		t.Errorf("%v, %q", err, o.Warnings)
	}
}

// TestCode: what ran before the command is no news, nor is what runs after it.
func TestCode(t *testing.T) {
	o := parsed(t)
	o.Code([]uint64{0xffffffff81000100, 0xffffffff81000300, 0xffffffff81000510, 0xffffffff81000100, 0xffffffffc0000004, 0xdead, 0xffffffff81000400, 0xffffffff81000600})
	if want := []Function{{Name: "br_add_if.isra.0"}, {Name: "vxlan_xmit", Module: "vxlan"}}; !slices.Equal(o.Functions, want) {
		t.Errorf("%+v, want %+v", o.Functions, want)
	}
	o = parsed(t)
	if o.Code(nil); len(o.Functions) != 0 || !strings.Contains(strings.Join(o.Warnings, " "), "functions are missing") {
		t.Errorf("without code: %+v, %q", o.Functions, o.Warnings)
	}
}

func TestPropose(t *testing.T) {
	o := parsed(t)
	o.Code([]uint64{0xffffffff81000300, 0xffffffff81000500, 0xffffffff81000600})
	p := Propose(o, source, []kconfig.Want{{Symbol: "NET_NS", Need: "namespaces"}, {Symbol: "PID_NS", Optional: true, Need: "weak"}})
	type row struct {
		symbol, need string
		optional     bool
	}
	var got []row
	for _, s := range p.Symbols {
		got = append(got, row{s.Symbol, s.Need, s.Optional})
	}
	// bpf was refused by the kernel, CRYPTO_USER_API was off in it, NET_UDP_TUNNEL follows
	// from VXLAN, and the function "shared" is of two objects.
	want := []row{{"NAMESPACES", "", false}, {"POSIX_MQUEUE", "", false}, {"VXLAN", "", false},
		{"BRIDGE", "", true}, {"NETFILTER_NETLINK", "", true}, {"NET_NS", "namespaces", false}, {"PID_NS", "weak", false}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	vxlan := p.Symbols[slices.IndexFunc(p.Symbols, func(s Symbol) bool { return s.Symbol == "VXLAN" })]
	if len(vxlan.Reasons) != 1 || vxlan.Reasons[0].Seen != "the module vxlan was loaded, which the kernel asked for as rtnl-link-vxlan for ip" ||
		!strings.Contains(vxlan.Reasons[0].Rule, "drivers/net/vxlan/vxlan.o") {
		t.Errorf("reasons %+v", vxlan.Reasons)
	}
	if !slices.Contains(p.Unknown, "the module away, whose object no Makefile names") {
		t.Errorf("unknown %q", p.Unknown)
	}
	need, err := kconfig.ParseNeed(p.YAML(Header{ID: "mine", Command: "docker \"run\"\n\\x", Release: o.Release, Includes: []string{"docker"}}))
	if err != nil || len(need.Wants) != 5 || need.Wants[2].Symbol != "VXLAN" || need.Wants[3].Symbol != "BRIDGE" || !need.Wants[3].Optional {
		t.Errorf("%+v, %v", need, err)
	}
}

// TestNothingNew: a need without symbols of its own is one still, by what it includes.
func TestNothingNew(t *testing.T) {
	p := Proposal{}
	need, err := kconfig.ParseNeed(p.YAML(Header{ID: "mine", Command: "true", Release: "6.1", Includes: []string{"docker"}}))
	if err != nil || !slices.Equal(need.Includes, []string{"docker"}) {
		t.Errorf("%+v, %v", need, err)
	}
}

// TestNotTold: a guest that does not say how the command went has not run it.
func TestNotTold(t *testing.T) {
	var failed *FailedError
	for name, text := range map[string]string{
		"nothing": "", "cut short": told[:len(told)-8], "an image": "@@ failed\ndocker load: no space left\n@@ end\n",
		"a wrong exit": strings.Replace(told, "@@ exit\n0", "@@ exit\nlate", 1),
	} {
		if _, err := Parse([]byte(text)); !errors.As(err, &failed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScript is sound shell, and takes what a command's words hold.
func TestScript(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	run := Run{Command: []string{"echo", "it's", "$HOME", "a  b\n"}, Images: []string{"a.tar", "b.oci"}, Traced: true}
	text := run.Script()
	check := exec.Command(shell, "-n")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head, _, _ := strings.Cut(text, "#!")
	head, _, _ = strings.Cut(head, "# trace:")
	out, err := exec.Command(shell, "-c", "files=/\n"+head+"workload; echo \"$images\"").Output()
	if err != nil || string(out) != "it's $HOME a  b\n\na.tar b.oci\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(told))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o *Observed
		if over := limit.ErrandText.CheckAlloc(func() {
			var err error
			if o, err = Parse(text); err != nil {
				o = nil
			}
		}); over != nil {
			t.Error(over)
		}
		if o == nil {
			return
		}
		p := Propose(o, source, nil)
		if _, err := kconfig.ParseNeed(p.YAML(Header{ID: "mine", Command: o.Said, Release: o.Release, Includes: []string{"docker"}})); err != nil {
			t.Errorf("the need cannot be read: %v\n%s", err, p.YAML(Header{ID: "mine"}))
		}
	})
}

// captured is a trace of two containers with a VXLAN tunnel between them, on Debian's
// Linux 6.1 (without its functions), and what that kernel's source said of it.
func captured(t *testing.T) (*Observed, Source) {
	t.Helper()
	file, err := os.Open("testdata/overlay.trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	o, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var s Source
	said, err := os.ReadFile("testdata/overlay.source.json")
	if err == nil {
		err = json.Unmarshal(said, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o, s
}

// TestCaptured: of a real run with a tunnel, its module is what the needs of Docker do not
// ask for; the modules that it depends on follow from it.
func TestCaptured(t *testing.T) {
	o, s := captured(t)
	base, err := kconfig.Collect([]string{"docker", "nftables", "ext4", "systemd", "virtio-pci"}, func(id string) (*kconfig.Need, error) {
		text, err := os.ReadFile("../../../needs/" + id + ".yaml")
		if err != nil {
			return nil, err
		}
		return kconfig.ParseNeed(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	p := Propose(o, s, base)
	var news, covered []string
	for _, x := range p.Symbols {
		if x.Need == "" {
			news = append(news, x.Symbol)
		} else {
			covered = append(covered, x.Symbol)
		}
	}
	if want := []string{"VXLAN"}; !slices.Equal(news, want) {
		t.Errorf("news %q, want %q", news, want)
	}
	if seen := p.Symbols[0].Reasons[0].Seen; seen != "the module vxlan was loaded, which the kernel asked for as rtnl-link-vxlan for ip" {
		t.Errorf("VXLAN: %s", seen)
	}
	for _, want := range []string{"OVERLAY_FS", "NET_NS", "PID_NS", "SECCOMP", "BPF_SYSCALL", "POSIX_MQUEUE", "FUTEX", "RSEQ"} {
		if !slices.Contains(covered, want) {
			t.Errorf("%s was not seen, or no need asks for it: %q", want, covered)
		}
	}
	if len(p.Unknown) > 0 || len(o.Warnings) > 0 {
		t.Errorf("unknown %q, warnings %q", p.Unknown, o.Warnings)
	}
	// clone3 was refused by the containers' filter, and answered elsewhere.
	if o.Refused[435] == 0 || !slices.Contains(p.Entries, "clone3") || len(o.Initcalls) != 2 {
		t.Errorf("refused %v, initcalls %v", o.Refused, o.Initcalls)
	}
}

// TestMountTypes: of a type the kernel takes what stands before its dot.
func TestMountTypes(t *testing.T) {
	o, err := Parse([]byte(told))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range o.Mounts {
		if m.Name == "" || strings.Contains(m.Name, ".") {
			t.Errorf("a mount of %q", m.Name)
		}
	}
	if len(o.Mounts) == 0 {
		t.Error("no mounts")
	}
}
