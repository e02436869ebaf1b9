package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tarelab/tare/internal/fleet/engine"
	"github.com/tarelab/tare/internal/limit"
)

var digest = "sha256:" + strings.Repeat("a", 64)

var example = engine.Job{Name: "tare-lab-n1", Fleet: "lab", Machine: "n1", Args: []string{"run", "survey", "$(HOME) $$"}, Time: 61 * time.Second}

func described(t *testing.T, patch string) map[string]any {
	t.Helper()
	o := Options{Image: "localhost/tare@" + digest}
	if patch != "" {
		var err error
		if o.Patch, err = ParsePatch([]byte(patch)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := describe(example, "ns", o, map[string]any{"cpu": "2"})
	if err != nil {
		t.Fatal(err)
	}
	return d.Object
}

func TestJob(t *testing.T) {
	got, err := text(described(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	const want = `---
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    tare.dev/fleet: lab
  name: tare-lab-n1
  namespace: ns
spec:
  backoffLimit: 0
  podFailurePolicy:
    rules:
    - action: FailJob
      onPodConditions:
      - type: DisruptionTarget
  template:
    metadata:
      labels:
        tare.dev/fleet: lab
    spec:
      activeDeadlineSeconds: 120
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchFields:
              - key: metadata.name
                operator: In
                values:
                - n1
      automountServiceAccountToken: false
      containers:
      - args:
        - run
        - survey
        - $$(HOME) $$$$
        image: localhost/tare@DIGEST
        name: tare
        resources:
          requests:
            cpu: "2"
        securityContext:
          privileged: true
        volumeMounts:
        - mountPath: /var/lib/tare
          name: state
      hostNetwork: true
      hostPID: true
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      tolerations:
      - effect: NoSchedule
        operator: Exists
      - effect: NoExecute
        key: node.kubernetes.io/unreachable
        operator: Exists
        tolerationSeconds: 60
      - effect: NoExecute
        key: node.kubernetes.io/not-ready
        operator: Exists
        tolerationSeconds: 60
      volumes:
      - emptyDir: {}
        name: state
  ttlSecondsAfterFinished: 86400
`
	if diff := cmp.Diff(strings.ReplaceAll(want, "DIGEST", digest), got); diff != "" {
		t.Error(diff)
	}
}

// A patch changes anything but what tare finds its jobs by, and the image stays pinned.
func TestPatch(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		field []string
		want  any
	}{
		"merge": {`metadata: {labels: {kueue.x-k8s.io/queue-name: lab, tare.dev/fleet: other}, name: other}`, []string{"metadata", "labels", "kueue.x-k8s.io/queue-name"}, "lab"},
		"json":  {`[{op: add, path: /spec/template/spec/priorityClassName, value: low}]`, []string{"spec", "template", "spec", "priorityClassName"}, "low"},
	} {
		t.Run(name, func(t *testing.T) {
			job := described(t, c.patch)
			got, _, err := unstructured.NestedFieldNoCopy(job, c.field...)
			if err != nil || got != c.want {
				t.Errorf("%v is %v (%v), want %v", c.field, got, err, c.want)
			}
			u := unstructured.Unstructured{Object: job}
			if u.GetName() != example.Name || u.GetNamespace() != "ns" || u.GetLabels()[fleetLabel] != "lab" {
				t.Errorf("metadata %v", job["metadata"])
			}
		})
	}
}

func TestPatchIsRefused(t *testing.T) {
	for patch, says := range map[string]string{
		"":                     "empty",
		"a: &a [*a]":           "anchors",
		"3":                    "a patch is a mapping",
		"[{op: add, path: 3}]": "",
		`[{op: replace, path: /spec/template/spec/containers/0/image, value: "tare:latest"}]`: "a tag can name other bits",
		`[{op: remove, path: /no/such}]`: "job patch",
		"spec: null":                     "",
		"metadata: [x]":                  "",
	} {
		parsed, err := ParsePatch([]byte(patch))
		if err == nil {
			_, err = describe(example, "ns", Options{Image: "localhost/tare@" + digest, Patch: parsed}, nil)
			var refused *engine.RefusedError
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("%q: %v is no RefusedError", patch, err)
			}
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want an error with %q", patch, err, says)
		}
	}
}

func TestImageIsPinned(t *testing.T) {
	for _, ref := range []string{"", "tare", "tare:1", "tare@sha256:12", "tare@" + digest + "x", "a b@" + digest} {
		if _, err := New(Options{Image: ref}); err == nil || !strings.Contains(err.Error(), "REFERENCE@sha256:DIGEST") {
			t.Errorf("image %q: %v", ref, err)
		}
	}
	if err := checkImage("registry.example:5000/a/tare:1@" + digest); err != nil {
		t.Error(err)
	}
}

// The patch is the user's own, and may come from anybody.
func FuzzPatch(f *testing.F) {
	f.Add([]byte(`metadata: {labels: {a: b}}`))
	f.Add([]byte(`[{op: add, path: /spec/template/spec/priorityClassName, value: low}]`))
	f.Add([]byte(`[{op: copy, from: /spec, path: /spec/spec}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := limit.JobPatch.CheckAlloc(func() {
			p, err := ParsePatch(data)
			if err != nil {
				return
			}
			d, err := describe(example, "ns", Options{Image: "localhost/tare@" + digest, Patch: p}, nil)
			if err == nil && (d.GetName() != example.Name || d.GetLabels()[fleetLabel] != example.Fleet) {
				t.Errorf("%q: %v", data, d)
			}
		}); err != nil {
			t.Error(err)
		}
	})
}
