package sample

import (
	"encoding/json"
	"testing"
)

func TestWarningIsASentenceInOnePlace(t *testing.T) {
	for _, c := range []struct {
		w         Warning
		want      string
		disturbed bool
	}{
		{Warning{Kind: Busy, Share: 0.284}, "other processes used 28 % of the machine's CPU time during the trial", true},
		{Warning{Kind: Busy, Share: 0.6, Trials: 3}, "other processes used 60 % of the machine's CPU time during the last 3 trials", true},
		{Warning{Kind: Overlapped, Share: 0.9, Least: 0.98}, "the containers shared 90.00 % of their timed window, less than 98 %: take longer windows (time)", false},
		{Warning{Kind: CutOff, Stream: "standard error"}, "a process that outlived the payload held its standard error open and was cut off", false},
		{Warning{Kind: Untidy, Text: "rmdir: busy."}, "rmdir: busy", false},
		{Warning{Kind: "from-the-future"}, "from-the-future", false},
	} {
		if got := c.w.String(); got != c.want || c.w.Disturbed() != c.disturbed {
			t.Errorf("%+v: %q, disturbed %v; want %q, %v", c.w, got, c.w.Disturbed(), c.want, c.disturbed)
		}
		text, err := json.Marshal(c.w)
		if err != nil {
			t.Fatal(err)
		}
		var back Warning
		if err := json.Unmarshal(text, &back); err != nil || back != c.w {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
}

func TestSentenceOfAnEarlierVersionIsRead(t *testing.T) {
	for sentence, want := range map[string]WarningKind{
		"pressure: other processes used 60 % of the machine's CPU time during the trial": Busy,
		"Steal: 12 %": Busy,
		"overlap: the containers shared 90.00 % of their timed window, less than 98 %": Note,
		"no colon, and steal": Note,
	} {
		text, err := json.Marshal(sentence)
		if err != nil {
			t.Fatal(err)
		}
		var w Warning
		if err := json.Unmarshal(text, &w); err != nil || w.Kind != want || w.String() != sentence {
			t.Errorf("%q is read as %+v, %v", sentence, w, err)
		}
	}
	for _, text := range []string{`3`, `["x"]`, `{"kind":4}`} {
		var w Warning
		if err := json.Unmarshal([]byte(text), &w); err == nil {
			t.Errorf("%s is read as %+v", text, w)
		}
	}
}
