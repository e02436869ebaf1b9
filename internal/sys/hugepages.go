package sys

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hugePagesDir is where the kernel keeps its pool of huge pages of 2 MiB (kernel,
// Documentation/admin-guide/mm/hugetlbpage.rst).
const hugePagesDir = "/sys/kernel/mm/hugepages/hugepages-2048kB"

// hugePagesFile is how many it holds.
var hugePagesFile = filepath.Join(hugePagesDir, "nr_hugepages")

// HugePagesSettings add so many huge pages to the machine's pool.
func HugePagesSettings(more int64) (map[string]string, error) {
	now, err := ReadNumber(hugePagesFile)
	if err != nil {
		return nil, err
	}
	return map[string]string{hugePagesFile: strconv.FormatInt(int64(now)+more, 10)}, nil
}

// HugePagesLack says why the machine has no pool of huge pages; "" where it has.
func HugePagesLack() string {
	if err := accessible(hugePagesFile); err != nil {
		return "the machine's kernel has no huge pages of 2 MiB that this user may add: " + err.Error()
	}
	return ""
}

// enoughHugePages is an error where the pool did not get as many as were asked for: where
// memory is scarce or in pieces the kernel takes fewer, and reports no error.
func enoughHugePages(values map[string]string) error {
	want, asked := values[hugePagesFile]
	if !asked {
		return nil
	}
	text, err := os.ReadFile(hugePagesFile)
	if err != nil {
		return err
	}
	if got := strings.TrimSpace(string(text)); got != want {
		return fmt.Errorf("%s is %s, and %s were asked for: the machine has no more free memory in pieces of 2 MiB", hugePagesFile, got, want)
	}
	return nil
}
