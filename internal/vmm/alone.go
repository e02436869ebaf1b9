package vmm

import (
	"errors"
	"fmt"
	"strings"
)

// Alone is what a machine has that boots from its first disk, by its firmware and the
// disk's own loader. Such a machine may reboot.
type Alone struct {
	SSH     int      // port of 127.0.0.1 that leads to the guest's port 22
	Strings []string // of the OEM in SMBIOS, from which systemd takes credentials
}

// qemu are the arguments for it. A network of QEMU's own takes no rights.
func (a *Alone) qemu() []string {
	args := []string{
		"-action", "reboot=reset", "-device", "virtio-rng-pci",
		"-netdev", fmt.Sprintf("user,id=net0,hostfwd=tcp:127.0.0.1:%d-:22", a.SSH), "-device", "virtio-net-pci,netdev=net0,romfile=",
	}
	for _, text := range a.Strings {
		args = append(args, "-smbios", "type=11,value="+strings.ReplaceAll(text, ",", ",,"))
	}
	return args
}

// format is a disk's, by QEMU's name.
func format(d Disk) string {
	if d.Qcow2 {
		return "qcow2"
	}
	return "raw"
}

// power notes who presses the power button.
func (v *VM) power(ctl control) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q, ok := ctl.(*qmp); ok {
		v.button = q.powerDown
	}
}

// PowerDown presses the power button, upon which a guest switches itself off. It returns
// at once.
func (v *VM) PowerDown() error {
	v.mu.Lock()
	button := v.button
	v.mu.Unlock()
	if button == nil {
		return errors.New(v.config.VMM.Name + " has no power button, or does not answer yet")
	}
	return button()
}

// powerDown may be called while watch reads, which passes over the answer.
func (q *qmp) powerDown() error {
	_, err := fmt.Fprintf(q.conn, "{\"execute\":\"system_powerdown\"}\r\n")
	return err
}
