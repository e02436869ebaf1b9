package helpers

import "embed"

//go:embed all:bin/linux_arm64
var bin embed.FS
