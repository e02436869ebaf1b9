package native

import "github.com/tarelab/tare/internal/driver"

// NewV1 is New with the device rules of cgroup version 1.
func NewV1(lab driver.Lab) driver.Driver {
	return &native{lab: lab, level: full, v1: true, order: int(full)}
}
