package hostimage

import "syscall"

// apart keeps a terminal's Ctrl-C from QEMU, which would end at once: tare has the
// guest switch off.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
