package probe

import "testing"

func TestDeviceCounters(t *testing.T) {
	for name, c := range map[string]struct {
		read func(string) float64
		text string
		want float64
	}{
		"version 1":    {movedV1, "254:0 Read 4096\n254:0 Write 100\n254:0 Sync 4196\n254:0 Total 4196\n8:0 Read 1\nTotal 4197\n", 4197},
		"version 1, 0": {movedV1, "Total 0\n", 0},
		"version 2":    {movedV2, "254:0 rbytes=4096 wbytes=7 rios=1 wios=1 dbytes=9 dios=1\n8:0 rbytes=1 wbytes=0\n", 4104},
		"version 2, 0": {movedV2, "", 0},
	} {
		if got := c.read(c.text); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
