package hostimage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
)

// Where the parts of a disk begin, in sectors of 512 bytes. GRUB has a partition of
// its own, as BIOS has no place for it on a disk with a GPT; the table's copy takes
// the last 33 sectors.
const (
	sector    = 512
	grubStart = 2048
	rootStart = 4096
	tableEnd  = 2048 // kept free at the end, a whole MiB
)

// layout is the disk's table, as sfdisk reads it. The root's type is that of the
// Discoverable Partitions Specification for x86-64, by which systemd-repart finds it.
const layout = `label: gpt
unit: sectors
start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649, name=grub
start=4096, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=` + rootLabel + `
`

// partitioned makes a raw disk of size bytes that BIOS boots: GRUB, and a root with
// the tree's files.
func partitioned(ctx context.Context, file, tree string, size int64) error {
	size -= size % (1 << 20)
	room := size - (rootStart+tableEnd)*sector
	if err := image.Ext4At(ctx, file, tree, room, rootStart*sector); err != nil {
		return driver.Labf("root of the image: %w", err)
	}
	if err := os.Truncate(file, size); err != nil {
		return driver.Labf("disk of the image: %w", err)
	}
	if err := fed(ctx, fmt.Sprintf(layout, room/sector), "sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", file); err != nil {
		return err
	}
	return bootable(ctx, file)
}

// grubModules are what GRUB needs to read the menu and to start the kernel.
var grubModules = strings.Fields("biosdisk part_gpt ext2 normal linux configfile minicmd")

// bootable puts GRUB onto a disk, as grub-bios-setup does for one that is a device:
// the first sector, which loads the second one from where its partition begins, and
// that one, which loads the rest.
func bootable(ctx context.Context, disk string) error {
	core := filepath.Join(filepath.Dir(disk), "core.img")
	args := append([]string{"-O", "i386-pc", "-d", grubDir, "-p", "(hd0,gpt2)/boot/grub", "-o", core}, grubModules...)
	if err := run(ctx, "grub-mkimage", args...); err != nil {
		return err
	}
	rest, err := os.ReadFile(core)
	if err != nil {
		return driver.Labf("GRUB: %w", err)
	}
	first, err := os.ReadFile(bootSector)
	if err != nil {
		return driver.Labf("GRUB: %w", err)
	}
	if err := aim(first, rest); err != nil {
		return driver.Labf("GRUB: %w", err)
	}
	f, err := os.OpenFile(disk, os.O_WRONLY, 0)
	if err != nil {
		return driver.Labf("GRUB: %w", err)
	}
	_, err = f.WriteAt(first[:bootCode], 0)
	if err == nil {
		_, err = f.WriteAt(rest, grubStart*sector)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return driver.Labf("GRUB: %w", err)
	}
	return nil
}

// Places in GRUB's first sectors (include/grub/i386/pc/boot.h and
// grub-core/boot/i386/pc/diskboot.S there): the sector that the first one loads, and
// the one at which the second goes on. bootCode is what may be written of the first
// sector: the disk's table follows.
const (
	bootCode   = 440
	loadsAt    = 0x5c
	goesOnAt   = 0x1f4
	coreLimit  = (rootStart - grubStart) * sector
	grubSector = 512
)

// aim tells GRUB's first two sectors where the others are.
func aim(first, core []byte) error {
	if len(first) != grubSector || len(core) < 2*grubSector || len(core) > coreLimit {
		return fmt.Errorf("its first part has %d bytes, and its second %d: want 512, and at most %d", len(first), len(core), coreLimit)
	}
	binary.LittleEndian.PutUint64(first[loadsAt:], grubStart)
	binary.LittleEndian.PutUint64(core[goesOnAt:], grubStart+1)
	return nil
}
