package history_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/stats"
)

// TestNextToOtava: apache-otava, another implementation of E-divisive, finds the same
// changes in the same series.
func TestNextToOtava(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(cache, "tare", "otava-0.8.0")
	if _, err := os.Stat(filepath.Join(home, "bin", "otava")); err != nil {
		t.Skip("apache-otava is not installed (scripts/setup.sh otava): ", err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for name, levels := range map[string][]float64{
		"no change": {1, 1, 1}, "8 % more": {1, 1, 1.08}, "up and down": {1, 1.2, 1}, "the last ten, 5 % less": {1, 1, 0.95},
	} {
		var x []float64
		for _, level := range levels {
			for range 10 {
				x = append(x, level*(1+0.01*rng.NormFloat64()))
			}
		}
		var got []int
		for _, s := range stats.Steps(x, 3, 0.01, 4999, 7) {
			got = append(got, s.At)
		}
		if want := otava(t, home, x); !slices.Equal(got, want) {
			t.Errorf("%s: changes at %v, otava has them at %v", name, got, want)
		}
	}
}

// otava gives the indices of the changes that it finds.
func otava(t *testing.T, home string, x []float64) (at []int) {
	t.Helper()
	dir := t.TempDir()
	rows := "time,commit,ready\n"
	for i, v := range x {
		rows += fmt.Sprintf("2026-10-%02d 00:00:00 +0000,c%d,%v\n", i+1, i, v)
	}
	config := "tests:\n  series: {type: csv, file: series.csv, time_column: time, attributes: [commit], metrics: {ready: {scale: 1, direction: -1}}}\n"
	for file, text := range map[string]string{"series.csv": rows, "otava.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "python3", filepath.Join(home, "bin", "otava"), "analyze", "series", "--config-file", "otava.yaml", "--since", "2020-01-01", "--output", "json")
	c.Dir, c.Env = dir, append(os.Environ(), "PYTHONPATH="+home)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("otava: %v: %s", err, out)
	}
	_, document, _ := strings.Cut(string(out), "{")
	var found struct {
		Series []struct {
			Changes []struct {
				Index int `json:"index"`
			} `json:"changes"`
		} `json:"series"`
	}
	if err := json.Unmarshal([]byte("{"+document), &found); err != nil {
		t.Fatalf("otava printed %q: %v", out, err)
	}
	for _, s := range found.Series {
		for _, c := range s.Changes {
			at = append(at, c.Index)
		}
	}
	slices.Sort(at)
	return at
}
