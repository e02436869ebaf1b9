package cli

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/tarelab/tare/internal/driver"
)

// A run goes on with the guests that it began with; what the flags say otherwise is
// not hidden, for the laboratory to refuse.
func TestResumedGuest(t *testing.T) {
	began := &driver.Guest{Kernel: "/vmlinux", Append: "quiet", Memory: 1 << 30, Disk: true}
	for _, c := range []struct {
		began *driver.Guest
		args  []string
		want  driver.Guest
	}{
		{began, nil, *began},
		{began, []string{"--guest-memory", "256MiB"}, driver.Guest{Kernel: "/vmlinux", Append: "quiet", Memory: 256 << 20, Disk: true}},
		{began, []string{"--kernel", "/other", "--guest-append", "", "--guest-disk=false"}, driver.Guest{Kernel: "/other", Memory: 1 << 30}},
		{nil, []string{"--guest-memory", "256MiB"}, driver.Guest{Memory: 256 << 20}},
		{&driver.Guest{}, nil, driver.Guest{}},
	} {
		flags := pflag.NewFlagSet("resume", pflag.ContinueOnError)
		guestFlags(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if got := resumedGuest(flags, c.began); got != c.want {
			t.Errorf("%q after %v: %v, want %v", c.args, c.began, got, c.want)
		}
	}
}
