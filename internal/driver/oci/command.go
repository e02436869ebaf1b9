package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/driver/launch"
)

// saidLimit bounds what is kept of a runtime's output and quoted of its log.
const saidLimit = 64 << 10

// command runs one of the runtime's commands, outside the clock, in the
// surroundings that the runtime needs, and returns its standard output. A
// command that outlives ctx is killed.
func (d *Driver) command(ctx context.Context, binary string, h home, args ...string) ([]byte, error) {
	steps, err := d.surroundings()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(h.upper()); err == nil {
		// runsc looks for a file of its own in the rootfs when it deletes; what
		// was written there is in the overlay's upper directory.
		steps = append(steps, launch.Bind(h.upper(), h.rootfs()))
	}
	out, err := os.CreateTemp(h.volatile, "out-")
	if err != nil {
		return nil, driver.Labf("output of %s: %w", d.runtime.Binary, err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	log := out.Name() + ".log"
	defer os.Remove(log)
	process, err := launch.New(ctx, launch.Config{
		Launcher: d.lab.LaunchPath, Env: environment(), Stdio: driver.Stdio{Stdout: out, Stderr: out}, Pre: steps,
		Args: d.arguments(binary, h.state(), log, args...),
	})
	if err != nil {
		return nil, err
	}
	result, err := waitFor(ctx, process)
	if err == nil && (result.Payload.Code != 0 || result.Payload.Signal != 0) {
		err = &launch.RuntimeError{Name: d.runtime.Binary, Exit: result.Payload}
	}
	said, rerr := readSome(out.Name())
	if err != nil {
		if message := lastError(log); message != "" {
			said = []byte(message)
		}
		return nil, fmt.Errorf("%s %s: %w: %s", d.runtime.Binary, args[0], err, bytes.TrimSpace(said))
	}
	return said, rerr
}

func waitFor(ctx context.Context, process *launch.Process) (launch.Result, error) {
	if err := process.Go(); err != nil {
		return launch.Result{}, errors.Join(err, process.Close())
	}
	result, err := process.Wait(ctx)
	return result, errors.Join(err, process.Close())
}

func readSome(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, saidLimit))
}

// forget deletes the container id, killing it if it still runs. One that the
// runtime's state does not know is no error.
func (d *Driver) forget(ctx context.Context, binary string, h home, id string) error {
	known, err := containers(h.state())
	if err != nil || !slices.Contains(known, id) {
		return err
	}
	_, err = d.command(ctx, binary, h, "delete", "--force", id)
	return err
}

// containers are the ids that a runtime's state holds something of: a directory
// ID, or runsc's files ID_sandbox:ID.state and the like.
func containers(state string) ([]string, error) {
	entries, err := os.ReadDir(state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		// An id has neither of these signs: see driver.Spec.ID.
		id, _, _ := strings.Cut(e.Name(), "_")
		id, _, _ = strings.Cut(id, ".")
		if strings.HasPrefix(id, driver.Label+"-") && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Status is a container as its runtime's "state" command tells it.
type Status struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	PID    int    `json:"pid"`
}

// status asks the runtime for a container's state.
func (d *Driver) status(ctx context.Context, binary string, h home, id string) (Status, error) {
	out, err := d.command(ctx, binary, h, "state", id)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("%s state printed %.200q: %w", d.runtime.Binary, out, err)
	}
	return s, nil
}

// lastError is the last error in a runtime's log, or its last line where no
// line is an error; "" for an empty log or none.
func lastError(file string) string {
	data, err := readSome(file)
	if err != nil {
		return ""
	}
	message, last := "", ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		text, severe := parseLog(line)
		if severe && text != "" {
			message = text
		}
		if line != "" {
			last = line
		}
	}
	if message == "" {
		message = last
	}
	return fmt.Sprintf("%.1000s", message)
}

// parseLog reads one line: {"level":"error","msg":"..."} of runc, crun and
// runsc, {"level":"ERROR","fields":{"message":"..."}} of youki.
func parseLog(line string) (text string, severe bool) {
	var entry struct {
		Level  string `json:"level"`
		Msg    string `json:"msg"`
		Fields struct {
			Message string `json:"message"`
			Error   string `json:"err"`
		} `json:"fields"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return "", false // garbage is quoted as it stands
	}
	text = entry.Msg
	if text == "" {
		text = strings.TrimSpace(entry.Fields.Message + " " + entry.Fields.Error)
	}
	switch strings.ToLower(entry.Level) {
	case "error", "fatal", "panic":
		return text, true
	}
	return text, false
}
