package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The usual snapshotter is taken where it works, and where none does the reasons are
// told.
func TestSnapshotters(t *testing.T) {
	fails := errors.New("not on this file system")
	for want, broken := range map[string]map[string]error{"overlayfs": {"native": nil, "overlayfs": nil}, "native": {"overlayfs": fails, "native": nil}} {
		if got, err := firstThatWorks(broken); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if _, err := firstThatWorks(map[string]error{"overlayfs": fails}); err == nil || !strings.Contains(err.Error(), "overlayfs: not on this file system; native is not there") {
		t.Errorf("none works: %v", err)
	}
}

// Where containerd has no overlayfs, containers run by its other snapshotter, and
// nothing of theirs is left in it.
func TestContainerdWithoutOverlayfs(t *testing.T) {
	f := containerdFlavor()
	f.daemon = startedBy{f.daemon, func(e *engine, program, socket string) (daemonCommand, error) {
		d, err := containerdDaemon{}.command(e, program, socket)
		if err != nil {
			return d, err
		}
		config := filepath.Join(filepath.Dir(socket), "config.toml")
		text, err := os.ReadFile(config)
		if err != nil {
			return d, err
		}
		text = bytes.Replace(text, []byte("disabled_plugins = ["), []byte(`disabled_plugins = ["io.containerd.snapshotter.v1.overlayfs", `), 1)
		return d, os.WriteFile(config, text, 0o600)
	}}
	d := containerds(laboratory(t), f)[0].(*containerdDriver)
	defer func() {
		if err := d.Teardown(); err != nil {
			t.Error(err)
		}
	}()
	facts, err := d.Check(t.Context())
	if err != nil || facts.Notes["storage"] != "native" {
		t.Fatalf("%v, %v", facts.Notes, err)
	}
	if err := d.engine.flavor.daemon.removeAll(t.Context(), d.engine.socket, owner()); err != nil {
		t.Error(err)
	}
	if owners, err := (containerdDaemon{}).owners(t.Context(), d.engine.socket); err != nil || len(owners) > 0 {
		t.Errorf("of %q something is left: %v", owners, err)
	}
}
