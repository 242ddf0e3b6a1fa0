package k8s_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/collector/k8s"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const versionJSON = `{"major":"1","minor":"33+","gitVersion":"v1.33.5-eks-3025e55","gitCommit":"abc","buildDate":"2026-01-01T00:00:00Z","goVersion":"go1.24.6","platform":"linux/amd64"}`

// node is a node that has everything the collector looks for, and what it must
// leave out.
func node() *corev1.Node {
	return &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "gpu-1", ResourceVersion: "4711",
			Labels: map[string]string{corev1.LabelInstanceTypeStable: "p5.48xlarge", corev1.LabelInstanceType: "old"},
		},
		Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0123456789"},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{
				"cpu": resource.MustParse("192"), "nvidia.com/gpu": resource.MustParse("8"), "nvidia.com/mig-1g.10gb": resource.MustParse("0"),
			},
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("191"), "nvidia.com/gpu": resource.MustParse("7")},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()},
				{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown},
			},
			NodeInfo: corev1.NodeSystemInfo{
				KernelVersion: "6.8.0", OSImage: "Ubuntu 24.04.3 LTS", ContainerRuntimeVersion: "containerd://1.7.27", KubeletVersion: "v1.33.5",
				OperatingSystem: "linux", Architecture: "amd64", MachineID: "m", BootID: "b",
			},
		},
	}
}

// server is an API server that answers as told and remembers who asked what.
type server struct {
	t       *testing.T
	version func(http.ResponseWriter)
	node    func(http.ResponseWriter)
	// lists by path; what is not there is empty, and policies are unknown.
	lists    map[string]func(http.ResponseWriter)
	mu       sync.Mutex
	requests []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.String())
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/version":
		s.version(w)
	case "/api/v1/nodes/gpu-1":
		s.node(w)
	default:
		answer, ok := s.lists[r.URL.Path]
		if !ok {
			answer = says(s.t, `{"items":[]}`)
			if strings.Contains(r.URL.Path, "clusterpolic") || strings.Contains(r.URL.Path, "nvidia") {
				answer = refuses(s.t, 404, metav1.StatusReasonNotFound)
			}
		}
		answer(w)
	}
}

func (s *server) client() kubernetes.Interface {
	srv := httptest.NewServer(s)
	s.t.Cleanup(srv.Close)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: srv.URL, QPS: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func says(t *testing.T, v any) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if text, ok := v.(string); ok {
			_, _ = w.Write([]byte(text))
			return
		}
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
}

func refuses(t *testing.T, code int, reason metav1.StatusReason) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		says(t, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
			Code: int32(code), Reason: reason, Message: "as told",
		})(w)
	}
}

func normalized(r collector.Result) collector.Result {
	s := measurement.Snapshot{Measurements: r.Measurements}
	s.Normalize() // in place
	return r
}

// requests are all that a small cluster needs.
func requests() []string {
	return []string{
		"GET /version",
		"GET /api/v1/pods?limit=500",
		"GET /apis/apps/v1/daemonsets?limit=500",
		"GET /apis/storage.k8s.io/v1/storageclasses?limit=500",
		"GET /apis/nvidia.com/v1/clusterpolicies?continue=&limit=500",
		"GET /apis/nvidia.com/v1alpha1/nvidiadrivers?continue=&limit=500",
		"GET /apis/mellanox.com/v1alpha1/nicclusterpolicies?continue=&limit=500",
	}
}

func TestC29_ARequestAThingReadsASmallCluster(t *testing.T) {
	s := &server{t: t, version: says(t, versionJSON), node: says(t, node())}
	hosttest.Golden(t, "node.golden.yaml", normalized(k8s.New(s.client(), "gpu-1").Collect(t.Context())))
	want := append(requests(), "GET /api/v1/nodes/gpu-1")
	if diff := cmp.Diff(want, s.requests, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAClusterTheCollectorIsSkipped(t *testing.T) {
	want := collector.Result{Status: measurement.CollectorStatus{State: measurement.StateSkipped, Reason: "no cluster was named"}}
	if diff := cmp.Diff(want, k8s.New(nil, "n").Collect(t.Context())); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutANodeNameTheClusterIsRead(t *testing.T) {
	s := &server{t: t, version: says(t, versionJSON)}
	r := k8s.New(s.client(), "").Collect(t.Context())
	want := measurement.CollectorStatus{
		State: measurement.StatePartial, Reason: "node: the node's name is not known",
		Subtypes: []measurement.SubtypeStatus{
			{Name: "daemonsets", State: measurement.StateOK}, {Name: "image", State: measurement.StateOK},
			{Name: "node", State: measurement.StateFailed, Reason: "the node's name is not known"},
			{Name: "policy", State: measurement.StateOK}, {Name: "server", State: measurement.StateOK}, {Name: "storageclass", State: measurement.StateOK},
		},
		Unread: []measurement.Unread{{Key: "node", Reason: "the node's name is not known"}},
	}
	if diff := cmp.Diff(want, r.Status); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(requests(), s.requests, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalsAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		node func(http.ResponseWriter)
		want string
	}{
		"forbidden":    {refuses(t, 403, metav1.StatusReasonForbidden), "forbidden: the agent may not get nodes"},
		"unauthorized": {refuses(t, 401, metav1.StatusReasonUnauthorized), "unauthorized: the API server does not accept the agent's credentials"},
		"not found":    {refuses(t, 404, metav1.StatusReasonNotFound), `not found: the cluster has no node "gpu-1"`},
		"broken":       {refuses(t, 500, metav1.StatusReasonInternalError), "the API server refused: as told"},
	} {
		s := &server{t: t, version: says(t, versionJSON), node: c.node}
		r := k8s.New(s.client(), "gpu-1").Collect(t.Context())
		if diff := cmp.Diff([]measurement.Unread{{Key: "node", Reason: c.want}}, r.Status.Unread); diff != "" || r.Status.State != measurement.StatePartial {
			t.Errorf("%s: %s %s", name, r.Status.State, diff)
		}
	}
}

func TestUnreachableServerFailsTheCollector(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	url := srv.URL
	srv.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	r := k8s.New(client, "gpu-1").Collect(t.Context())
	if r.Status.State != measurement.StateFailed || len(r.Status.Unread) != 8 {
		t.Fatalf("%+v", r.Status)
	}
	for _, u := range r.Status.Unread {
		if !strings.HasPrefix(u.Reason, "the API server cannot be reached: ") {
			t.Errorf("%+v", u)
		}
	}
}

func TestServerThatDoesNotAnswerIsLeftWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	wait := func(http.ResponseWriter) {
		cancel()
		<-done
	}
	s := &server{t: t, version: wait, node: wait, lists: map[string]func(http.ResponseWriter){"/api/v1/pods": wait}}
	client := s.client()
	r := k8s.New(client, "gpu-1").Collect(ctx)
	close(done)
	reasons := map[string]string{}
	for _, u := range r.Status.Unread {
		reasons[u.Key] = u.Reason
	}
	for _, key := range []string{"node", "server", "image"} {
		if reasons[key] != "the API server gave no answer in time" {
			t.Errorf("%s: %q", key, reasons[key])
		}
	}
}

func subtypeOf(t *testing.T, n *corev1.Node) measurement.Subtype {
	t.Helper()
	r := k8s.New(fake.NewClientset(n), n.Name).Collect(t.Context())
	s := measurement.Snapshot{Measurements: r.Measurements}
	st, ok := s.Subtype(measurement.TypeK8s, "node")
	if !ok {
		t.Fatalf("%+v", r.Status)
	}
	return st
}

func dataOf(t *testing.T, n *corev1.Node) map[string]string {
	t.Helper()
	m := map[string]string{}
	for k, v := range subtypeOf(t, n).Data {
		m[k] = v.String()
	}
	return m
}

func TestProviderIsReadFromTheProviderID(t *testing.T) {
	for id, want := range map[string]string{
		"aws:///us-east-1a/i-1": "aws", "gce://p/z/n": "gce", "azure:///subscriptions/x": "azure", "kind://docker/kind/n": "kind",
		"openstack:///x": "openstack", "ocid1.instance.oc1.phx.x": "oci", "": "", "bare": "",
	} {
		n := node()
		n.Spec.ProviderID = id
		if got := dataOf(t, n)["provider"]; got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
}

func TestWhatTheNodeDoesNotTellIsAbsent(t *testing.T) {
	got := dataOf(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	if diff := cmp.Diff(map[string]string{"name": "bare"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRealNodesAreRead(t *testing.T) {
	kubelets, providers := map[string]bool{}, map[string]bool{}
	for _, f := range hosttest.Shared(t, "k8s-nodes/*") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all := measurement.Measurement{Type: measurement.TypeK8s}
		for _, n := range nodesIn(t, f, b) {
			data := dataOf(t, &n)
			all.Subtypes = append(all.Subtypes, subtypeOf(t, &n))
			if data["name"] != n.Name || data["condition.Ready"] == "" || data["container-runtime-version"] == "" {
				t.Errorf("%s: %v", f, data)
			}
			kubelets[data["kubelet-version"]] = true
			providers[data["provider"]+" "+data["instance-type"]] = true
		}
		hosttest.Golden(t, filepath.Base(f)+".golden.yaml", collector.Result{Measurements: []measurement.Measurement{all}, Status: measurement.CollectorStatus{State: measurement.StateOK}})
	}
	for _, want := range []string{"aws m5d.2xlarge", "azure Standard_D8s_v3", "digitalocean g-8vcpu-32gb"} {
		if !providers[want] {
			t.Errorf("%q is not among %v", want, providers)
		}
	}
	if len(kubelets) < 5 || kubelets[""] {
		t.Error(kubelets)
	}
}

// nodesIn reads a node, a list of nodes, or a bare array.
func nodesIn(t *testing.T, name string, b []byte) []corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := yaml.Unmarshal(b, &list); err == nil && len(list.Items) > 0 {
		return list.Items
	}
	var nodes []corev1.Node
	if err := yaml.Unmarshal(b, &nodes); err == nil {
		return nodes
	}
	var n corev1.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		t.Fatal(name, err)
	}
	return []corev1.Node{n}
}
