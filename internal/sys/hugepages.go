package sys

import (
	"path/filepath"
	"strconv"
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
