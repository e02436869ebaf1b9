package netpath

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"github.com/tarelab/tare/internal/driver"
	"github.com/tarelab/tare/internal/net"
	"github.com/tarelab/tare/internal/sample"
)

// crowd is the containers of the target on a network besides the two ends. They are
// alive, and have said so, from before the clock starts until Close.
type crowd struct {
	members []*member
	output  *serverOutput
	stop    context.CancelFunc
}

// member is one container of a crowd.
type member struct {
	driver.Instance
	place int // number on the network, from 0
	stop  context.CancelFunc
	ended chan error
}

// job is what the member at a place runs.
type job struct {
	place int
	join  driver.Join
	args  []string
}

// startCrowd starts a container at each of the places that the ends left. With pairs,
// the servers come first, because their clients dial them at once.
func (i *instance) startCrowd(ctx context.Context) error {
	if len(i.ends.others) == 0 {
		return nil
	}
	servers, rest := i.crowdJobs()
	output, err := listen()
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	i.crowd = &crowd{output: output, stop: stop}
	for _, jobs := range [][]job{servers, rest} {
		if err := i.startMembers(ctx, running, jobs); err != nil {
			return err
		}
	}
	return nil
}

// crowdJobs are the servers of the pairs that do the payload's work too, and all others.
func (i *instance) crowdJobs() (servers, rest []job) {
	n := i.spec.Network
	for place, join := range i.ends.others {
		one := job{place: place, join: join, args: []string{program, "idle"}}
		pair := place / 2
		switch {
		case len(i.spec.Peer) > 0 && pair < n.Pairs-1 && place%2 == 0:
			one.args = again(i.everywhere(port))
			servers = append(servers, one)
			continue
		case len(i.spec.Peer) > 0 && pair < n.Pairs-1:
			server := i.ends.others[place-1].Address.Addr().String()
			one.args = again(fill(port, server)(i.spec.Args))
		case n.Chatter && join.Gateway.IsValid():
			one.args = []string{program, "chatter", join.Gateway.String() + ":" + discard}
		}
		rest = append(rest, one)
	}
	return servers, rest
}

// discard is the port of a service that nobody runs.
const discard = "9"

// again is a command that is run until its container ends.
func again(args []string) []string { return append([]string{program, "again", "--"}, args...) }

// startMembers starts containers, several at once as far as their driver takes them, and
// waits until each has said that it runs.
func (i *instance) startMembers(ctx, running context.Context, jobs []job) error {
	made := make([]*member, len(jobs))
	group, starting := errgroup.WithContext(ctx)
	group.SetLimit(max(1, i.driver.inner.Properties().MaxParallel))
	for k, one := range jobs {
		group.Go(func() (err error) {
			if err = starting.Err(); err == nil {
				made[k], err = i.startMember(starting, running, one)
			}
			return err
		})
	}
	err := group.Wait()
	for _, m := range made {
		if m != nil {
			i.crowd.members = append(i.crowd.members, m)
		}
	}
	if err != nil {
		return i.crowd.output.explain(fmt.Errorf("the containers on the network: %w", err))
	}
	return i.awaitMembers(ctx)
}

// startMember starts one. What it returns is Close's to end, also with an error.
func (i *instance) startMember(ctx, running context.Context, one job) (*member, error) {
	name := fmt.Sprintf("n%d", one.place)
	dir, err := i.place(name)
	if err != nil {
		return nil, err
	}
	spec := i.spec
	spec.ID += "-" + name
	spec.Args, spec.Peer, spec.Console, spec.Join = one.args, nil, nil, one.join
	if spec.Cgroup != "" {
		spec.Cgroup = path.Join(spec.Cgroup, name)
	}
	spec.Stdio = driver.Stdio{Stdout: i.crowd.output.in, Stderr: i.crowd.output.in}
	running, stop := context.WithCancel(running)
	m := &member{place: one.place, stop: stop, ended: make(chan error, 1)}
	if m.Instance, err = i.driver.inner.Prepare(ctx, spec, dir); err != nil {
		stop()
		return nil, fmt.Errorf("container %d: %w", one.place+1, err)
	}
	if err := m.Start(running, func(driver.Phase) {}); err != nil {
		m.ended <- err
		return m, fmt.Errorf("container %d: %w", one.place+1, err)
	}
	go func() {
		exit, err := m.Wait(running)
		if err == nil {
			err = fmt.Errorf("it ended with code %d, signal %d", exit.Code, exit.Signal)
		}
		m.ended <- err
	}()
	return m, nil
}

// awaitMembers waits until as many have said that they run as were started.
func (i *instance) awaitMembers(ctx context.Context) error {
	want, said := len(i.crowd.members), i.crowd.output.count()
	for until := time.Now().Add(i.within()); said < want; said = i.crowd.output.count() {
		select {
		case <-i.crowd.output.news:
			until = time.Now().Add(i.within())
		case <-time.After(newsTime):
			if err := i.crowd.dead(); err != nil {
				return i.crowd.output.explain(err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Now().After(until) {
			return i.crowd.output.explain(fmt.Errorf("%d of %d containers on the network said that they run", said, want))
		}
	}
	return nil
}

// dead is why a member has ended; nil while all are alive.
func (c *crowd) dead() error {
	for _, m := range c.members {
		select {
		case err := <-m.ended:
			m.ended <- err
			return fmt.Errorf("container %d on the network has ended: %w", m.place+1, err)
		default:
		}
	}
	return nil
}

// alive counts the members that have not ended.
func (c *crowd) alive() int {
	n := 0
	for _, m := range c.members {
		if len(m.ended) == 0 {
			n++
		}
	}
	return n
}

// last is the member with the highest place: the one that the path attach attaches.
func (c *crowd) last() *member {
	last := c.members[0]
	for _, m := range c.members {
		if m.place > last.place {
			last = m
		}
	}
	return last
}

// close ends and removes all members, several at once. dockerd takes a tenth of a second
// to take each off the network, one after another: a request for one of 500 that had
// ended all at once was answered after more than a minute.
func (c *crowd) close(atOnce int) error {
	defer c.stop()
	errs := make([]error, len(c.members))
	var group errgroup.Group
	group.SetLimit(max(1, atOnce))
	for k, m := range c.members {
		group.Go(func() error {
			m.stop()
			<-m.ended
			errs[k] = m.Close()
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return errors.Join(append(errs, c.output.close())...)
}

// loopbackResolver is where containers of a network find a DNS server of their own.
var loopbackResolver = netip.AddrFrom4([4]byte{127, 0, 0, 11})

// dns is the port of DNS servers.
const dns = 53

// counts reads what the network has around its two ends.
func (i *instance) counts() ([]sample.Value, error) {
	alive := 0
	if i.ends.client.driver.Name() == i.driver.inner.Name() { // not a process on the engine's host
		alive++
	}
	if i.server != nil || i.far != nil {
		alive++
	}
	if i.crowd != nil {
		if err := i.crowd.dead(); err != nil {
			return nil, i.crowd.output.explain(err)
		}
		alive += i.crowd.alive()
	}
	values := []sample.Value{{Metric: sample.OnNetwork, Value: float64(alive)}}
	if i.ends.host == "" {
		return values, nil
	}
	rules, err := net.CountRules(i.ends.host)
	if err != nil {
		return nil, err
	}
	proxies, resolvers, err := i.helpers()
	return append(values,
		sample.Value{Metric: sample.NFTRules, Value: float64(rules.NFT)},
		sample.Value{Metric: sample.IPTablesRules, Value: float64(rules.Legacy)},
		sample.Value{Metric: sample.Proxies, Value: float64(proxies)},
		sample.Value{Metric: sample.Resolvers, Value: float64(resolvers)}), err
}

// helpers counts the processes that copy for published ports on the bridge's host, and
// the DNS servers of the network.
func (i *instance) helpers() (proxies, resolvers int, err error) {
	if networks := i.driver.inner.Properties().Networks; networks != nil {
		if proxies, err = processesIn(i.ends.host, networks.Proxy); err != nil {
			return 0, 0, err
		}
	}
	if i.relay != nil {
		proxies++
	}
	if resolvers, err = net.ListenersAt(i.ends.host, netip.Addr{}, dns); err != nil {
		return 0, 0, err
	}
	var pids []int
	if i.crowd != nil {
		for _, m := range i.crowd.members {
			pids = append(pids, payloadPID(m.Watch()))
		}
	}
	if i.server != nil {
		pids = append(pids, payloadPID(i.server.Instance.Watch()))
	}
	for _, pid := range pids {
		if pid == 0 {
			continue
		}
		n, err := net.ListenersAt(fmt.Sprintf("/proc/%d/ns/net", pid), loopbackResolver, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // dead says so
		}
		if err != nil {
			return 0, 0, err
		}
		resolvers += n
	}
	return proxies, resolvers, nil
}

// payloadPID is the payload's process; 0 while unknown.
func payloadPID(watch []driver.Watch) int {
	for _, w := range watch {
		if w.Role == driver.RolePayload {
			return w.PID
		}
	}
	return 0
}

// processesIn counts the processes of a program in a network namespace.
func processesIn(namespace, program string) (int, error) {
	if program == "" {
		return 0, nil
	}
	of, err := os.Stat(namespace)
	if err != nil {
		return 0, fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return 0, err
	}
	count := 0
	for _, p := range all {
		exe, err := p.Executable()
		if err != nil || path.Base(exe) != program {
			continue
		}
		if in, err := os.Stat(fmt.Sprintf("/proc/%d/ns/net", p.PID)); err == nil && os.SameFile(of, in) {
			count++
		}
	}
	return count, nil
}
