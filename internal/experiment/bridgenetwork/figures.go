package bridgenetwork

import (
	"slices"

	"github.com/tarelab/tare/internal/analysis"
	"github.com/tarelab/tare/internal/finding"
	"github.com/tarelab/tare/internal/quantity"
	"github.com/tarelab/tare/internal/sample"
)

// figures are the ways that were measured, the published places, and the curves over
// the number of containers.
func figures(n *description, tables []analysis.Table) []finding.Figure {
	var out []finding.Figure
	if f := waysFigure(tables); len(f.Chains) > 0 {
		out = append(out, f)
	}
	if f := placesFigure(n, tables); len(f.Bars) > 0 {
		out = append(out, f)
	}
	return append(out, growthFigures(n)...)
}

// ways are the paths between two ends, each as the boxes that a packet passes.
var ways = map[string][]finding.Box{
	loopback:           {place("client and server"), link("lo")},
	"host-network":     {place("client, server: the host's"), link("lo")},
	"veth":             {place("client"), link("veth"), place("server")},
	onBridge:           {place("client"), link("veth"), link("bridge"), link("veth"), place("server")},
	"cni":              {place("client"), link("veth, by CNI"), link("bridge"), link("veth, by CNI"), place("server")},
	"bridge-netfilter": {place("client"), link("veth"), link("bridge"), link("netfilter"), link("veth"), place("server")},
	"bridges":          {place("client"), link("veth"), link("bridge"), link("routing"), link("bridge"), link("veth"), place("server")},
	twoHosts:           {place("client"), link("veth"), link("bridge"), link("VXLAN"), link("link"), link("VXLAN"), link("bridge"), link("veth"), place("server")},
	"nat":              {place("client"), link("veth"), link("bridge"), link("DNAT"), link("masquerade"), link("bridge"), link("veth"), place("server")},
	"proxy":            {place("client"), link("veth"), link("bridge"), place("proxy"), link("bridge"), link("veth"), place("server")},
	"macvlan":          {place("client"), link("macvlan"), place("server")},
	"ipvlan":           {place("client"), link("ipvlan"), place("server")},
	"idle-engine":      {place("client and server"), link("lo beside an idle engine")},
	"from-host":        {place("client: the host"), link("bridge"), link("veth"), place("server")},
	attach:             {place("client"), link("veth"), link("bridge")},
	"remote":           {place("client: this machine's network"), link("NIC"), link("network"), link("NIC"), place("server: the other machine's network")},
	"remote-vxlan":     {place("client"), link("veth"), link("bridge"), link("VXLAN"), link("network"), link("VXLAN"), link("bridge"), link("veth"), place("server")},
	"remote-wireguard": {place("client"), link("veth"), link("bridge"), link("routing"), link("WireGuard"), link("network"), link("WireGuard"), link("routing"), link("bridge"), link("veth"), place("server")},
	"remote-macvlan":   {place("client"), link("macvlan"), link("network"), link("macvlan"), place("server")},
	"remote-cni":       {place("client"), link("this machine's CNI network"), link("network"), link("the other one's"), place("server")},
	"remote-ipvlan":    {place("client"), link("ipvlan"), link("network"), link("ipvlan"), place("server")},
}

// place is a network namespace.
func place(name string) finding.Box { return finding.Box{Name: name, Place: true} }

// link is a link, or what works on packets.
func link(name string) finding.Box { return finding.Box{Name: name} }

// waysFigure are the ways that the run has measured.
func waysFigure(tables []analysis.Table) finding.Figure {
	f := finding.Figure{Title: "The ways between client and server"}
	for _, t := range tables {
		for _, r := range t.Rows {
			_, path := onPath(r.Target)
			drawn := slices.ContainsFunc(f.Chains, func(c finding.Chain) bool { return c.Name == path })
			if boxes := ways[path]; boxes != nil && !drawn {
				f.Chains = append(f.Chains, finding.Chain{Name: path, Boxes: boxes})
			}
		}
	}
	return f
}

// placesFigure are the published places, here and there, each as a share of its host;
// without bars where none was measured.
func placesFigure(n *description, tables []analysis.Table) finding.Figure {
	f := finding.Figure{Title: "Throughput as a share of the host's own loopback", Y: finding.Axis{Label: "of the host", Zero: true}}
	for _, t := range throughputs(tables) {
		for _, r := range t.Rows {
			if r.Effect != nil && !r.AA && r.Effect.Ratio > 0 {
				b := finding.Bar{Name: r.Target + ", " + t.Group, Look: finding.Measured, Parts: []finding.Part{{Value: r.Effect.Ratio}}}
				if quantity.Known(r.Effect.Interval) {
					b.Low, b.High = r.Effect.Interval.Low, r.Effect.Interval.High
				}
				f.Bars = append(f.Bars, b)
			}
		}
	}
	if len(f.Bars) == 0 {
		return f
	}
	p := n.Published.Throughput
	for _, place := range []struct {
		name  string
		share float64
	}{{"published: one container", p.SameContainer / p.Host}, {"published: two on a bridge", p.CrossContainer / p.Host}} {
		f.Bars = append(f.Bars, finding.Bar{Name: place.name, Look: finding.Published, Parts: []finding.Part{{Value: place.share}}})
	}
	return f
}

// growthFigures are a curve for each metric over the number of containers, each
// as a share of its most, with the published slope beside throughput.
func growthFigures(n *description) []finding.Figure {
	var out []finding.Figure
	for _, g := range n.Growth {
		if g.most() <= 0 {
			continue
		}
		i := slices.IndexFunc(out, func(f finding.Figure) bool { return f.Title == growthTitle(g) })
		if i < 0 {
			i = len(out)
			out = append(out, finding.Figure{Title: growthTitle(g), X: finding.Axis{Label: "containers on the bridge", Zero: true}, Y: finding.Axis{Label: "share of the most"}})
		}
		out[i].Lines = append(out[i].Lines, growthLine(g))
		if g.Metric.Name == sample.Throughput && len(out[i].Lines) == 1 {
			last := float64(g.Points[len(g.Points)-1].Containers)
			out[i].Lines = append(out[i].Lines, finding.Line{Name: "published slope", Look: finding.Published,
				Points: []finding.Point{finding.Exactly(2, 1), finding.Exactly(last, 1-n.Loss*(last-2))}})
		}
	}
	return out
}

func growthTitle(g growth) string {
	return g.Metric.Name + " of " + g.Workload + " over containers"
}

func growthLine(g growth) finding.Line {
	most := g.most()
	l := finding.Line{Name: g.Target + ", " + g.Arm, Look: finding.Measured}
	for _, p := range g.Points {
		l.Points = append(l.Points, finding.Point{X: float64(p.Containers), Y: p.Median / most, Low: p.Interval.Low / most, High: p.Interval.High / most})
	}
	return l
}
