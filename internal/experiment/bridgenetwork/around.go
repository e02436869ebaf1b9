package bridgenetwork

import (
	"github.com/tarelab/tare/internal/sample"
	"github.com/tarelab/tare/internal/stats"
)

// around is what a cell's network had besides its two ends: medians over trials.
type around struct {
	Target     string  `json:"target"`
	Workload   string  `json:"workload"`
	Level      string  `json:"level"`
	Containers float64 `json:"containers"` // that were alive, the ends among them
	NFTRules   float64 `json:"nftRules"`
	IPTables   float64 `json:"iptables"`
	Proxies    float64 `json:"proxies"`
	Resolvers  float64 `json:"resolvers"`
}

// arounds are those of the cells that have more than two ends and nothing besides.
func (r reader) arounds() []around {
	var out []around
	for _, c := range r.Cells {
		if !plain(c) || c.Limits.Network == nil || r.Series(c.ID, sample.OnNetwork).Len() == 0 {
			continue
		}
		count := func(metric string) float64 {
			values := r.Series(c.ID, metric).Values()
			if len(values) == 0 {
				return 0
			}
			return stats.Median(stats.Sorted(values))
		}
		a := around{Target: c.Target, Workload: c.Workload, Level: c.Environment, Containers: count(sample.OnNetwork),
			NFTRules: count(sample.NFTRules), IPTables: count(sample.IPTablesRules), Proxies: count(sample.Proxies), Resolvers: count(sample.Resolvers)}
		if a.Containers > 2 || a.NFTRules+a.IPTables+a.Proxies+a.Resolvers > 0 {
			out = append(out, a)
		}
	}
	return out
}
