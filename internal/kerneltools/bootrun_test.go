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
	for _, test := range []struct{ rootfs, more, want string }{
		{"", "", ""},
		{"", "quiet", "quiet"},
		{file, "", "root=/dev/vda rw"},
		{file, "quiet ro", "root=/dev/vda rw quiet ro"},
		{file, "quiet root=/dev/vda1", "quiet root=/dev/vda1"},
	} {
		f := bootRunFlags{kernels: []string{file}, rootfs: test.rootfs, more: test.more, boots: 1, cpus: 3, timeout: time.Second}
		if o, err := f.options(); err != nil || o.Append != test.want || o.CPUs != 3 {
			t.Errorf("--append %q, --rootfs %q: %q on %d CPUs (%v), want %q on 3", test.more, test.rootfs, o.Append, o.CPUs, err, test.want)
		}
	}
	if _, err := (&bootRunFlags{kernels: []string{file}, boots: 1, timeout: time.Second}).options(); err == nil {
		t.Error("a machine without a CPU was taken")
	}
}
