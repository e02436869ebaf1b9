package workload

// shellPath is the workbench image's shell, for payloads of several processes.
const shellPath = "/bin/sh"

// shellSearch is where such a payload finds the image's programs.
const shellSearch = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
