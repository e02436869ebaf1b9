package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/profile"
)

func TestProfileIsKeptAndReplaced(t *testing.T) {
	r := create(t, t.TempDir(), 3)
	if _, ok, err := r.Profile(1); ok || err != nil {
		t.Fatalf("a profile that was never kept: %v %v", ok, err)
	}
	p := profile.Profile{
		Elapsed: time.Second, Cost: time.Millisecond, Stacks: [][]string{{"a;b", "c\n"}, {"d"}}, Notes: []string{"n"}, Lost: map[string]uint64{"x": 1 << 60},
		Waits:   []profile.Wait{{Kind: profile.Mutex, Mode: "read", Lock: ^uint64(0), Stack: -1, Kernel: true, Count: 3, Total: 4, Most: 5}},
		Samples: []profile.Sample{{State: profile.Asleep, Stack: 1, User: 0, Comm: "sh", Count: 9, Total: 8}},
	}
	p.Waits[0].Times.Count(time.Minute)
	for range 2 {
		p.Cost++ // done again
		if err := r.KeepProfile(1, p); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok, err := r.Profile(1); !ok || err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("%v %v: %+v, want %+v", ok, err, got, p)
	}
	if files, err := os.ReadDir(filepath.Join(r.Dir(), "profiles")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v: left behind beside the profile", files, err)
	}
}

func TestDamagedProfileIsNamed(t *testing.T) {
	r := create(t, t.TempDir(), 1)
	if err := r.KeepProfile(0, profile.Profile{Stacks: [][]string{{"a"}}}); err != nil {
		t.Fatal(err)
	}
	file := r.path(profileFile(0))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 0xff
	for what, data := range map[string][]byte{"empty": {}, "cut": whole[:len(whole)/2], "not packed": []byte("{}"), "flipped": flipped} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Profile(0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
