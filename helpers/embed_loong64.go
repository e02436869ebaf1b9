package helpers

import "embed"

//go:embed all:bin/linux_loong64
var bin embed.FS
