package trim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
)

// The candidates of a real kernel are what no need insists on and what can go;
// what is asked to go alone and is selected stays, with the reason; and what needs
// it to be there is named.
func TestCandidates(t *testing.T) {
	o := Options{Arch: X86, Source: source(t), Build: t.TempDir(), Output: t.TempDir(), Way: BottomUp, Compression: "lz4", Jobs: 1,
		Wants: wants(t, "ext4", "ipv4", "virtio-pci")}
	base, candidates, err := o.candidates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for symbol, want := range map[string]bool{"AIO": true, "PACKET": true, "HW_RANDOM": true, // optional
		"EXT4_FS": false, "INET": false, // insisted on
		"JBD2": false, "HZ_250": false, "EXPERT": false} { // follows, one of several, the key to others
		if slices.Contains(candidates, symbol) != want {
			t.Errorf("%s is a candidate: %v, want %v", symbol, !want, want)
		}
	}
	var refusal *RefusedError
	_, err = o.without(base, []string{"CRC32"}).try(t.Context(), Minimize{}, candidates, 0, o.Output)
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Keeps["CRC32"], "JBD2") {
		t.Errorf("what ext4's journal selects: %v, %+v", err, refusal)
	}
	unsaid := o // what ext4 lies on is asked for by nobody
	unsaid.Wants = slices.DeleteFunc(slices.Clone(o.Wants), func(w kconfig.Want) bool { return w.Symbol == "BLOCK" })
	_, err = unsaid.without(base, []string{"BLOCK"}).try(t.Context(), Minimize{}, candidates, 0, o.Output)
	if !errors.As(err, &refusal) || !strings.Contains(refusal.Why, "EXT4_FS (need ext4") {
		t.Errorf("what ext4 lies on: %v", err)
	}
	some := o.without(base, []string{"AIO", "PACKET"})
	made, err := configure(t.Context(), &some)
	if err != nil {
		t.Fatal(err)
	}
	gone := off(made.Config, candidates)
	if !slices.Equal(gone, []string{"AIO", "PACKET"}) {
		t.Errorf("without AIO and PACKET go %v", gone)
	}
	if f := made.Config.Check([]kconfig.Want{{Symbol: "HW_RANDOM"}})[0]; f.State != kconfig.BuiltIn {
		t.Errorf("what is not asked to go: HW_RANDOM is %s", f.State)
	}
}
