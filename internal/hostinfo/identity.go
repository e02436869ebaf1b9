package hostinfo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// application is tare's application id for machineID, drawn once at random.
var application = [16]byte{0x9c, 0x1f, 0x4e, 0x6b, 0x0d, 0x52, 0x43, 0xa8, 0xb7, 0xe0, 0x2a, 0x95, 0x63, 0xd4, 0x18, 0x7f}

// machineID is the machine's id as this application alone sees it: a keyed hash of
// /etc/machine-id, as sd_id128_get_machine_app_specific(3) makes it. The id itself must
// not leave the machine (machine-id(5)). A machine without one has "".
func machineID(text string) string {
	id, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(id) != 16 {
		return ""
	}
	mac := hmac.New(sha256.New, id)
	mac.Write(application[:])
	sum := mac.Sum(nil)[:16]
	sum[6] = sum[6]&0x0f | 0x40 // a UUID of version 4, variant DCE
	sum[8] = sum[8]&0x3f | 0x80
	return hex.EncodeToString(sum)
}

// Tag tells this machine in this boot from all others, in eight characters. Machines
// that were cloned have one id: the host name and the boot differ.
func (h Host) Tag() string {
	sum := sha256.Sum256([]byte(h.Machine + "\x00" + h.Hostname + "\x00" + h.BootID))
	return hex.EncodeToString(sum[:4])
}

// identifiers are values that name one machine or disk: a machine-id, a UUID.
var identifiers = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b`)

// commandLine is the kernel's, without such values: systemd.machine_id= may be there.
func commandLine(text string) string { return identifiers.ReplaceAllString(text, "ID") }

// chosen is the word in brackets of a list such as "always [madvise] never".
func chosen(list string) string {
	_, rest, _ := strings.Cut(list, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// The places of Host.Place.
const (
	PlaceHost      = "host"
	PlaceContainer = "container"
	PlacePod       = "pod" // of an orchestrator
	PlaceJob       = "job" // of a batch scheduler
)

// place says in what tare itself runs: by the variables that schedulers set for all
// their processes, else by the files that container engines make.
func place(root string, variable func(string) string) string {
	for _, p := range []struct{ variable, place string }{
		{"KUBERNETES_SERVICE_HOST", PlacePod}, {"SLURM_JOB_ID", PlaceJob}, {"PBS_JOBID", PlaceJob}, {"LSB_JOBID", PlaceJob}, {"_CONDOR_SLOT", PlaceJob}, {"FLUX_JOB_ID", PlaceJob},
	} {
		if variable(p.variable) != "" {
			return p.place
		}
	}
	for _, file := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			return PlaceContainer
		}
	}
	return PlaceHost
}

// granted is how many of the machine's CPUs a batch scheduler says that it gave: Slurm's
// SLURM_CPUS_ON_NODE (sbatch(1)).
func granted(variable func(string) string) int {
	n, err := strconv.Atoi(variable("SLURM_CPUS_ON_NODE"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Shared says so where a batch scheduler gave tare a part of the machine: others may have
// jobs on the rest. "" where tare is alone, or nothing says otherwise.
func (h Host) Shared() string {
	if h.Granted == 0 || h.Granted >= h.CPUs {
		return ""
	}
	return fmt.Sprintf("the batch scheduler gave this job %d of the machine's %d CPUs: other jobs may disturb it; ask for the whole machine (sbatch --exclusive), or say why its configuration has fewer CPUs", h.Granted, h.CPUs)
}

// cgroupDepth is how many groups lie between a process and the roots of the hierarchies,
// by its /proc/PID/cgroup: the most of all hierarchies.
func cgroupDepth(text string) int {
	deepest := 0
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && parts[2] != "/" {
			deepest = max(deepest, strings.Count(parts[2], "/"))
		}
	}
	return deepest
}
