package trim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarelab/tare/internal/kerneltools/steplog"
	"github.com/tarelab/tare/internal/sys"
)

// world is a made-up builder and prover: what each symbol does when it is taken out.
type world struct {
	breaks  map[string]string // symbol: what the build or the proof says
	asked   map[string]string // symbol: another that asks for it, so that Kconfig leaves it on
	along   map[string]string // symbol: another that goes with it
	hangs   string            // without it the proof never ends
	tried   [][]string
	refuses bool // the kernel as it is
}

const each = 100 // bytes that a symbol takes

func (w *world) try(ctx context.Context, without []string, most int64) (proven, error) {
	w.tried = append(w.tried, without)
	out := slices.Clone(without)
	for _, symbol := range without {
		if w.along[symbol] != "" {
			out = append(out, w.along[symbol])
		}
	}
	keeps := map[string]string{}
	for _, symbol := range without {
		if by := w.asked[symbol]; by != "" && !slices.Contains(out, by) {
			keeps[symbol] = "Kconfig leaves it on: " + by + " selects it"
		}
	}
	if len(keeps) > 0 {
		return proven{}, &RefusedError{Why: "Kconfig leaves some on", Keeps: keeps}
	}
	time.Sleep(10 * time.Minute) // the build and the proof
	if slices.Contains(without, w.hangs) {
		<-ctx.Done()
		return proven{}, fmt.Errorf("the last mark was %q: %w", "kernel", ctx.Err())
	}
	if ctx.Err() != nil {
		return proven{}, ctx.Err()
	}
	for _, symbol := range without {
		if why := w.breaks[symbol]; why != "" {
			return proven{}, &RefusedError{Why: why}
		}
	}
	if w.refuses {
		return proven{}, &RefusedError{Why: "docker run: no such device"}
	}
	return proven{Image: 10_000 - each*int64(len(union(out))), Off: out}, nil
}

func symbols() []string { return []string{"A", "B", "C", "D", "E", "F", "G", "H"} }

func search(w *world, budget time.Duration) *bisection {
	return &bisection{Try: w.try, Keep: func(Step) error { return nil }, Now: time.Now, Budget: budget}
}

func reasons(f Found) map[string]string {
	all := map[string]string{}
	for _, s := range f.Refused {
		all[strings.Join(s.Without, " ")] = s.Why
	}
	return all
}

// A search takes out all but what breaks the build, what breaks the proof, what
// makes it hang or panic, and what Kconfig leaves on, and says why of each.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{breaks: map[string]string{"B": "the kernel's build failed: undefined reference", "F": "pids limit: it could fork", "D": "Kernel panic - not syncing: no init"},
			asked: map[string]string{"C": "B", "H": "G"}, hangs: "E", along: map[string]string{"A": "a"}}
		f, err := search(w, 100*time.Hour).Run(t.Context(), symbols())
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"A", "G", "H", "a"}; !slices.Equal(f.Out, want) || f.Image != 10_000-each*4 || f.First != 10_000 || len(f.Untried) > 0 {
			t.Errorf("out are %v, want %v; %+v", f.Out, want, f)
		}
		why := reasons(f)
		for symbol, part := range map[string]string{"B": "undefined reference", "F": "it could fork", "D": "Kernel panic - not syncing: no init",
			"C": "B selects it", "E": `it hangs: nothing came of it in 40m0s: the last mark was "kernel"`} {
			if !strings.Contains(why[symbol], part) {
				t.Errorf("%s is refused because %q, want %q", symbol, why[symbol], part)
			}
		}
		if len(why) != 5 {
			t.Errorf("refused are %v", slices.Sorted(maps.Keys(why)))
		}
	})
}

// What Kconfig leaves on goes when what asks for it is out.
func TestSearchTriesAgainWhatKconfigLeftOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{breaks: map[string]string{"A": "no"}, asked: map[string]string{"B": "G"}}
		f, err := search(w, 100*time.Hour).Run(t.Context(), symbols())
		if want := []string{"B", "C", "D", "E", "F", "G", "H"}; err != nil || !slices.Equal(f.Out, want) {
			t.Errorf("out are %v, want %v, %v", f.Out, want, err)
		}
	})
}

// A kernel that fails as it is, is the search's error, and so is what is no
// candidate's fault.
func TestSearchCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := search(&world{refuses: true}, time.Hour).Run(t.Context(), symbols()); err == nil || !strings.Contains(err.Error(), "docker run: no such device") {
			t.Errorf("a kernel that fails as it is: %v", err)
		}
		full := errors.New("no space left on device")
		s := search(&world{}, time.Hour)
		s.Try = func(context.Context, []string, int64) (proven, error) { return proven{}, full }
		if _, err := s.Run(t.Context(), symbols()); !errors.Is(err, full) {
			t.Errorf("a full disk: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := search(&world{}, time.Hour).Run(ctx, symbols()); !errors.Is(err, context.Canceled) {
			t.Errorf("an interrupted search: %v", err)
		}
	})
}

// The budget ends a search in the middle of a candidate, which then counts as not
// tried; the next search, which has the log, goes on there, and comes to the same.
func TestSearchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := func() *world { return &world{breaks: map[string]string{"B": "no", "F": "no"}} }
		whole := faults()
		want, err := search(whole, 100*time.Hour).Run(t.Context(), symbols())
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "minimize.log")
		var f Found
		var tried [][]string
		for runs := 1; ; runs++ {
			log, err := steplog.Open[Step](file, "this search", "source")
			if err != nil {
				t.Fatal(err)
			}
			w := faults()
			s := search(w, 35*time.Minute)
			s.Known, s.Keep = log.Steps, log.Keep
			if f, err = s.Run(t.Context(), symbols()); err != nil {
				t.Fatal(err)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			cutShort(t, file)
			done := w.tried
			if len(f.Untried) > 0 {
				done = done[:len(done)-1] // the last was cut short
			}
			tried = append(tried, done...)
			if len(f.Untried) == 0 {
				break
			}
			if runs == 1 && (!slices.Equal(slices.Concat(f.Untried...), symbols()) || len(f.Out) > 0) {
				t.Errorf("after the first run untried are %v", f.Untried)
			}
			if runs > 10 {
				t.Fatal("it comes to no end")
			}
		}
		if !slices.Equal(f.Out, want.Out) || f.Image != want.Image || !maps.Equal(reasons(f), reasons(want)) {
			t.Errorf("in parts %+v, at once %+v", f, want)
		}
		if !slices.EqualFunc(tried, whole.tried, slices.Equal) {
			t.Errorf("in parts it tried %v, at once %v", tried, whole.tried)
		}
		if _, err := steplog.Open[Step](file, "another", "source"); err == nil || !strings.Contains(err.Error(), "is of another search") {
			t.Errorf("the log of another search: %v", err)
		}
	})
}

// cutShort ends a log as a process that is killed while it writes.
func cutShort(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(`{"without":["A"],"acc`)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The last accepted step of an earlier search is tried again where its kernel does
// not lie in the output directory any more, and no other is.
func TestKnown(t *testing.T) {
	o := Options{Arch: X86, Output: t.TempDir(), Compression: "lz4"}
	image := filepath.Join(o.Output, "bzImage")
	if err := os.WriteFile(image, []byte("kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	digest, err := sys.FileDigest(image)
	if err != nil {
		t.Fatal(err)
	}
	steps := []Step{{Accepted: true, Digest: "sha256:first"}, {Without: []string{"A", "B"}, Why: "no"},
		{Without: []string{"A"}, Accepted: true, Digest: digest}, {Without: []string{"B"}, Out: []string{"A"}, Why: "no"}}
	known := func() []Step {
		t.Helper()
		k, err := o.known(steps)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := known(); len(k) != 4 {
		t.Errorf("its kernel is there: %+v", k)
	}
	for name, change := range map[string]func() error{
		"another": func() error { return os.WriteFile(image, []byte("Kernel"), 0o644) }, "gone": func() error { return os.Remove(image) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if k := known(); len(k) != 3 || slices.ContainsFunc(k, func(s Step) bool { return s.same([]string{"A"}, nil) }) {
			t.Errorf("its kernel is %s: %+v", name, k)
		}
	}
}
