package host_test

import (
	"testing"

	"github.com/tarelab/tare/internal/target/host"
	"github.com/tarelab/tare/internal/target/targettest"
)

func TestContract(t *testing.T) {
	lab := targettest.New(t)
	targettest.Run(t, host.New(lab), targettest.Options{Lab: lab})
}
