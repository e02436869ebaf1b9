package kconfig_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/kconfig"
	"github.com/tarelab/tare/internal/kerneltools/textfile"
	"github.com/tarelab/tare/needs"
)

func read(t *testing.T, name string) *kconfig.Config {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := kconfig.Parse(file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// TestReal checks real configurations of kernel 6.1: Debian's cloud kernel, an
// allnoconfig, and one that Docker has run in.
func TestReal(t *testing.T) {
	wants, err := kconfig.Collect([]string{"docker"}, needs.Load)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ fails bool }{
		"debian-6.1-cloud.config.gz": {false}, "container-6.1.config.gz": {false}, "allno-6.1.config.gz": {true},
	} {
		c := read(t, "testdata/"+name)
		if c.Arch != "x86" || !strings.HasPrefix(c.Version, "6.1.") || len(c.Warnings) != 0 {
			t.Errorf("%s: arch %q, version %q, warnings %q", name, c.Arch, c.Version, c.Warnings)
		}
		var failing []string
		for _, f := range c.Check(wants) {
			if f.Fails() {
				failing = append(failing, fmt.Sprint(f.Symbol, " ", f.State))
			}
		}
		if (len(failing) > 0) != want.fails {
			t.Errorf("%s: fails %v", name, failing)
		}
	}
}

func TestStates(t *testing.T) {
	c, err := kconfig.Parse(strings.NewReader("# Linux/x86 4.19.5 Kernel Configuration\nCONFIG_A=y\r\nCONFIG_B=m \n# CONFIG_C is not set\t\r\nCONFIG_D=\"text\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for want, state := range map[*kconfig.Want]kconfig.State{
		{Symbol: "A"}: kconfig.BuiltIn, {Symbol: "B"}: kconfig.Module, {Symbol: "C"}: kconfig.Missing, {Symbol: "E"}: kconfig.Hidden,
		{Symbol: "B", Value: "y"}: kconfig.Wrong, {Symbol: "C", Value: "n"}: kconfig.Off, {Symbol: "E", Value: "n"}: kconfig.Off,
		{Symbol: "A", Value: "n"}: kconfig.Wrong, {Symbol: "D", Value: `"text"`}: kconfig.Set,
		{Symbol: "E", Since: "5.0"}: kconfig.Unknown, {Symbol: "E", Since: "4.19"}: kconfig.Hidden,
		{Symbol: "E", Before: "4.19"}: kconfig.Unknown, {Symbol: "E", Before: "4.20"}: kconfig.Hidden,
		{Symbol: "C", Or: []string{"E", "B"}}: kconfig.Module,
		{Symbol: "B", Since: "5.0"}:           kconfig.Module, {Symbol: "C", Since: "5.0"}: kconfig.Unknown,
		{Symbol: "A", Value: "n", Since: "5.0"}: kconfig.Unknown, {Symbol: "A", Value: "n", Since: "4.19"}: kconfig.Wrong,
	} {
		if got := c.Check([]kconfig.Want{*want})[0]; got.State != state {
			t.Errorf("%+v: %s, want %s", *want, got.State, state)
		}
	}
	if got := c.Check([]kconfig.Want{{Symbol: "E", Arch: []string{"arm64"}}}); len(got) != 0 {
		t.Errorf("a want of another architecture counts: %+v", got)
	}
}

func TestNotAConfig(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"empty": {"", textfile.ErrEmpty}, "prose": {"hello\n", kconfig.ErrNotAConfig}, "zeros": {strings.Repeat("\x00", 1000), textfile.ErrNotText},
		"one long line": {strings.Repeat("CONFIG_A=y", 10000), kconfig.ErrNotAConfig},
	} {
		if _, err := kconfig.Parse(strings.NewReader(test.text)); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	c, err := kconfig.Parse(strings.NewReader("CONFIG_A=y\nCONFIG_A=m\n<<<<<<<\n"))
	if err != nil || c.Values["A"] != "m" {
		t.Fatalf("a symbol that is there twice: %+v, %v", c, err)
	}
	for _, part := range []string{"CONFIG_A is there twice", "a defconfig or a fragment (1 symbols, no heading", "1 lines are neither"} {
		if !strings.Contains(strings.Join(c.Warnings, "\n"), part) {
			t.Errorf("warnings are %q, want %q", c.Warnings, part)
		}
	}
}

// Of a compressed configuration that was cut short, what is there counts, and it is said.
func TestCutShort(t *testing.T) {
	whole, err := os.ReadFile("testdata/debian-6.1-cloud.config.gz")
	if err != nil {
		t.Fatal(err)
	}
	c, err := kconfig.Parse(bytes.NewReader(whole[:len(whole)/2]))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Values) < 500 || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "cut short") {
		t.Errorf("%d symbols, warnings %q", len(c.Values), c.Warnings)
	}
}

// library is a library of needs in a map.
func library(texts map[string]string) kconfig.Library {
	return func(id string) (*kconfig.Need, error) { return kconfig.ParseNeed([]byte(texts[id])) }
}

func TestNeeds(t *testing.T) {
	find := library(map[string]string{
		"a":      "{id: a, title: A, source: s, symbols: [{symbol: X, why: w, optional: true}, {symbol: CONFIG_Y, why: w}]}",
		"b":      "{id: b, title: B, source: s, includes: [a], symbols: [{symbol: X, why: strict, value: y}]}",
		"off":    "{id: off, title: O, source: s, symbols: [{symbol: Y, why: never, value: n}]}",
		"loop":   "{id: loop, title: L, source: s, includes: [loop2]}",
		"loop2":  "{id: loop2, title: L, source: s, includes: [loop]}",
		"empty":  "{id: empty, title: E, source: s}",
		"typo":   "{id: typo, title: E, source: s, symbol: []}",
		"lower":  "{id: lower, title: E, source: s, symbols: [{symbol: 'a b', why: w}]}",
		"mute":   "{id: mute, title: E, source: s, symbols: [{symbol: A}]}",
		"when":   "{id: when, title: E, source: s, symbols: [{symbol: A, why: w, since: soon}]}",
		"word":   "{id: word, title: E, source: s, symbols: [{symbol: A, why: w, value: no}]}",
		"swap":   "{id: swap, title: S, source: s, symbols: [{symbol: SWAP, why: pages}]}",
		"new":    "{id: new, title: N, source: s, symbols: [{symbol: SWAP, why: never, value: n, since: '4.0'}]}",
		"old":    "{id: old, title: O, source: s, symbols: [{symbol: SWAP, why: once, before: '4.0'}]}",
		"x86":    "{id: x86, title: X, source: s, symbols: [{symbol: BITS, why: w, value: '17', arch: [x86, x86_64]}]}",
		"arm":    "{id: arm, title: A, source: s, symbols: [{symbol: BITS, why: w, value: '0x12', arch: [arm64]}]}",
		"all":    "{id: all, title: A, source: s, symbols: [{symbol: BITS, why: all, value: '18'}]}",
		"may":    "{id: may, title: M, source: s, symbols: [{symbol: BITS, why: w, value: '19', optional: true}]}",
		"nobody": "",
	})
	wants, err := kconfig.Collect([]string{"b"}, find)
	if err != nil || len(wants) != 2 || wants[0].Symbol != "X" || wants[0].Optional || wants[0].Value != "y" || wants[1].Need != "a" {
		t.Errorf("%+v, %v", wants, err)
	}
	for _, ids := range []string{"new,old", "x86,arm", "x86,may"} {
		if wants, err = kconfig.Collect(strings.Split(ids, ","), find); err != nil || len(wants) != 2 {
			t.Errorf("%s, which do not contradict each other: %+v, %v", ids, wants, err)
		}
	}
	for ids, message := range map[string]string{
		"swap,new": "swap wants CONFIG_SWAP=y (pages), new wants n (never)", "arm,x86,all": "arm wants CONFIG_BITS=0x12 (w), all wants 18 (all)",
		"word":  `value "no" is none of y, n, a number`,
		"a,off": "needs contradict each other: a wants CONFIG_Y=y (w), off wants n (never)",
		"loop":  "includes itself: loop > loop2 > loop", "empty": "asks for nothing", "typo": "unknown field",
		"lower": "is no Kconfig symbol", "mute": "has no reason", "when": "is no kernel version", "nobody": "the need is empty", "": "no need is named",
	} {
		var list []string
		if ids != "" {
			list = strings.Split(ids, ",")
		}
		if _, err := kconfig.Collect(list, find); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: %v, want %q", ids, err, message)
		}
	}
}
