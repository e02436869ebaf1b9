package report

import "testing"

func TestCleanDisarmsControlCharacters(t *testing.T) {
	if got, want := clean("a\x1b[31m\nb\u202ec\x00"), `a\u001b[31m b\u202ec\u0000`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Names of metrics and targets are the user's own: no head and no cell is read as markup.
func TestMarkdownTableIsEscaped(t *testing.T) {
	g := newGrid()
	g.column("my_metric [x]", false, []string{"a*b", "<i>"})
	if got, want := g.markdown(), "| my\\_metric \\[x\\] |\n| --- |\n| a\\*b |\n| &lt;i&gt; |"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
