package study

import (
	"net/netip"
	"slices"
	"strings"
)

// PathSign stands between a target's name and the path that it is on.
const PathSign = "@"

// OnPaths puts the targets on the study's paths: in the order of targets, and for
// each in the order of paths. The result has no paths left.
func (s Study) OnPaths() Study {
	if len(s.Paths)+len(s.OptionalPaths) == 0 {
		return s
	}
	all := append(slices.Clone(s.Paths), s.OptionalPaths...)
	plain := slices.DeleteFunc(slices.Clone(s.Targets), hasPath)
	optional := append(onEach(plain, s.OptionalPaths), onEach(s.Optional, all)...)
	s.Targets = onEach(s.Targets, all)
	s.Optional = slices.DeleteFunc(optional, func(t string) bool { return t == s.Control })
	s.Paths, s.OptionalPaths = nil, nil
	return s
}

func hasPath(target string) bool { return strings.Contains(target, PathSign) }

// onEach gives every target on every path; one that names its path stays as it is.
func onEach(targets, paths []string) []string {
	var placed []string
	for _, t := range targets {
		if hasPath(t) {
			placed = append(placed, t)
			continue
		}
		for _, p := range paths {
			placed = append(placed, t+PathSign+p)
		}
	}
	return placed
}

// Words of a network's keys.
var (
	neighbours = []string{"empty", "permanent", "learned"}
	offloads   = []string{"on", "off", "no-checksums", "no-tso", "no-gso"}
	pins       = []string{"free", "apart", "same"}
	others     = []string{"namespaces", "containers"}
	qdiscs     = []string{"noqueue", "pfifo_fast", "pfifo", "fq", "fq_codel", "sfq"}
)

// Bounds of a link's MTU: the least that IPv4 and IPv6 ask for (RFC 791, RFC 8200), and
// the most that their length fields can say.
const (
	minMTU  = 68
	minMTU6 = 1280
	maxMTU  = 65535
)

// maxRules bounds a policy's rules: a packet passes them one after another.
const maxRules = 100000

// Bounds of the machine's limit of neighbours: fewer would take others' network
// away from them.
const (
	minNeighbours = 1024
	maxNeighbours = 1 << 20
)

func (c *checker) network(at string, n *Network) {
	if n == nil {
		return
	}
	if n.Containers != 0 && (n.Containers < 2 || n.Containers > maxCopies) {
		c.fail(at+".containers", "%d containers: two talk, and at most %d can be attached", n.Containers, maxCopies)
	}
	if n.MTU != 0 && (n.MTU < minMTU || n.MTU > maxMTU) {
		c.fail(at+".mtu", "an MTU of %d: between %d and %d bytes are possible", n.MTU, minMTU, maxMTU)
	}
	if n.Limit != 0 && (n.Limit < minNeighbours || n.Limit > maxNeighbours) {
		c.fail(at+".neighbour-limit", "a limit of %d neighbours: between %d and %d are possible", n.Limit, minNeighbours, maxNeighbours)
	}
	if most := max(2, n.Containers) / 2; n.Pairs < 0 || n.Pairs > most {
		c.fail(at+".pairs", "%d pairs: %d containers make at most %d", n.Pairs, max(2, n.Containers), most)
	}
	if n.Rules < 0 || n.Rules > maxRules {
		c.fail(at+".rules", "%d rules: between 0 and %d are possible", n.Rules, maxRules)
	}
	for _, word := range []struct {
		key, value string
		known      []string
	}{{"neighbours", n.Neighbours, neighbours}, {"offload", n.Offload, offloads}, {"pin", n.Pin, pins}, {"others", n.Others, others}, {"qdisc", n.Qdisc, qdiscs}} {
		if word.value != "" && !slices.Contains(word.known, word.value) {
			c.fail(at+"."+word.key, "%s", unknown("value", word.value, word.known))
		}
	}
	p, err := netip.ParsePrefix(n.Range)
	if n.Range != "" && (err != nil || p.Addr().BitLen()-p.Bits() < 14 || p != p.Masked()) {
		c.fail(at+".range", "%q is no range: write a network of at least 16384 addresses, as 10.213.0.0/16 or fd74:6172:6500::/112", n.Range)
	}
	if p.Addr().Is6() && n.MTU != 0 && n.MTU < minMTU6 {
		c.fail(at+".mtu", "an MTU of %d: IPv6 takes at least %d bytes", n.MTU, minMTU6)
	}
	if p.Addr().Is6() && n.Limit != 0 {
		c.fail(at+".neighbour-limit", "the limit is that of IPv4's table, and the range %s is of IPv6", n.Range)
	}
}
