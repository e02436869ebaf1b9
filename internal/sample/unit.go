package sample

// readUnits are the units that programs print, with the base unit of each and how much
// of it one of them is. The names are those of SI and of IEC 80000-13, and spellings
// that common tools print.
var readUnits = map[string]struct {
	base   Unit
	factor float64
}{
	"ns": {Seconds, 1e-9}, "us": {Seconds, 1e-6}, "µs": {Seconds, 1e-6}, "ms": {Seconds, 1e-3}, "s": {Seconds, 1}, "min": {Seconds, 60},
	"B": {Bytes, 1}, "kB": {Bytes, 1e3}, "MB": {Bytes, 1e6}, "GB": {Bytes, 1e9}, "KiB": {Bytes, 1 << 10}, "MiB": {Bytes, 1 << 20}, "GiB": {Bytes, 1 << 30},
	"1": {Count, 1}, "%": {Count, 0.01},
	"1/s": {PerSecond, 1}, "k/s": {PerSecond, 1e3}, "M/s": {PerSecond, 1e6},
	"B/s": {BytesPerSecond, 1}, "kB/s": {BytesPerSecond, 1e3}, "MB/s": {BytesPerSecond, 1e6}, "GB/s": {BytesPerSecond, 1e9},
	"KiB/s": {BytesPerSecond, 1 << 10}, "MiB/s": {BytesPerSecond, 1 << 20}, "GiB/s": {BytesPerSecond, 1 << 30},
	"bit/s": {BitsPerSecond, 1}, "kbit/s": {BitsPerSecond, 1e3}, "Mbit/s": {BitsPerSecond, 1e6}, "Gbit/s": {BitsPerSecond, 1e9},
}

// ReadUnits names the units in which a number can be read, for messages.
const ReadUnits = "ns, us, ms, s, min, B, kB, MB, GB, KiB, MiB, GiB, B/s and so on, bit/s, kbit/s, Mbit/s, Gbit/s, 1/s, k/s, M/s, 1, %"

// ReadUnit is the base unit in which numbers of a printed unit are recorded, and what
// they are multiplied by.
func ReadUnit(printed string) (base Unit, factor float64, ok bool) {
	u, ok := readUnits[printed]
	return u.base, u.factor, ok
}
