package kubernetes

import (
	"bytes"
	_ "embed" // the documents
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	goyaml "github.com/goccy/go-yaml"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
	"github.com/tarelab/tare/internal/yamldoc"
)

//go:embed job.yaml
var jobDocument []byte

//go:embed rights.yaml
var rightsDocument string

// Rights are the Role and the ClusterRole that the user of a namespace needs, as YAML.
func (e *Engine) Rights() string {
	return strings.ReplaceAll(rightsDocument, "NAMESPACE", e.namespace)
}

// The names in a Job that others are found by.
const (
	container  = "tare"
	fleetLabel = "tare.dev/fleet"
	jobLabel   = "batch.kubernetes.io/job-name" // the cluster sets it
)

var pinned = regexp.MustCompile(`^[^\s@]+@sha256:[0-9a-f]{64}$`)

// checkImage refuses an image whose bits may differ from node to node.
func checkImage(ref string) error {
	if !pinned.MatchString(ref) {
		return fmt.Errorf("job image %q: a tag can name other bits on each machine; take REFERENCE@sha256:DIGEST", ref)
	}
	return nil
}

// A patch that copies its own copies would grow without end.
func init() { jsonpatch.AccumulatedCopySizeLimit = limit.JobPatch.Bytes }

// Patch changes a Job before it is submitted, such as for a queue's label.
type Patch struct {
	apply func(document []byte) ([]byte, error)
}

// ParsePatch reads a patch in YAML or JSON: a mapping is a merge patch (RFC 7396), a list
// a JSON patch (RFC 6902).
func ParsePatch(data []byte) (Patch, error) {
	node, err := yamldoc.Parse(data, limit.JobPatch)
	if err != nil {
		return Patch{}, err
	}
	var value any
	if err := goyaml.NodeToValue(node, &value); err != nil {
		return Patch{}, err
	}
	patch, err := json.Marshal(value)
	if err != nil {
		return Patch{}, err
	}
	if bytes.HasPrefix(patch, []byte("{")) {
		return Patch{func(document []byte) ([]byte, error) { return jsonpatch.MergePatch(document, patch) }}, nil
	}
	steps, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return Patch{}, fmt.Errorf("a patch is a mapping (RFC 7396), or a list of operations (RFC 6902): %w", err)
	}
	return Patch{steps.Apply}, nil
}

// describe is the Job for a job; requests are what it asks of the node. They come without
// limits: a limit of CPU would be a quota on the control.
func describe(job engine.Job, namespace string, o Options, requests map[string]any) (*unstructured.Unstructured, error) {
	var described unstructured.Unstructured
	if err := yaml.Unmarshal(jobDocument, &described.Object); err != nil {
		return nil, err
	}
	spec := described.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["terminationGracePeriodSeconds"] = int64(engine.Grace / time.Second)
	// Of the pod and not of the Job: time to wait for the node does not count, and the log stays.
	spec["activeDeadlineSeconds"] = int64((job.Time + time.Minute - 1) / time.Minute * 60)
	// Not nodeName, which goes past the scheduler.
	spec["affinity"] = map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
		"nodeSelectorTerms": []any{map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{job.Machine}}}}},
	}}}
	program := spec["containers"].([]any)[0].(map[string]any)
	program["image"], program["args"] = o.Image, texts(job.Args)
	if o.Program != nil {
		program["command"] = texts(o.Program)
	}
	program["resources"] = map[string]any{"requests": requests}
	if o.Patch.apply != nil {
		if err := o.Patch.change(&described); err != nil {
			return nil, &engine.RefusedError{Job: job.Name, Words: "job patch: " + err.Error()}
		}
	}
	described.SetName(job.Name)
	described.SetNamespace(namespace)
	for _, at := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		if err := unstructured.SetNestedField(described.Object, job.Fleet, append(at, fleetLabel)...); err != nil {
			return nil, &engine.RefusedError{Job: job.Name, Words: "job patch: " + err.Error()}
		}
	}
	return &described, nil
}

func (p Patch) change(job *unstructured.Unstructured) error {
	before, err := job.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := p.apply(before)
	if err != nil {
		return err
	}
	if err := job.UnmarshalJSON(after); err != nil {
		return err
	}
	return stillPinned(job.Object)
}

// stillPinned checks the images of a Job that a patch has changed.
func stillPinned(job map[string]any) error {
	all, _, err := unstructured.NestedSlice(job, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	for _, one := range all {
		fields, _ := one.(map[string]any)
		image, _ := fields["image"].(string)
		if err := checkImage(image); err != nil {
			return err
		}
	}
	return nil
}

// texts are arguments as Kubernetes reads them: it replaces $(NAME), and $$ by $.
func texts(args []string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return all
}

// text is an object as YAML.
func text(object map[string]any) (string, error) {
	out, err := yaml.Marshal(object)
	return "---\n" + string(out), err
}
