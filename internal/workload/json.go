package workload

import (
	"bytes"
	"fmt"
	"math"

	"github.com/tarelab/tare/internal/sample"
)

// jsonObject cuts off what a program prints before its report: fio and iperf3
// put notes on standard output, each a line, before the line that opens the
// object. Without such a line the input comes back as it is.
func jsonObject(stdout []byte) []byte {
	if bytes.HasPrefix(stdout, []byte("{")) {
		return stdout
	}
	if i := bytes.Index(stdout, []byte("\n{")); i >= 0 {
		return stdout[i+1:]
	}
	return stdout
}

// checked refuses numbers that cannot be measurements.
func checked(values []sample.Value) ([]sample.Value, error) {
	for _, v := range values {
		if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || v.Value < 0 {
			return nil, fmt.Errorf("%s: %v cannot have been measured", v.Metric, v.Value)
		}
	}
	return values, nil
}
