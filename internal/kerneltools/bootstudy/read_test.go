package bootstudy

import (
	"slices"
	"testing"
)

// The journal of a proof holds what was loaded: nothing is another answer than none.
func TestLoadedModules(t *testing.T) {
	const banner = `{"MESSAGE":"Linux version 6.1.0","_TRANSPORT":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"0","__MONOTONIC_TIMESTAMP":"900"}` + "\n"
	line := func(writer, text string) string {
		return banner + `{"MESSAGE":"` + text + `","_TRANSPORT":"stdout","SYSLOG_IDENTIFIER":"` + writer + `","__MONOTONIC_TIMESTAMP":"17657217"}` + "\n"
	}
	for _, test := range []struct {
		journal string
		want    []string
	}{
		{banner, nil},
		{line("sh", "loaded: a"), nil},
		{line("tare-modules", "loaded:"), []string{}},
		{line("tare-modules", "loaded: virtio_blk fuse "), []string{"fuse", "virtio_blk"}},
	} {
		b, _, err := bootProfile([]byte(test.journal))
		if err != nil {
			t.Fatal(err)
		}
		if got := loadedModules(b); !slices.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %q, want %q", test.journal, got, test.want)
		}
	}
}
