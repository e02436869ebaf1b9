// Package kubernetes runs a fleet's jobs as Jobs of Kubernetes: one for each machine, in a
// privileged pod that is bound to one node. It talks to the API server by the dynamic
// client alone, and needs the rights of Rights and no others.
package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
)

// Options are what jobs need besides their own description.
type Options struct {
	// Context is the kubeconfig's context, "" for its current one; without a kubeconfig
	// the service account of the pod that this runs in is used.
	Context string
	// Namespace is where jobs are made, "" for the context's.
	Namespace string
	// Image has tare and what it weighs, as REFERENCE@sha256:DIGEST.
	Image string
	// Program is what jobs run in the image, nil for its entrypoint.
	Program []string
	// Patch changes each Job: see ParsePatch.
	Patch Patch
}

// Engine is an engine.Engine.
type Engine struct {
	options   Options
	namespace string
	api       dynamic.Interface
	logs      rest.Interface

	mu        sync.Mutex
	following map[*follower]bool

	rightsOnce sync.Once // shows the rights
}

var (
	jobs   = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	pods   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes  = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	events = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// request bounds one request to the API server, and page the objects in one answer.
const (
	request = 30 * time.Second
	page    = 500
)

// New connects to the cluster that the kubeconfig names; it asks the cluster nothing yet.
func New(o Options) (*Engine, error) {
	if err := checkImage(o.Image); err != nil {
		return nil, err
	}
	from := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err := from.ClientConfig()
	if err != nil {
		return nil, &engine.CannotError{Err: fmt.Errorf("kubeconfig: %w", err)}
	}
	namespace, _, err := from.Namespace()
	if err != nil {
		return nil, &engine.CannotError{Err: fmt.Errorf("kubeconfig: %w", err)}
	}
	return connect(config, cmp.Or(o.Namespace, namespace), o)
}

func connect(config *rest.Config, namespace string, o Options) (*Engine, error) {
	config.UserAgent = "tare"
	config.QPS = -1                                      // the API server has its own queues
	config.WarningHandlerWithContext = rest.NoWarnings{} // standard error is the user's
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{Version: "v1"}, serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	logs, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Engine{options: o, namespace: namespace, api: api, logs: logs, following: map[*follower]bool{}}, nil
}

// bounded ends answers that no API server gives, but for logs, which have no end.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil && !strings.HasSuffix(r.URL.Path, "/log") {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{limit.EngineAnswer.Reader(answer.Body), answer.Body}
	}
	return answer, err
}

// list reads all objects that match, page by page, as T.
func list[T any](ctx context.Context, from dynamic.ResourceInterface, o metav1.ListOptions) ([]T, error) {
	var all []T
	o.Limit = page
	for pages := 1; ; pages++ {
		ctx, done := context.WithTimeout(ctx, request)
		got, err := from.List(ctx, o)
		done()
		if err != nil {
			return nil, cannot(err)
		}
		for _, item := range got.Items {
			one, err := convert[T](&item)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		if o.Continue = got.GetContinue(); o.Continue == "" {
			return all, nil
		}
		if err := limit.EngineAnswer.CheckItems(max(len(all), pages*page)); err != nil { // a page may be empty
			return nil, err
		}
	}
}

// get reads one object; ok is false where there is none.
func get[T any](ctx context.Context, from dynamic.ResourceInterface, name string) (one T, ok bool, err error) {
	ctx, done := context.WithTimeout(ctx, request)
	defer done()
	got, err := from.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return one, false, nil
	}
	if err != nil {
		return one, false, cannot(err)
	}
	one, err = convert[T](got)
	return one, err == nil, err
}

func convert[T any](object *unstructured.Unstructured) (one T, err error) {
	data, err := object.MarshalJSON()
	if err != nil {
		return one, err
	}
	return one, json.Unmarshal(data, &one)
}

// cannot marks errors that the same call gives again until somebody changes the cluster,
// the kubeconfig or the user's rights.
func cannot(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return &engine.CannotError{Err: err}
	}
	return err
}

// Machines implements engine.Engine: nodes, by name, arch, or any label of a node.
func (e *Engine) Machines(ctx context.Context, where engine.Selector) ([]engine.Machine, error) {
	all, err := list[node](ctx, e.api.Resource(nodes), metav1.ListOptions{})
	if err != nil {
		return nil, unreached(err)
	}
	running, err := list[pod](ctx, e.api.Resource(pods), metav1.ListOptions{FieldSelector: unended})
	if err != nil {
		return nil, unreached(err)
	}
	return machines(all, running, where)
}

// unreached marks the error of the first call, whose commonest reason is that there is no
// API server where the kubeconfig says.
func unreached(err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) || errors.Is(err, context.Canceled) {
		return err
	}
	return &engine.CannotError{Err: err}
}

// unended selects pods that have not ended: the others take nothing of their node.
const unended = "status.phase!=Succeeded,status.phase!=Failed"

// describe is the Job for a job: its requests are of the node as it is now.
func (e *Engine) describe(ctx context.Context, job engine.Job) (*unstructured.Unstructured, error) {
	on, ok, err := get[node](ctx, e.api.Resource(nodes), job.Machine)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &engine.RefusedError{Job: job.Name, Words: fmt.Sprintf("nodes %q not found", job.Machine)}
	}
	there, err := list[pod](ctx, e.api.Resource(pods), metav1.ListOptions{FieldSelector: "spec.nodeName=" + job.Machine + "," + unended})
	if err != nil {
		return nil, err
	}
	return describe(job, e.namespace, e.options, room(on, there))
}

// Show implements engine.Engine: the Job as YAML, and before the first one the rights
// that Jobs need.
func (e *Engine) Show(ctx context.Context, job engine.Job) (string, error) {
	described, err := e.describe(ctx, job)
	if err != nil {
		return "", err
	}
	shown, err := text(described.Object)
	e.rightsOnce.Do(func() { shown = e.Rights() + shown })
	return shown, err
}

// Submit implements engine.Engine.
func (e *Engine) Submit(ctx context.Context, job engine.Job) error {
	described, err := e.describe(ctx, job)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, request)
	defer done()
	_, err = e.api.Resource(jobs).Namespace(e.namespace).Create(ctx, described, metav1.CreateOptions{})
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return e.isOurs(ctx, job)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		return &engine.RefusedError{Job: job.Name, Words: err.Error(), Full: strings.Contains(err.Error(), "exceeded quota")}
	}
	return cannot(err)
}

// isOurs refuses a job whose name another fleet's job has.
func (e *Engine) isOurs(ctx context.Context, job engine.Job) error {
	there, ok, err := get[object](ctx, e.api.Resource(jobs).Namespace(e.namespace), job.Name)
	if err != nil || !ok {
		return err
	}
	if there.Metadata.Labels[fleetLabel] != job.Fleet {
		return &engine.RefusedError{Job: job.Name, Words: fmt.Sprintf("jobs.batch %q already exists, of another fleet", job.Name)}
	}
	if there.Metadata.DeletionTimestamp != "" {
		return fmt.Errorf("job %s is still being removed", job.Name)
	}
	return nil
}

// States implements engine.Engine. It takes one list each of jobs, pods and nodes, for
// any number of jobs, and one of events where a job has no pod.
func (e *Engine) States(ctx context.Context, names []string) (map[string]engine.State, error) {
	if len(names) == 0 {
		return nil, nil
	}
	ours := metav1.ListOptions{LabelSelector: fleetLabel}
	there, err := list[job](ctx, e.api.Resource(jobs).Namespace(e.namespace), ours)
	if err != nil {
		return nil, err
	}
	running, err := list[pod](ctx, e.api.Resource(pods).Namespace(e.namespace), ours)
	if err != nil {
		return nil, err
	}
	all, err := list[node](ctx, e.api.Resource(nodes), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	there = slices.DeleteFunc(there, func(j job) bool { return !slices.Contains(names, j.Metadata.Name) })
	var failed []event
	if len(podless(there, running)) > 0 {
		failed, err = list[event](ctx, e.api.Resource(events).Namespace(e.namespace), metav1.ListOptions{FieldSelector: "reason=FailedCreate,involvedObject.kind=Job"})
		if err != nil {
			return nil, err
		}
	}
	found := states(there, running, all, failed)
	e.lose(found)
	return found, nil
}

// patience is the time between two looks at a job that somebody waits for: it grows.
type patience time.Duration

// wait is false when ctx has ended.
func (p *patience) wait(ctx context.Context) bool {
	*p = min(2**p+patience(200*time.Millisecond), patience(5*time.Second))
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(*p)):
		return true
	}
}

// podsOf are the pods of a job: one, but for moments.
func (e *Engine) podsOf(ctx context.Context, name string) ([]pod, error) {
	return list[pod](ctx, e.api.Resource(pods).Namespace(e.namespace), metav1.ListOptions{LabelSelector: jobLabel + "=" + name})
}

// Remove implements engine.Engine. The Job goes last, once its pod is gone.
func (e *Engine) Remove(ctx context.Context, name string) error {
	foreground := metav1.DeletePropagationForeground
	var pause patience
	for {
		err := e.api.Resource(jobs).Namespace(e.namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground})
		gone := apierrors.IsNotFound(err)
		if err != nil && !gone {
			return cannot(err)
		}
		left, err := e.podsOf(ctx, name)
		if err != nil || gone && len(left) == 0 {
			return err
		}
		for _, p := range left {
			if err := e.removePod(ctx, p, gone); err != nil {
				return err
			}
		}
		if !pause.wait(ctx) {
			return ctx.Err()
		}
	}
}

// removePod removes a pod that would stay: one whose kubelet does not answer, and one
// that somebody has parted from its Job.
func (e *Engine) removePod(ctx context.Context, p pod, alone bool) error {
	on, ok, err := get[node](ctx, e.api.Resource(nodes), p.Spec.NodeName)
	if p.Spec.NodeName == "" {
		ok, err = true, nil
	}
	if err != nil {
		return err
	}
	var options metav1.DeleteOptions
	switch {
	case !ok || on.unreachable():
		now := int64(0)
		options.GracePeriodSeconds = &now
	case !alone || p.Metadata.DeletionTimestamp != "":
		return nil // the cluster is at it
	}
	err = e.api.Resource(pods).Namespace(e.namespace).Delete(ctx, p.Metadata.Name, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
