package serializer

import (
	"context"
	"encoding/json"
	stderrors "errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
)

var (
	ref    = configmap.Ref{Namespace: "ns", Name: "out"}
	writer = func(o ConfigMapOptions) configMap {
		c := NewConfigMap(o).(configMap)
		c.now = func() time.Time { return time.Date(2026, 8, 21, 16, 22, 33, 0, time.FixedZone("", 7200)) }
		c.pauses = pauses{first: time.Millisecond, longest: 2 * time.Millisecond, forbidden: time.Minute, unavailable: time.Minute}
		return c
	}
)

func TestC34_ConfigMapHasThreeKeysAndThreeLabels(t *testing.T) {
	cs := fake.NewClientset()
	if err := writer(ConfigMapOptions{Client: cs, Ref: ref}).Write(t.Context(), doc("kind: Snapshot\n")); err != nil {
		t.Fatal(err)
	}
	got, err := cs.CoreV1().ConfigMaps("ns").Get(t.Context(), "out", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got.TypeMeta, got.ManagedFields = metav1.TypeMeta{}, nil
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "out", Labels: map[string]string{
			"app.kubernetes.io/name": "aicr", "app.kubernetes.io/component": "snapshot", "app.kubernetes.io/version": "v1.2.3",
		}},
		Data: map[string]string{"snapshot.yaml": "kind: Snapshot\n", "format": "yaml", "timestamp": "2026-08-21T14:22:33Z"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestC24_OwnerReferenceOnlyWhereAskedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		owner *JobRef
		want  []metav1.OwnerReference
	}{
		"delivered": {nil, nil},
		"staged": {&JobRef{Name: "job", UID: "uid-1"}, []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "uid-1", BlockOwnerDeletion: ptr.To(false),
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			cs := fake.NewClientset()
			if err := writer(ConfigMapOptions{Client: cs, Ref: ref, Owner: tt.owner}).Write(t.Context(), doc("x")); err != nil {
				t.Fatal(err)
			}
			got, err := cs.CoreV1().ConfigMaps("ns").Get(t.Context(), "out", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.OwnerReferences); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// answers is an API server that gives one answer after the other and repeats
// the last; nil is success.
type answers struct {
	list     []error
	requests atomic.Int32
	bodies   chan map[string]any
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body) // apply sends JSON, which is YAML
	select {
	case a.bodies <- body:
	default:
	}
	n := int(a.requests.Add(1))
	w.Header().Set("Content-Type", "application/json")
	var status apierrors.APIStatus
	if err := a.list[min(n, len(a.list))-1]; stderrors.As(err, &status) {
		w.WriteHeader(int(status.Status().Code))
		s := status.Status()
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		_ = json.NewEncoder(w).Encode(s)
		return
	}
	_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"out","namespace":"ns"}}`))
}

// serve starts the API server and returns options for a writer to it.
func serve(t *testing.T, list ...error) (*answers, ConfigMapOptions) {
	t.Helper()
	a := &answers{list: list, bodies: make(chan map[string]any, 100)}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	cs, _, err := client.New(&rest.Config{Host: srv.URL}, "")
	if err != nil {
		t.Fatal(err)
	}
	return a, ConfigMapOptions{Client: cs, Ref: ref}
}

var (
	resource    = schema.GroupResource{Resource: "configmaps"}
	forbidden   = apierrors.NewForbidden(resource, "out", stderrors.New(`user "sa" cannot patch resource "configmaps"`))
	unavailable = apierrors.NewServiceUnavailable("starting")
	invalid     = apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "out", nil)
)

func TestC25_ShortForbiddenIsWaitedOut(t *testing.T) {
	a, o := serve(t, forbidden, forbidden, forbidden, nil)
	if err := writer(o).Write(t.Context(), doc("x")); err != nil {
		t.Fatal(err)
	}
	if n := a.requests.Load(); n != 4 {
		t.Errorf("%d requests", n)
	}
}

func TestC25_LastingForbiddenIsUnauthorizedAndSaysWhatIsMissing(t *testing.T) {
	_, o := serve(t, forbidden)
	w := writer(o)
	w.pauses.forbidden = 20 * time.Millisecond
	err := w.Write(t.Context(), doc("x"))
	if !stderrors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), "cm://ns/out") {
		t.Errorf("error %v", err)
	}
	if a := errors.AdviceOf(err); !strings.Contains(a, "create and patch") || !strings.Contains(a, "namespace ns") {
		t.Errorf("advice %q", a)
	}
}

func TestAPIServerThatComesBackIsWaitedFor(t *testing.T) {
	a, o := serve(t, unavailable, unavailable, nil)
	if err := writer(o).Write(t.Context(), doc("x")); err != nil {
		t.Fatal(err)
	}
	if n := a.requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestWhatWaitingDoesNotChangeIsToldAtOnce(t *testing.T) {
	a, o := serve(t, invalid)
	if err := writer(o).Write(t.Context(), doc("x")); !stderrors.Is(err, errors.InvalidRequest) {
		t.Errorf("error %v", err)
	}
	if n := a.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCancelledWaitEndsAtOnceAndTellsTheLastAnswer(t *testing.T) {
	a, o := serve(t, forbidden)
	ctx, cancel := context.WithCancel(t.Context())
	w := writer(o)
	w.pauses.first, w.pauses.longest = time.Hour, time.Hour
	w.pauses.forbidden = 3 * time.Hour
	go func() {
		<-a.bodies
		cancel()
	}()
	err := w.Write(ctx, doc("x"))
	if !stderrors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestDocumentTooLargeForAConfigMapIsToldBeforeARequest(t *testing.T) {
	a, o := serve(t, nil)
	err := writer(o).Write(t.Context(), doc(strings.Repeat("x", MaxConfigMapBytes)))
	if !stderrors.Is(err, errors.InvalidRequest) || !strings.Contains(err.Error(), "1048600 bytes") {
		t.Errorf("error %v", err)
	}
	if advice := errors.AdviceOf(err); !strings.Contains(advice, "--max-nodes-per-entry") || !strings.Contains(advice, "--local") {
		t.Errorf("advice %q", advice)
	}
	if n := a.requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestC7_InvalidNameIsToldBeforeARequest(t *testing.T) {
	a, o := serve(t, nil)
	o.Ref.Name = "Not_A_Name"
	w := writer(o)
	for _, err := range []error{w.Check(t.Context()), w.Write(t.Context(), doc("x"))} {
		if !stderrors.Is(err, errors.InvalidRequest) {
			t.Errorf("error %v", err)
		}
	}
	if n := a.requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestAnyVersionBecomesALabelValue(t *testing.T) {
	tests := map[string]string{
		"v1.2.3":                       "v1.2.3",
		"v0.0.0-20260821142233+dirty":  "v0.0.0-20260821142233_dirty",
		"(devel)":                      "devel",
		"":                             "",
		"+":                            "",
		"é":                            "",
		strings.Repeat("a", 62) + "-b": strings.Repeat("a", 62),
	}
	for in, want := range tests {
		got := labelValue(in)
		if got != want {
			t.Errorf("labelValue(%q) = %q, want %q", in, got, want)
		}
		if msgs := validation.IsValidLabelValue(got); len(msgs) > 0 {
			t.Errorf("labelValue(%q): %v", in, msgs)
		}
	}
}
