package kerneltools

import (
	"slices"
	"testing"

	"github.com/tarelab/tare/internal/kerneltools/trim"
)

// TestNeedsGone: of a distribution's base, a kernel for Docker no longer reaches
// disks and file systems that the base does, and each is told; a need that it still
// meets, and one that the base never met, is not.
func TestNeedsGone(t *testing.T) {
	base, err := readConfig("kconfig/testdata/debian-6.1-cloud.config.gz")
	if err != nil {
		t.Fatal(err)
	}
	made := &trim.Result{Config: "kconfig/testdata/container-6.1.config.gz"}
	gone, err := needsGone(base, made)
	if err != nil {
		t.Fatal(err)
	}
	ids := idsOf(gone)
	for id, want := range map[string]bool{"virtio-scsi": true, "nvme": true, "lvm": true, "vfat": true, "iso9660": true, "docker": false, "ext4": false, "sata": false} {
		if slices.Contains(ids, id) != want {
			t.Errorf("%s is gone: %v, want %v", id, !want, want)
		}
	}
	if gone, err := needsGone(nil, made); err != nil || len(gone) > 0 {
		t.Errorf("without a base: %v, %v", gone, err)
	}
}
