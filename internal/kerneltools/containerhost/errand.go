package containerhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/image"
	"github.com/tarelab/tare/internal/vmm"
)

// filesScript puts an errand's files, on the machine's second disk, where its script
// looks for them.
const filesScript = `mkdir -p ` + driver.FilesDir + ` && mount -o ro /dev/vdb ` + driver.FilesDir + ` || exit 125
`

// run is ContainerHost.Run.
func (h *Host) run(ctx context.Context, e driver.Errand, tell func(string)) (ran driver.Ran, err error) {
	a := h.armWith(e.Kernel)
	// What no container needs would take its time, be seen in a trace, and load modules
	// that the script may ask for itself.
	a.systemd, a.append = true, append(masks(), e.Append...)
	a.memory = max(proofMemory, a.memory, h.lab.Guest.Memory)
	disk, err := h.diskFor(ctx, a, tell)
	if err != nil {
		return ran, err
	}
	return runErrand(ctx, h.lab.RunDir, e, tell, func(files []vmm.Disk, code string) (outcome, error) {
		a.code = code
		return h.parts.once(ctx, h, a, append([]vmm.Disk{{Path: disk}}, files...), scriptOf(e), tell)
	})
}

// scriptOf is what runs of an errand.
func scriptOf(e driver.Errand) string {
	if len(e.Files) == 0 {
		return e.Script
	}
	return filesScript + e.Script
}

// runErrand gives an errand its files and the pipe for its kernel's code. boot has it run
// in a machine, whose second disk is that of files, where there is one; code is
// vmm.Machine.Code.
func runErrand(ctx context.Context, runDir string, e driver.Errand, tell func(string), boot func(files []vmm.Disk, code string) (outcome, error)) (ran driver.Ran, err error) {
	var files []vmm.Disk
	if len(e.Files) > 0 {
		dir, err := os.MkdirTemp(runDir, driver.Label+"-files-")
		if err != nil {
			return ran, driver.Labf("files of the errand: %w", err)
		}
		defer os.RemoveAll(dir)
		disk, err := filesDisk(ctx, e.Files, dir)
		if err != nil {
			return ran, err
		}
		files = append(files, disk)
	}
	var pipe string
	var code *codePipe
	if e.Code {
		if code, err = openCode(runDir); err != nil {
			return ran, err
		}
		defer func() { err = errors.Join(err, code.close()) }()
		pipe = code.path
	}
	tell("booting the machine (half a minute where the CPU is emulated, more where something else runs)")
	out, err := boot(files, pipe)
	ran = driver.Ran{Text: out.text, Exit: out.exit, Off: out.off}
	if code != nil {
		ran.Code = code.end()
	}
	var cannot *driver.CannotError
	switch {
	case err == nil:
	case ctx.Err() != nil, driver.IsLab(err), errors.As(err, &cannot):
		return ran, err
	default:
		ran.Failed = err.Error()
	}
	return ran, nil
}

// filesDisk is a disk with these files, by their last names.
func filesDisk(ctx context.Context, files []string, dir string) (vmm.Disk, error) {
	disk := vmm.Disk{Path: filepath.Join(dir, "files.ext4"), ReadOnly: true}
	tree := filepath.Join(dir, "files")
	room := int64(16 << 20) // beside the files, what ext4 keeps for itself
	err := os.Mkdir(tree, 0o755)
	for _, file := range files {
		if err == nil {
			var n int64
			n, err = copyGiven(filepath.Join(tree, filepath.Base(file)), file)
			room += n + n/16
		}
	}
	if err == nil {
		err = image.Ext4Of(ctx, disk.Path, tree, room)
	}
	if err != nil {
		return disk, driver.Labf("disk with the errand's files: %w", err)
	}
	return disk, nil
}

// copyGiven copies a regular file, whose name must not be taken.
func copyGiven(to, from string) (n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil {
		return 0, err
	} else if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", from)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(out, in)
	return n, errors.Join(err, out.Close())
}

// codePipe takes the code of a guest's kernel while it runs: nothing of it goes to a disk,
// which a guest could fill.
type codePipe struct {
	dir, path  string
	read, hold *os.File // hold is a writer: reading ends when it and the machine have ended
	blocks     chan []uint64
}

func openCode(runDir string) (*codePipe, error) {
	dir, err := os.MkdirTemp(runDir, driver.Label+"-code-")
	if err != nil {
		return nil, driver.Labf("pipe of the guest's code: %w", err)
	}
	p := &codePipe{dir: dir, path: filepath.Join(dir, "code"), blocks: make(chan []uint64, 1)}
	if err = unix.Mkfifo(p.path, 0o600); err == nil {
		p.read, err = os.OpenFile(p.path, os.O_RDONLY|unix.O_NONBLOCK, 0) // which waits for no writer
	}
	if err == nil {
		p.hold, err = os.OpenFile(p.path, os.O_WRONLY, 0)
	}
	if err != nil {
		p.read.Close()
		return nil, errors.Join(driver.Labf("pipe of the guest's code: %w", err), os.RemoveAll(dir))
	}
	go func() {
		blocks, whole, err := vmm.ReadCode(p.read)
		if err != nil || !whole {
			blocks = nil // a part says nothing: which block was the first of its function is unknown
		}
		p.blocks <- blocks
	}()
	return p, nil
}

// end returns the blocks, none where not all of them could be read; the guest has ended.
func (p *codePipe) end() []uint64 {
	p.hold.Close()
	_ = p.read.SetReadDeadline(time.Now().Add(time.Minute)) // a writer that nobody ended; a pipe takes deadlines
	return <-p.blocks
}

func (p *codePipe) close() error {
	p.read.Close()
	return os.RemoveAll(p.dir)
}
