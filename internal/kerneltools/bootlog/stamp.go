package bootlog

import (
	"encoding/json"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a line of the file with all stamps that it carries.
type entry struct {
	number  int
	text    string
	source  string
	unit    string
	boot    string // journald's id of the boot
	stamps  stamps
	newBoot bool // a line that separates boots and says nothing else
	quoted  bool // its stamp is by another clock, and part of the text
}

// clocks are all clocks, the best first.
var clocks = [...]Clock{Kernel, Journal, Host, Wall}

// stamps are the times of one line by the clocks that stamped it. They are no map:
// a log may have half a million lines.
type stamps struct {
	at  [len(clocks)]time.Duration
	has [len(clocks)]bool
}

func (s *stamps) get(c Clock) (time.Duration, bool) {
	i := slices.Index(clocks[:], c)
	return s.at[i], s.has[i]
}

func (s *stamps) set(c Clock, at time.Duration) {
	i := slices.Index(clocks[:], c)
	s.at[i], s.has[i] = at, true
}

func (s *stamps) unset(c Clock) { s.has[slices.Index(clocks[:], c)] = false }

// all yields the stamps of a line, those of the best clock first.
func (s *stamps) all() iter.Seq2[Clock, time.Duration] {
	return func(yield func(Clock, time.Duration) bool) {
		for i, c := range clocks {
			if s.has[i] && !yield(c, s.at[i]) {
				return
			}
		}
	}
}

func (s *stamps) any() bool { return slices.Contains(s.has[:], true) }

// The prefixes that logs put before a line's text. They nest: a syslog line
// holds a kernel stamp, a captured console line holds both.
var (
	escape     = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|[\\]P][^\a\x1b]*(\a|\x1b\\\\)|[()][A-Z0-9]|[=>c])|[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f]")
	priority   = regexp.MustCompile(`^<\d{1,3}>`)
	decoded    = regexp.MustCompile(`^(kern|user|daemon|syslog|auth|authpriv|cron|local\d) *:(emerg|alert|crit|err|warn|notice|info|debug) *: `)
	kmsg       = regexp.MustCompile(`^\d+,\d+,(\d+),[^;]*;`)
	kmsgField  = regexp.MustCompile(`^ (SUBSYSTEM|DEVICE)=`) // of the line before, in /dev/kmsg
	grabserial = regexp.MustCompile(`^\[(\d+\.\d+) \d+\.\d+\] ?`)
	printk     = regexp.MustCompile(`\[ *(\d{1,9}\.\d{6})(?: <[ \d.]+>)?\](?: ?` + caller + `)? ?`)
	caller     = `\[ *[TC]\d+\]` // CONFIG_PRINTK_CALLER; dmesg of util-linux 2.41 puts a blank before it
	anyDate    = `(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)`
	writer     = `(?:(\S*[^\s:]) )?(?:(?:kern|user|mail|daemon|auth|syslog|authpriv|cron|local\d)\.[a-z]+ )?([^\s:\[]+)(?:\[\d+\])?: ` // host, unless left out; busybox's facility; program
	syslog     = regexp.MustCompile(`^(` + anyDate + `) ` + writer)
	readerTime = regexp.MustCompile(`^\[?(?:` + anyDate + `|\d\d:\d\d:\d\d(?:\.\d+)?)\]?$`) // of who read the console: minicom, tio, ts, a CI service
	isoDmesg   = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:?\d\d) (?:` + caller + ` )?`)
	ctime      = regexp.MustCompile(`^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?(?:` + caller + ` )?`)
	relative   = regexp.MustCompile(`^\[ *[+<] *\d+\.\d+>?\] `)
	separator  = regexp.MustCompile(`^-- (Boot [0-9a-f]{32}|Reboot) --$`)
	remark     = regexp.MustCompile(`^-- (Logs|Journal) begin`)
	monotonic  = regexp.MustCompile(`^\[ *(\d+\.\d{6})(?: +| <[ \d.]+\*?>)?\] ` + writer)
	clockForms = []string{time.ANSIC, "Jan _2 15:04:05", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05"}

	// The head of RFC 5424, with the groups of syslog: date, host, program. Then come the
	// process, the kind of message and structured data, and a byte order mark.
	syslog5424 = regexp.MustCompile(`^<\d{1,3}>1 (` + anyDate + `) (\S+) (\S+) \S+ \S+ (?:-|(?:\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])+)(?: \x{feff}?|$)`)
)

// read takes the prefixes off a line. The host is the machine's name where the
// log is journalctl's short-monotonic, which looks like printk's otherwise.
// A console mixes writers: what stands after a second stamp is a line of its own.
func read(number int, line string, host *string) []entry {
	line = strings.TrimRight(escape.ReplaceAllString(line, ""), "\r\n \t")
	if separator.MatchString(line) {
		return []entry{{number: number, newBoot: true}}
	}
	if line == "" || remark.MatchString(line) || kmsgField.MatchString(line) {
		return nil
	}
	if strings.HasPrefix(line, "{") {
		if e, ok := readJSON(number, line); ok {
			return []entry{e}
		}
	}
	e := entry{number: number}
	line = e.prefixes(line, host)
	return e.split(line)
}

// prefixes takes off all but printk's own stamp.
func (e *entry) prefixes(line string, host *string) string {
	if m := grabserial.FindStringSubmatch(line); m != nil {
		e.stamps.set(Host, seconds(m[1]))
		line = line[len(m[0]):]
	}
	for _, form := range []*regexp.Regexp{syslog5424, syslog} {
		if m := form.FindStringSubmatch(line); m != nil {
			if at, ok := wallTime(m[1]); ok {
				e.stamps.set(Wall, at)
				e.source = m[3]
				line = line[len(m[0]):]
				break
			}
		}
	}
	line = unranked(line)
	for _, form := range []*regexp.Regexp{isoDmesg, ctime} {
		if m := form.FindStringSubmatch(line); m != nil {
			if at, ok := wallTime(m[1]); ok {
				e.stamps.set(Wall, at)
				line = line[len(m[0]):]
			}
		}
	}
	if m := kmsg.FindStringSubmatch(line); m != nil {
		if us, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			e.stamps.set(Kernel, time.Duration(us)*time.Microsecond)
			line = line[len(m[0]):]
		}
	}
	if m := monotonic.FindStringSubmatch(line); m != nil && host != nil && m[2] == *host {
		e.stamps.set(Journal, seconds(m[1]))
		e.source = m[3]
		line = line[len(m[0]):]
	}
	if e.source == "kernel" {
		e.source = ""
	}
	return line
}

// unranked takes off a line's facility and priority, of dmesg -r or -x.
func unranked(line string) string {
	return decoded.ReplaceAllString(priority.ReplaceAllString(line, ""), "")
}

// isRelative reports whether a line has dmesg's time since the line before, and no other.
func isRelative(line string) bool {
	const prefixes = 64 // bytes, with colours
	return relative.MatchString(unranked(escape.ReplaceAllString(line[:min(len(line), prefixes)], "")))
}

// split takes off printk's stamps, of which a console's line may hold several. A
// program's line that a syslog or journal has is the program's to its end.
func (e *entry) split(line string) []entry {
	var out []entry
	add := func(text string, at *time.Duration) {
		one := *e
		one.text = text
		if at != nil {
			one.stamps.set(Kernel, *at)
		}
		one.writer()
		out = append(out, one)
	}
	places := e.printkStamps(line)
	if len(places) == 0 {
		add(line, nil)
		return out
	}
	if before := strings.TrimSpace(line[:places[0][0]]); before != "" && !readerTime.MatchString(before) {
		add(before, nil)
	}
	for i, p := range places {
		end := len(line)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		at := seconds(line[p[2]:p[3]])
		add(strings.TrimRight(line[p[1]:end], " "), &at)
	}
	return out
}

// leftOpen is how long after a line's first stamp its second may be: a console's
// line is left open for a while. One that is later, or far earlier, is quoted from
// elsewhere, and text.
const leftOpen = time.Minute

// printkStamps finds printk's stamps in a line, as FindAllStringSubmatchIndex does.
func (e *entry) printkStamps(line string) [][]int {
	if e.source != "" {
		return nil
	}
	before, known := e.stamps.get(Kernel) // of /dev/kmsg
	var out [][]int
	for _, place := range printk.FindAllStringSubmatchIndex(line, -1) {
		at := seconds(line[place[2]:place[3]])
		if !known || at >= before-backwards && at <= before+leftOpen {
			out = append(out, place)
			before, known = at, true
		}
	}
	return out
}

// kmsgWriter is a program that writes to the kernel's log.
var kmsgWriter = regexp.MustCompile(`^(systemd[\w-]*|dracut[\w-]*|dockerd|containerd|udevd)\[\d+\]: `)

// writer tells who wrote a line that came through the kernel's log.
func (e *entry) writer() {
	if m := kmsgWriter.FindStringSubmatch(e.text); m != nil && e.source == "" {
		e.source, e.text = m[1], e.text[len(m[0]):]
	}
}

// seconds reads digits with six or more decimals; the form is checked already.
func seconds(s string) time.Duration {
	whole, fraction, _ := strings.Cut(s, ".")
	w, err := strconv.ParseInt(whole, 10, 32)
	if err != nil {
		return 0
	}
	f, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(w)*time.Second + time.Duration(f)
}

// wallTime reads a time of day, as a duration since 1970, or since the beginning
// of some leap year where it names no year.
func wallTime(s string) (time.Duration, bool) {
	for _, form := range clockForms {
		if t, err := time.Parse(form, strings.Replace(s, ",", ".", 1)); err == nil {
			if t.Year() == 0 {
				return t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)), true
			}
			return t.Sub(time.Unix(0, 0)), true
		}
	}
	return 0, false
}

// leapYear is the year of stamps that name none.
const leapYear = 366 * 24 * time.Hour

// overNewYear puts times of day that fall from December to January a year on.
func overNewYear(entries []entry) {
	var last, ahead time.Duration
	for i := range entries {
		at, dated := entries[i].stamps.get(Wall)
		if !dated {
			continue
		}
		if fall := last - at - ahead; fall > leapYear/2 && fall < leapYear {
			ahead += leapYear
		}
		last = at + ahead
		entries[i].stamps.set(Wall, last)
	}
}

// journalEntry are the fields of journalctl -o json and export that matter here.
type journalEntry struct {
	Message    any    `json:"MESSAGE"` // a text, or bytes where it is no UTF-8
	Monotonic  string `json:"__MONOTONIC_TIMESTAMP"`
	Source     string `json:"_SOURCE_MONOTONIC_TIMESTAMP"`
	Boot       string `json:"_BOOT_ID"`
	Transport  string `json:"_TRANSPORT"`
	Identifier string `json:"SYSLOG_IDENTIFIER"`
	Unit       string `json:"UNIT"`
}

func readJSON(number int, line string) (entry, bool) {
	var j journalEntry
	if json.Unmarshal([]byte(line), &j) != nil {
		return entry{}, false
	}
	return j.entry(number)
}

// entry is false for a record without a time of arrival, which is not the journal's.
func (j journalEntry) entry(number int) (entry, bool) {
	if j.Monotonic == "" {
		return entry{}, false
	}
	stamp := j.Monotonic // the time of arrival; the kernel's own is better for its lines
	if j.Transport == "kernel" && j.Source != "" {
		stamp = j.Source
	}
	us, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return entry{}, false
	}
	e := entry{number: number, boot: j.Boot, unit: j.Unit}
	e.stamps.set(Journal, time.Duration(us)*time.Microsecond)
	switch m := j.Message.(type) {
	case string:
		e.text = m
	case []any: // one number a byte
		raw := make([]byte, 0, len(m))
		for _, b := range m {
			if n, ok := b.(float64); ok {
				raw = append(raw, byte(n))
			}
		}
		e.text = string(raw)
	}
	e.text = strings.TrimRight(escape.ReplaceAllString(e.text, ""), "\r\n \t")
	if j.Identifier != "kernel" && (j.Identifier != "" || j.Transport != "kernel") { // programs write to the kernel's log, too
		e.source = j.Identifier
	}
	return e, true
}
