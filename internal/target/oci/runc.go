package oci

import "time"

// runc is the reference runtime, and what engines start when not told otherwise.
func runc() Runtime {
	return Runtime{Name: "runc", Binary: "runc", Remedy: "apt-get install runc", Rootless: true,
		StartTime: 25 * time.Millisecond, Order: 200}
}
