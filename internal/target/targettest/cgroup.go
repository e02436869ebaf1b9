package targettest

import (
	"time"

	"github.com/tarelab/tare/internal/target"
)

func makeCgroup(id string, limits target.Limits) (string, error) { return "", nil }

func (s *suite) removeCgroup(rel string) error { return nil }

func cgroupExists(rel string) error { return nil }

func cpuTime(rel string) (time.Duration, error) { return 0, lackf("no cgroups yet") }
