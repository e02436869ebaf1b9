// Package kubernetes tries tare's fleet on a real Kubernetes: etcd, the control plane and
// two nodes, each a kubelet and a containerd, all on this machine.
package kubernetes

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/fleet/fleettest"
	"github.com/tarelab/tare/internal/fleet/kubernetes"
)

// namespaces of the contract suite: one for its jobs, one whose quota is used up, and one
// that allows no privileged pods.
const namespaces = `
{apiVersion: v1, kind: Namespace, metadata: {name: tare}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: full}}
---
{apiVersion: v1, kind: ResourceQuota, metadata: {name: none, namespace: full}, spec: {hard: {count/jobs.batch: 0}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}}
`

func TestContract(t *testing.T) {
	c := up(t)
	if _, err := c.kubectl(t.Context(), namespaces, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	requests := c.counted(t)
	in := func(namespace, image string) *kubernetes.Engine {
		e, err := kubernetes.New(kubernetes.Options{Namespace: namespace, Image: image, Program: []string{"/bin/sh"}})
		if err != nil {
			t.Fatal(err)
		}
		c.allow(t, e, namespace)
		return e
	}
	missing := "localhost/missing@sha256:" + strings.Repeat("0", 64)
	fleettest.RunContract(t, in("tare", c.image), fleettest.Options{
		Machines: []string{"n1", "n2"},
		Faults: []fleettest.Fault{
			{Name: "missing image", Engine: in("tare", missing), Words: "failed to pull"},
			{Name: "no such machine", Machine: "n3", Words: `nodes "n3" not found`},
			{Name: "full queue", Engine: in("full", c.image), Words: "exceeded quota", Full: true},
			{Name: "no privileged pods", Engine: in("restricted", c.image), Words: "violates PodSecurity"},
		},
		Requests:   requests,
		PerStates:  4, // jobs, pods, nodes; events where a job has no pod
		Left:       c.left,
		Kill:       c.kill,
		LostWithin: 90 * time.Second,
		OutputGoes: true,
		Preempt:    c.evict,
	})
}

// counted has this process's user be one who has no rights but those that are given to
// him, and counts his requests.
func (c *cluster) counted(t *testing.T) func() int64 {
	t.Helper()
	to, err := url.Parse("https://10.78.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the API server made its certificate itself
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config, err := os.ReadFile(c.dir + "/tare.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(strings.Replace(string(config), to.String(), server.URL, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return count.Load
}

// allow gives tare's user the rights that the engine asks for.
func (c *cluster) allow(t *testing.T, e *kubernetes.Engine, namespace string) {
	t.Helper()
	const bindings = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tare-fleet, namespace: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tare-fleet}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tare}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: tare-fleet}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tare-fleet}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tare}]
`
	if _, err := c.kubectl(t.Context(), e.Rights()+strings.ReplaceAll(bindings, "NAMESPACE", namespace), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// left are the jobs and pods in all namespaces of the suite.
func (c *cluster) left(ctx context.Context) ([]string, error) {
	out, err := c.kubectl(ctx, "", "get", "jobs,pods", "--all-namespaces", "-o", "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}")
	return strings.Fields(out), err
}

func (c *cluster) kill(node string) (func() error, error) {
	revive := func() error {
		if err := c.order("start", node); err != nil {
			return err
		}
		return eventually(context.Background(), func() error {
			out, err := c.kubectl(context.Background(), "", "get", "node", node)
			if err == nil && !strings.Contains(out, " Ready ") {
				err = errors.New(out)
			}
			return err
		})
	}
	return revive, c.order("kill", node)
}

// evict has the cluster take the node from a job, as kubectl drain does.
func (c *cluster) evict(ctx context.Context, job string) error {
	name, err := c.kubectl(ctx, "", "-n", "tare", "get", "pods", "-l", "job-name="+job, "-o", "jsonpath={.items[0].metadata.name}")
	if err != nil {
		return err
	}
	eviction := fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": "tare"}}`, name)
	_, err = c.kubectl(ctx, eviction, "create", "--raw", "/api/v1/namespaces/tare/pods/"+name+"/eviction", "-f", "-")
	return err
}

var _ engine.Engine = (*kubernetes.Engine)(nil)
