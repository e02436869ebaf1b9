package helpers

import "embed"

//go:embed all:bin/linux_riscv64
var bin embed.FS
