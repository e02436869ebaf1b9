package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/sys"
	"github.com/tarelab/tare/internal/vmm"
)

// proof is what was found of KVM with one machine type of a VMM and one kernel.
type proof struct {
	Accel vmm.Accel `json:"accel"`
	Why   string    `json:"why,omitempty"`  // why not KVM
	Deaf  string    `json:"deaf,omitempty"` // what the agent said of its channels, where it reached user mode and found none
	// Until is the mark at which boots under KVM end, vmm.MarkInit: the kernel comes up
	// and no user mode runs. "" where a guest runs, and where its kernel does not come up.
	Until vmm.Mark  `json:"until,omitempty"`
	When  time.Time `json:"when"`
}

// failureHolds is how long a proof that failed is believed: what stood in the way
// may have been a moment's load, and is not asked again at every run.
const failureHolds = time.Hour

// holds reports whether the proof need not be made again.
func (p proof) holds() bool {
	return p.Accel == vmm.KVM && p.Deaf == "" || p.Accel != "" && time.Since(p.When) < failureHolds
}

// acceleration is KVM where a guest was seen to boot with it since this boot of the
// host; else TCG, with the reason. For a VMM without TCG it is KVM with proof.Until where
// at least a kernel comes up, else a CannotError. That no guest boots with it is believed
// for failureHolds. A guest that runs under KVM and finds no channel is a CannotError, too:
// it would find none under TCG.
func (h *home) acceleration(ctx context.Context, d *Driver, path string, g guestKernel) (proof, error) {
	if h.arch != runtime.GOARCH {
		return proof{Accel: vmm.TCG, Why: "the guest's CPU is " + h.arch}, nil
	}
	p, err := h.proof(ctx, d, path, g)
	switch {
	case err != nil:
		return proof{}, err
	case p.Deaf != "":
		return p, d.Cannot(h.remedy(d), "kernel %s finds no channel on %s: %s", g.kernel.Version, d.vmm.Name, p.Deaf)
	case p.Accel == vmm.KVM:
		return p, nil
	case d.vmm.Can(vmm.Emulating):
		p.Until = ""
		return p, nil
	case p.Until != "" && d.saved == nil: // which is saved when its agent waits
		p.Accel = vmm.KVM
		return p, nil
	}
	p.Accel = ""
	return p, d.Cannot("a machine whose KVM runs guests: bare metal, or nested virtualization", "%s needs KVM: %s", d.vmm.Binary, p.Why)
}

// remedy says how to have a kernel that finds its devices on a machine type.
func (h *home) remedy(d *Driver) string {
	text := "give a --kernel with " + strings.Join(d.vmm.Symbols, " and ")
	if _, ok := h.made(d.vmm.Name); ok || d.kernel != "" || h.lab.Guest.Kernel != "" {
		return text
	}
	return fmt.Sprintf("tare trim build --needs tare-guest,systemd --vm %s -o %s makes one in some minutes, which is taken from then on; or %s", d.vmm.Name, h.madeDir(d.vmm.Name), text)
}

func (h *home) proof(ctx context.Context, d *Driver, path string, g guestKernel) (proof, error) {
	p, _, err := h.remembered(d.vmm.Name, path, g.kernel.Digest)
	if err != nil || p.Accel != "" {
		return p, err
	}
	select {
	case h.proofs <- struct{}{}:
		defer func() { <-h.proofs }()
	case <-ctx.Done():
		return p, fmt.Errorf("%s: waiting for the proofs of KVM of other machines: %w", d.vmm.Name, ctx.Err())
	}
	p, file, err := h.remembered(d.vmm.Name, path, g.kernel.Digest) // another may have made it meanwhile
	if err != nil || p.Accel != "" {
		return p, err
	}
	if p, err = h.prove(ctx, d, path, g); err != nil {
		return p, err
	}
	p.When = time.Now() // no measurement
	h.known.Lock()
	h.proven[proofName(d.vmm.Name, path, g.kernel.Digest)] = p
	h.known.Unlock()
	text, err := json.Marshal(p)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644))
	}
	if err != nil {
		return p, driver.Labf("keep the proof of KVM: %w", err)
	}
	return p, nil
}

// proofName names a proof while a process lives. Machine types of one program have
// proofs of their own: what holds one up (its firmware, its bus) says nothing of another.
func proofName(machine, path, kernel string) string { return machine + " " + path + " " + kernel }

// remembered is what is known of KVM with a machine type, its program and a kernel;
// else nothing, and the file where a proof of it is kept.
func (h *home) remembered(machine, path, kernel string) (p proof, file string, err error) {
	h.known.Lock()
	defer h.known.Unlock()
	as := proofName(machine, path, kernel)
	if p, ok := h.proven[as]; ok {
		return p, "", nil
	}
	if why := deviceLacks(h.device); why != "" {
		h.proven[as] = proof{Accel: vmm.TCG, Why: why}
		return h.proven[as], "", nil // told at once, so not kept
	}
	key, err := h.proofKey(machine, path, kernel)
	if err != nil {
		return p, "", driver.Labf("acceleration: %w", err)
	}
	file = filepath.Join(h.dir, "kvm", key+".json")
	if text, err := os.ReadFile(file); err == nil && json.Unmarshal(text, &p) == nil && p.holds() {
		h.proven[as] = p
		return p, file, nil
	}
	return proof{}, file, nil
}

// forget has every proof made anew.
func (h *home) forget() error {
	h.known.Lock()
	defer h.known.Unlock()
	clear(h.proven)
	return os.RemoveAll(filepath.Join(h.dir, "kvm"))
}

// proofKey names a proof by all that it holds for: the machine type, the VMM, whether
// its filter is off, the agent, the kernel and the user's parameters for it, the user, this boot, and KVM as it is: its
// device, which a module that is loaded again makes anew, and its modules' parameters.
func (h *home) proofKey(machine, path, kernel string) (string, error) {
	program, err := sys.FileDigest(path)
	if err != nil {
		return "", err
	}
	agent, err := sys.FileDigest(h.lab.InitPath)
	if err != nil {
		return "", err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	var device unix.Stat_t
	if err := unix.Stat(h.device, &device); err != nil {
		return "", fmt.Errorf("%s: %w", h.device, err)
	}
	sum := sha256.New()
	fmt.Fprintln(sum, machine, string(boot), program, agent, kernel, h.lab.Guest.NoSeccomp, h.lab.Guest.Append, os.Geteuid(), device.Ino, device.Mode, device.Uid, device.Gid, device.Ctim)
	parameters, err := filepath.Glob("/sys/module/kvm*/parameters/*")
	if err != nil {
		return "", err
	}
	for _, file := range parameters {
		text, _ := os.ReadFile(file) // some are for root alone, whose proofs are others
		fmt.Fprintln(sum, file, string(text))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// deviceLacks says why /dev/kvm cannot be opened, "" where it can.
func deviceLacks(device string) string {
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case err == nil:
		_ = unix.Close(fd) // nothing was written
		return ""
	case errors.Is(err, unix.ENOENT):
		return "/dev/kvm is not there (modprobe kvm_intel or kvm_amd; inside a VM, nested virtualization)"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "this user may not open /dev/kvm (join the group kvm)"
	}
	return "/dev/kvm: " + err.Error()
}

// proofPatience is what a small guest may take on a CPU that runs it: a second
// would do, and a busy machine gets several.
var proofPatience = map[vmm.Mark]time.Duration{
	vmm.MarkReady: 5 * time.Second, vmm.MarkFirstByte: 3 * time.Second, vmm.MarkKernel: 2 * time.Second,
	vmm.MarkInit: 10 * time.Second, vmm.MarkAgent: 5 * time.Second,
}

// ownKernelPatience is what a kernel of the user's may take: KVM that emulates
// instructions takes minutes to unpack one.
var ownKernelPatience = map[vmm.Mark]time.Duration{
	vmm.MarkReady: 20 * time.Second, vmm.MarkFirstByte: 5 * time.Minute, vmm.MarkKernel: time.Minute,
	vmm.MarkInit: 5 * time.Minute, vmm.MarkAgent: 30 * time.Second,
}

// ownKernel reports whether the guests have a kernel of the user's.
func (d *Driver) ownKernel() bool { return d.kernel != "" || d.lab.Guest.Kernel != "" }

// patience is what a boot under KVM may take.
func (d *Driver) patience() map[vmm.Mark]time.Duration {
	if d.ownKernel() {
		return ownKernelPatience
	}
	return proofPatience
}

// ProofsTime bounds the proofs of all machine types with the kernel of tare's guests, of
// which each waits for the others'.
func ProofsTime() time.Duration { return proofsTime(proofPatience) }

func proofsTime(patience map[vmm.Mark]time.Duration) time.Duration {
	each := time.Duration(0)
	for _, d := range patience {
		each += d
	}
	return time.Duration(len(vmm.VMMs())) * each
}

// prove boots a guest without a root of its own under KVM and waits for the
// agent's hello: a kernel, a first process and its system calls have then run.
func (h *home) prove(ctx context.Context, d *Driver, path string, g guestKernel) (p proof, err error) {
	initrd, err := h.initramfs(ctx, g, "", "")
	if err != nil {
		return p, err
	}
	dir, err := os.MkdirTemp(h.lab.RunDir, driver.Label+"-kvm-")
	if err != nil {
		return p, driver.Labf("prove KVM: %w", err)
	}
	defer func() { err = errors.Join(err, sys.RemoveTree(dir)) }()
	var said agentWords
	m, err := vmm.New(ctx, vmm.Config{
		VMM: d.vmm, Path: path, Dir: dir, Launcher: h.lab.LaunchPath, Patience: d.patience(), Slow: d.ownKernel(), Mark: func(vmm.Mark) {}, Line: said.take,
		Machine: vmm.Machine{Kernel: g.kernel, Initrd: initrd, Append: h.proofParameters(), CPUs: 1, Memory: 256 << 20, Accel: vmm.KVM, Agent: true, NoSeccomp: h.lab.Guest.NoSeccomp},
	})
	if err != nil {
		return p, err
	}
	i := &instance{driver: d, vm: m, off: offTime, mark: func(driver.Phase) {}}
	failed := m.Start()
	if failed == nil {
		stop := context.AfterFunc(ctx, func() { _ = m.Kill() })
		defer stop()
		_, failed = i.meet()
	}
	if failed != nil {
		failed = m.Explain(failed)
	}
	if err := errors.Join(ctx.Err(), i.Close()); err != nil {
		return p, err
	}
	return said.proof(failed), nil
}

// proofParameters are those of a guest that is booted for a proof: its kernel prints the
// line with which it starts the first process.
func (h *home) proofParameters() []string {
	all := append(parameters(nil), initShown)
	if h.lab.Guest.Append != "" {
		all = append(all, h.lab.Guest.Append)
	}
	return all
}

// initShown has a kernel print that it starts the first process.
const initShown = "loglevel=7"

// agentWords are what the agent said of itself on a console, and how far the boot came.
type agentWords struct {
	ran  bool   // it said something: a process of the guest ran, and its system calls did
	deaf string // what it said of its channels, where it found none
	init bool   // the kernel started it
}

// until is proof.Until of a boot that failed.
func (w *agentWords) until() vmm.Mark {
	if w.init {
		return vmm.MarkInit
	}
	return ""
}

// take reads a line of the console.
func (w *agentWords) take(line string) {
	w.init = w.init || strings.Contains(line, vmm.InitSign)
	_, text, ok := strings.Cut(line, agentSign)
	w.ran = w.ran || ok
	if why, ok := strings.CutPrefix(text, agentDeaf); ok {
		w.deaf = strings.TrimSpace(why)
	}
}

// What helpers/init.c prints on the console begins so, and where no channel opens its
// last line goes on so.
const (
	agentSign = "tare: "
	agentDeaf = "no channel to the host:"
)

// proof is what a boot under KVM has shown, that failed so; nil for one whose agent
// was heard. The machine must have ended.
func (w *agentWords) proof(failed error) proof {
	switch {
	case failed == nil:
		return proof{Accel: vmm.KVM}
	case w.deaf != "":
		return proof{Accel: vmm.KVM, Deaf: w.deaf}
	case w.ran:
		return proof{Accel: vmm.TCG, Why: "a guest under KVM reached user mode here, and no farther: " + firstLine(failed), Until: w.until()}
	}
	return proof{Accel: vmm.TCG, Why: "no guest reaches user mode under KVM here: " + firstLine(failed), Until: w.until()}
}

// firstLine is an error without the console's lines.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(line, ", and the console ends:")
}
