package helpers

import "embed"

//go:embed all:bin/linux_mips64le
var bin embed.FS
