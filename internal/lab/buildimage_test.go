package lab

import "testing"

// --mirror comes before $DEBIAN_MIRROR, as wherever tare fetches Debian's packages.
func TestImageMirror(t *testing.T) {
	t.Setenv("DEBIAN_MIRROR", "http://here/debian")
	for given, want := range map[string]string{"": "http://here/debian", "http://there/debian": "http://there/debian"} {
		a, err := ImageOrder{Arch: "arm64", Mirror: given}.archive()
		if err != nil || a.Mirror != want {
			t.Errorf("%q: %q, %v", given, a.Mirror, err)
		}
	}
}
