package workload

import (
	_ "embed" // the scripts
	"strconv"

	"github.com/tarelab/tare/internal/driver"
)

// Scripts that make a server's files, if it has any, below /tmp and become it. $1 is the
// port, $2 the address to listen at.
var (
	//go:embed redis.sh
	redisScript string
	//go:embed nginx.sh
	nginxScript string
	//go:embed postgres.sh
	postgresScript string
)

// redis answers from memory, in one process.
func redis() openLoop {
	return openLoop{
		kind: "redis", protocol: "redis", rate: "1000", needs: []string{"busybox", "redis-server"}, writes: true,
		help:  "redis: GET or SET of a thousand keys, at a given rate",
		bytes: payloadBytes("64", "bytes of a value"),
		server: func(Values) []string {
			return []string{shellPath, "-c", redisScript, "redis", driver.PeerPort, everyAddress}
		},
	}
}

// nginx answers from the page cache, from processes of its own.
func nginx() openLoop {
	return openLoop{
		kind: "nginx", protocol: "http", rate: "1000", needs: []string{"busybox", "nginx"},
		help:   "nginx: GET of a file over HTTP/1.1, at a given rate",
		bytes:  payloadBytes("1KiB", "bytes of the file"),
		params: []Param{{Name: "workers", Type: Integer, Default: "1", Help: "worker processes", Min: 1, Max: 1024}},
		server: func(v Values) []string {
			return []string{shellPath, "-c", nginxScript, "nginx", driver.PeerPort, everyAddress,
				strconv.FormatInt(v.Bytes("bytes"), 10), strconv.FormatInt(v.Int("workers"), 10)}
		},
	}
}

// postgres answers from its own buffers, with a process for each connection. It
// refuses to run as root.
func postgres() openLoop {
	return openLoop{
		kind: "postgres", protocol: "postgres", rate: "500", needs: []string{"busybox", "postgres", "initdb"}, writes: true, user: nobody,
		help:  "PostgreSQL: one row of a thousand read or updated by its key, each a transaction, at a given rate",
		bytes: payloadBytes("64", "bytes of a row's text"),
		server: func(v Values) []string {
			return []string{shellPath, "-c", postgresScript, "postgres", driver.PeerPort, everyAddress, strconv.FormatInt(v.Int("connections")+20, 10)}
		},
	}
}
