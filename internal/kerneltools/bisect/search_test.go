package bisect

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// planted answers as a list of kernels would: g, b, o and s for each of them.
func planted(list string, asked *[]int) func(int) (Answer, error) {
	return func(at int) (Answer, error) {
		*asked = append(*asked, at)
		return map[byte]Answer{'g': Good, 'b': Bad, 'o': Open, 's': Skipped}[list[at]], nil
	}
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		list  string
		want  interval
		asked []int
	}{
		{"gb", interval{0, 1}, nil},
		{"ggb", interval{1, 2}, []int{1}},
		{"gbb", interval{0, 1}, []int{1}},
		{"gggggbbb", interval{4, 5}, []int{3, 5, 4}},
		{"gggsgbbb", interval{4, 5}, []int{3, 4, 5}},
		{"ggsssbbb", interval{1, 5}, []int{3, 4, 2, 5, 1}}, // those between cannot be told
		{"gogoobob", interval{2, 5}, nil},
		{"goooob", interval{0, 5}, []int{2, 3, 1, 4}},
	} {
		var asked []int
		got, err := search(len(c.list), planted(c.list, &asked))
		if err != nil || got != c.want || c.asked != nil && !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %+v, asked for %v, %v; want %+v, %v", c.list, got, asked, err, c.want, c.asked)
		}
	}
}

// Every list with one change is searched in no more steps than halving takes, and the
// change is found; no kernel is asked for twice, whatever the list holds.
func TestSearchFindsEveryChange(t *testing.T) {
	for n := 2; n <= 40; n++ {
		for change := 1; change < n; change++ {
			var asked []int
			got, err := search(n, planted(strings.Repeat("g", change)+strings.Repeat("b", n-change), &asked))
			if err != nil || got != (interval{change - 1, change}) || len(asked) > halvings(n) {
				t.Errorf("%d kernels, bad from %d: %+v by %v (%v), at most %d steps", n, change, got, asked, err, halvings(n))
			}
		}
	}
	// Where the change comes and goes, what is found is a place where it comes; nothing
	// but open and skipped kernels lies between.
	for bits := range 1 << 12 {
		list := []byte{'g'}
		for i := range 6 {
			list = append(list, "gbos"[bits>>(2*i)&3])
		}
		list = append(list, 'b')
		var asked []int
		got, err := search(len(list), planted(string(list), &asked))
		slices.Sort(asked)
		if err != nil || list[got.good] != 'g' || list[got.bad] != 'b' || strings.Trim(string(list[got.good+1:got.bad]), "os") != "" || len(slices.Compact(asked)) != len(asked) {
			t.Fatalf("%s: %+v, asked for %v, %v", list, got, asked, err)
		}
	}
}

func TestSearchEndsAtAnError(t *testing.T) {
	ended := errors.New("ended")
	got, err := search(9, func(at int) (Answer, error) {
		if at == 6 {
			return "", ended
		}
		return Good, nil
	})
	if !errors.Is(err, ended) || got != (interval{4, 8}) {
		t.Errorf("%+v, %v: want what was known by then", got, err)
	}
}
