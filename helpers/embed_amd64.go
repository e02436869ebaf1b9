package helpers

import "embed"

//go:embed all:bin/linux_amd64
var bin embed.FS
