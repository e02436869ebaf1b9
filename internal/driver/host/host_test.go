package host_test

import (
	"testing"

	"github.com/tarelab/tare/internal/driver/drivertest"
	"github.com/tarelab/tare/internal/driver/host"
)

func TestContract(t *testing.T) {
	lab := drivertest.New(t)
	drivertest.Run(t, host.New(lab), drivertest.Options{Lab: lab})
}
