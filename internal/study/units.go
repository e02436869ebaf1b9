package study

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the units of ParseSize: SI prefixes are powers of 1000, IEC
// prefixes (KiB) powers of 1024 (IEC 80000-13). A bare "M" is refused: some
// programs read it as 10^6, others as 2^20.
var sizeUnits = map[string]float64{
	"B":  1,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

var quantity = regexp.MustCompile(`^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*(.*)$`)

// ParseSize reads a number of bytes as people write it: "512MiB", "1.5 GB",
// "4096B", or a plain number of bytes. It refuses sizes below 1 byte.
func ParseSize(text string) (int64, error) {
	m := quantity.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write a number and a unit, as in 512MiB", text)
	}
	number, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", text, err)
	}
	factor, known := sizeUnits[m[2]]
	switch {
	case m[2] == "":
		factor = 1
	case !known:
		return 0, fmt.Errorf("%q: %q is no unit of size: use B, kB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024)", text, m[2])
	}
	bytes := number * factor
	switch {
	case number < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case bytes < 1:
		return 0, fmt.Errorf("%q is less than one byte", text)
	case bytes >= math.MaxInt64:
		return 0, fmt.Errorf("%q is too large", text)
	}
	return int64(math.Round(bytes)), nil
}

// parseDuration reads a length of time with its unit: "10s", "1m30s", "500 ms".
// It refuses what is not above zero.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write a number and a unit (ms, s, m, h), as in 10s or 1m30s", text)
	}
	if d <= 0 {
		return 0, fmt.Errorf("%q is not above zero", text)
	}
	return d, nil
}

// ParseFraction reads a share, "2 %" or "0.02", as a fraction above 0 and below 1.
func ParseFraction(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(f) {
		return 0, fmt.Errorf(`%q is not a share: write a percentage ("2 %%") or a fraction (0.02)`, text)
	}
	if percent {
		f /= 100
	}
	if f <= 0 || f >= 1 {
		return 0, fmt.Errorf(`%q is not between 0 and 1: write a percentage ("2 %%") or a fraction (0.02)`, text)
	}
	return f, nil
}

// parseInt reads a whole number above zero: no number of a study may be less,
// and one that is absent stands for the default.
func parseInt(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%q is too large", text)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	if n < 1 {
		return 0, fmt.Errorf("%d is less than 1", n)
	}
	return n, nil
}

// parseNumber reads a number above zero.
func parseNumber(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if f <= 0 {
		return 0, fmt.Errorf("%g is not above zero", f)
	}
	return f, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}
