package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarelab/tare/internal/lab"
	"github.com/tarelab/tare/internal/report"
)

// watch shows what a cgroup or process that already runs waits for.
func (env *Env) watch(c *cobra.Command, probe string, f *watchFlags) error {
	config := env.config(c)
	found, err := lab.Watch(c.Context(), probe, f.cgroup, f.pid, f.duration)
	if err != nil {
		return err
	}
	if err := report.WriteWaits(env.Stdout, found.Claim, env.textOptions()); err != nil {
		return err
	}
	if err := os.MkdirAll(config.StateDir, 0o755); err != nil {
		return fmt.Errorf("state directory: %w (choose another with --state)", err)
	}
	stem := filepath.Join(config.StateDir, fmt.Sprintf("%s-%s", probe, time.Now().UTC().Format("20060102-150405")))
	files, err := lab.WriteProfile(stem, found.Profile)
	if err != nil {
		return err
	}
	for _, file := range files {
		fmt.Fprintln(env.Stderr, "profile:", file)
	}
	return nil
}
