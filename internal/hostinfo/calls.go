package hostinfo

import (
	"context"
	"errors"
	"strings"

	"github.com/tarelab/tare/internal/sys"
)

// kernelCalls names what this kernel has not of all that tare uses since Linux 3.10, with
// what tare does instead.
func kernelCalls(context.Context) (string, error) { return calls(sys.MissingCalls()) }

func calls(missing []sys.Call) (string, error) {
	var instead []string
	for _, c := range missing {
		text := c.Name + " (" + c.Since + ")"
		if c.Instead != "" {
			text += ": " + c.Instead
		}
		instead = append(instead, text)
	}
	if len(instead) > 0 {
		return "every target of tare's own works without", errors.New("missing " + strings.Join(instead, "; "))
	}
	return "has every call that tare uses", nil
}
