package vmm

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// The names are of Debian's suites on one day of 2026.
func TestNewestImage(t *testing.T) {
	names := []string{
		"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-50-cloud-amd64", "linux-image-6.1.0-50-amd64", "linux-image-6.1.0-50-cloud-amd64-unsigned",
		"linux-image-6.1.0-50-cloud-amd64-dbg", "linux-image-6.1.0-51-rt-amd64", "linux-image-6.12.48+deb13-cloud-amd64", "linux-image-6.12.9+deb13-1-cloud-amd64",
		"linux-image-6.12.48+deb13-cloud-amd64-dbg", "linux-image-6.12.57+deb12-cloud-amd64", "linux-image-cloud-amd64", "linux-image-6.12-cloud-amd64",
	}
	for _, c := range []struct{ version, flavour, want string }{
		{"6.1", "cloud-amd64", "linux-image-6.1.0-50-cloud-amd64"},
		{"6.1", "amd64", "linux-image-6.1.0-50-amd64"},
		{"6.12", "cloud-amd64", "linux-image-6.12.57+deb12-cloud-amd64"},
		{"6.12", "amd64", ""},
		{"5.10", "cloud-amd64", ""},
	} {
		if got := newestImage(names, c.version, c.flavour); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.version, c.flavour, got, c.want)
		}
	}
}

func TestNoReleaseKernel(t *testing.T) {
	var none *NoKernelError
	if _, err := ReleaseKernel(t.Context(), runtime.GOARCH, t.TempDir(), t.TempDir(), "ubuntu/6.8"); !errors.As(err, &none) {
		t.Errorf("another distribution's kernel: %v", err)
	}
}

// A mirror that nobody answers at is named, for each suite.
func TestNoMirror(t *testing.T) {
	t.Setenv("DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
	var none *NoKernelError
	_, err := ReleaseKernel(t.Context(), runtime.GOARCH, t.TempDir(), t.TempDir(), "debian/6.1")
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "127.0.0.1:9") {
		t.Errorf("%v", err)
	}
}
