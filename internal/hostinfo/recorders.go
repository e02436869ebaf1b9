package hostinfo

import (
	"context"
	"errors"

	"github.com/tarelab/tare/internal/probe/ebpf"
	"github.com/tarelab/tare/internal/profile"
)

// measured records nothing in particular and sees how. It does not hold where the kernel
// lacks something and the recorder does it in another way.
func measured(record ebpf.Recorder) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		stop, err := record(ebpf.Selection{})
		if err != nil {
			return "", err
		}
		p, err := stop()
		if err != nil {
			return "", err
		}
		if p.Way != profile.ByPrograms {
			return string(p.Way), errors.New(p.Notes[len(p.Notes)-1]) // the last one says why
		}
		return "by programs in the kernel", nil
	}
}
