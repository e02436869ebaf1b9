package sys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ksmDir is where the kernel's merging of equal pages is told what to do (kernel,
// Documentation/admin-guide/mm/ksm.rst).
const ksmDir = "/sys/kernel/mm/ksm"

// KSMSettings have the kernel merge equal pages at a speed at which it has seen
// some guests within seconds: by default it takes 100 pages every 20 ms.
func KSMSettings() map[string]string {
	return map[string]string{
		filepath.Join(ksmDir, "run"):             "1",
		filepath.Join(ksmDir, "pages_to_scan"):   "20000",
		filepath.Join(ksmDir, "sleep_millisecs"): "20",
	}
}

// KSMLacks says why equal pages cannot be merged here; "" where they can.
func KSMLacks() string {
	switch err := accessible(filepath.Join(ksmDir, "run")); {
	case err == nil:
		return ""
	case errors.Is(err, os.ErrNotExist):
		return "the kernel has no KSM (" + ksmDir + " is not there: CONFIG_KSM)"
	default:
		return fmt.Sprintf("KSM cannot be turned on: %v", err)
	}
}

func accessible(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// ksmScans is how often the kernel must have looked at all memory until it has
// merged what does not change: a page is remembered at the first look, and merged
// at a later one where it is still the same; the one under way is none.
const ksmScans = 3

// AwaitKSM returns when the kernel has looked at all mergeable memory often enough,
// or ctx has ended.
func AwaitKSM(ctx context.Context) error { return awaitScans(ctx, filepath.Join(ksmDir, "full_scans")) }

func awaitScans(ctx context.Context, file string) error {
	first, err := ReadNumber(file)
	for now := first; err == nil && now < first+ksmScans; now, err = ReadNumber(file) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("KSM had looked at all pages %.0f times of %d: %w", now-first, ksmScans, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err != nil {
		return fmt.Errorf("KSM: %w", err)
	}
	return nil
}
