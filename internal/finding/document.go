package finding

// Document is what a verb shows that is no report of one run, such as a comparison of
// two machines.
type Document struct {
	Title    string
	Facts    []Fact // what it is of
	Warnings []string
	Tables   []DocumentTable
	Note     string // how the numbers were made
	Data     any    // the same in base units: all that the JSON format has
	Tool     string // tare's version, for the page
}

// Fact is something known, by name.
type Fact struct {
	Name, Value string
}

// DocumentTable is a table of a document.
type DocumentTable struct {
	Table
	Spare []int  // columns that a terminal leaves out where not all fit, by their place
	Note  string // what the table holds, below it
	// Figures are what the page draws of the table.
	Figures []Figure
}
