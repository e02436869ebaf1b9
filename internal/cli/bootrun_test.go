package cli

import (
	"slices"
	"testing"
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
