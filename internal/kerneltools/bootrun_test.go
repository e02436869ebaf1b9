package kerneltools

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestShortNames(t *testing.T) {
	for _, test := range []struct{ paths, want []string }{
		{[]string{"/a/b/bzImage"}, []string{"bzImage"}},
		{[]string{"/a/stock/bzImage", "/a/trimmed/bzImage"}, []string{"stock/bzImage", "trimmed/bzImage"}},
		{[]string{"bzImage", "new/bzImage", "bzImage"}, []string{"bzImage", "new/bzImage", "bzImage (3)"}},
		{[]string{"/b", "c/b"}, []string{"/b", "c/b"}},
	} {
		if got := shortNames(test.paths); !slices.Equal(got, test.want) {
			t.Errorf("%q are called %q, want %q", test.paths, got, test.want)
		}
	}
}

func TestBootRunOptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	on := []string{"qemu/q35", "qemu/microvm"}
	for _, test := range []struct {
		kernels []string
		until   string
	}{{[]string{file}, untilLogin}, {nil, untilStarted}} {
		f := bootRunFlags{on: on, kernels: test.kernels, rootfs: file, until: untilLogin, boots: 1, cpus: 3, timeout: time.Second}
		if o, err := f.options(); err != nil || o.CPUs != 3 || o.Until.String() != test.until || o.Rootfs != file || !slices.Equal(o.On, on) {
			t.Errorf("kernels %q: %+v (%v), want an end at %q", test.kernels, o, err, test.until)
		}
	}
	for what, f := range map[string]bootRunFlags{
		"a machine without a CPU":       {on: on, kernels: []string{file}, boots: 1, timeout: time.Second},
		"no kernel and no root":         {on: on, boots: 1, cpus: 1, timeout: time.Second},
		"no machine":                    {kernels: []string{file}, boots: 1, cpus: 1, timeout: time.Second},
		"a machine that is there twice": {on: []string{"qemu/q35", "qemu/q35"}, kernels: []string{file}, boots: 1, cpus: 1, timeout: time.Second},
	} {
		if _, err := f.options(); err == nil {
			t.Errorf("%s was taken", what)
		}
	}
}
