package report

import "io"

// HTML writes the page.
func HTML(w io.Writer, in Input) error { return nil }
