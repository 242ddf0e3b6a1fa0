package topology_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/collector/topology"
	"github.com/NVIDIA/aicr/pkg/collector/topology/topologytest"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func node(name string, labels map[string]string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{Taints: taints}}
}

func collect(t *testing.T, maxNodes int, nodes ...*corev1.Node) *measurement.Snapshot {
	t.Helper()
	client := fake.NewClientset()
	for _, n := range nodes {
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	r := topology.New(client, maxNodes).Collect(t.Context())
	if r.Status.State != measurement.StateOK {
		t.Fatalf("%+v", r.Status)
	}
	return snapshot(r)
}

func snapshot(r collector.Result) *measurement.Snapshot {
	s := &measurement.Snapshot{Measurements: r.Measurements}
	s.Normalize()
	return s
}

// gpuNodes are many nodes like real ones, in no order.
func gpuNodes(n int) []*corev1.Node {
	nodes := make([]*corev1.Node, n)
	for i, at := range rand.Perm(n) {
		nodes[at] = topologytest.GPUNode(i)
	}
	return nodes
}

// summarised are the keys of gpuNodes that are each node's own.
var summarised = [...]string{"kubernetes.io/hostname", "example.com/instance-id", "nvidia.com/gfd.timestamp"}

func TestASmallClusterIsToldInFull(t *testing.T) {
	gpu := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{}}
	hosttest.Golden(t, "small.golden.yaml", collector.Result{Measurements: collect(t, 0,
		node("c", map[string]string{"zone": "b", "gpu": "", "kubernetes.io/hostname": "c"}, gpu,
			corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: "maintenance", Effect: corev1.TaintEffectNoSchedule}),
		node("a", map[string]string{"zone": "a", "kubernetes.io/hostname": "a"}),
		node("b", map[string]string{"zone": "a", "gpu": "", "kubernetes.io/hostname": "b"}, gpu),
		node("d", map[string]string{}),
	).Measurements, Status: measurement.CollectorStatus{State: measurement.StateOK}})
}

func TestNothingIsLostOfManyNodes(t *testing.T) {
	nodes := gpuNodes(2000)
	s := collect(t, 0, nodes...)
	got, err := topologytest.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(topologytest.Expect(nodes, summarised[:]...), got); diff != "" {
		t.Error(diff)
	}
	// The order in which nodes come makes no difference.
	if diff := cmp.Diff(s, collect(t, 0, gpuNodes(2000)...)); diff != "" {
		t.Error(diff)
	}
}

func TestTenThousandNodesFitAConfigMapWithoutACap(t *testing.T) {
	doc, err := yaml.Marshal(collect(t, 0, gpuNodes(10_000)...))
	if err != nil || len(doc) > 900_000 {
		t.Errorf("%d bytes, %v", len(doc), err)
	}
	t.Logf("%d bytes", len(doc))
}

func TestKeysThatAreEachNodesOwnAreSummarisedAndSaySo(t *testing.T) {
	st, _ := collect(t, 0, gpuNodes(200)...).Subtype(measurement.TypeNodeTopology, "label")
	for _, item := range st.Items {
		if item.Name == "kubernetes.io/hostname" {
			want := measurement.Item{Name: item.Name, Data: map[string]measurement.Reading{
				"key": measurement.Str(item.Name), "node-count": measurement.Int(200), "values": measurement.Int(200),
				"examples": measurement.Str("ip-10-0-0-0.us-east-1.compute.internal,ip-10-0-0-1.us-east-1.compute.internal,ip-10-0-0-10.us-east-1.compute.internal"),
			}, Context: map[string]string{"summarised": "the value differs on nearly every node: which node has which is left out, as it is from data"}}
			if diff := cmp.Diff(want, item); diff != "" {
				t.Error(diff)
			}
			return
		}
	}
	t.Error("the host names are not summarised")
}

func TestAboveAHundredNodesTheFamiliarMapNamesFive(t *testing.T) {
	for n, want := range map[int]string{
		101: "us-east-1|n000,n001,n002,n003,n004 (+96 more)",
		100: "us-east-1|" + strings.Join(names(100), ","),
	} {
		var nodes []*corev1.Node
		for _, name := range names(n) {
			nodes = append(nodes, node(name, map[string]string{"region": "us-east-1"}))
		}
		st, _ := collect(t, 0, nodes...).Subtype(measurement.TypeNodeTopology, "label")
		if got := st.Data["region"].String(); got != want {
			t.Errorf("%d nodes: %s", n, got)
		}
		if says := st.Context["data"] != ""; says != (n > 100) {
			t.Errorf("%d nodes: %v", n, st.Context)
		}
	}
}

func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("n%03d", i))
	}
	return out
}

func TestTheCapHoldsEverywhereAndIsTold(t *testing.T) {
	s := collect(t, 2, gpuNodes(200)...)
	doc, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Measurements {
		for _, st := range m.Subtypes {
			if st.Context["max-nodes-per-entry"] != "2, as asked for: further nodes are counted and not named" {
				t.Errorf("%s does not say so: %v", st.Name, st.Context)
			}
			for key, r := range st.Data {
				if strings.Count(r.String(), "ip-10-") > 2 {
					t.Errorf("%s/%s: %v", st.Name, key, r)
				}
			}
			for _, item := range st.Items {
				for key, r := range item.Data {
					if strings.Count(r.String(), "ip-10-") > 2 {
						t.Errorf("%s/%s/%s: %v", st.Name, item.Name, key, r)
					}
				}
			}
		}
	}
	if !strings.Contains(string(doc), "(+16 more)") {
		t.Error("what is not named is not counted")
	}
}

func TestEntriesThatWouldMeetInTheFamiliarMapAreKeptApart(t *testing.T) {
	s := collect(t, 0,
		node("n1", map[string]string{"a": "b.c", "a.b": "c", "k": "", "x": "y", "x.y": "1"}, corev1.Taint{Key: "t", Value: "v", Effect: "NoSchedule"}),
		node("n2", map[string]string{"a": "d", "a.b": "e", "k": "1", "x": "z"}, corev1.Taint{Key: "t", Value: "v", Effect: "NoExecute"}),
	)
	for subtype, want := range map[string]map[string]string{
		"label": {
			"a=b.c": "b.c|n1", "a.b=c": "c|n1", "a.d": "d|n2", "a.b.e": "e|n2", "k.": "|n1", "k.1": "1|n2",
			"x=y": "y|n1", "x.y=1": "1|n1", "x.z": "z|n2",
		},
		"taint": {"t=v:NoSchedule": "NoSchedule|v|n1", "t=v:NoExecute": "NoExecute|v|n2"},
	} {
		st, _ := s.Subtype(measurement.TypeNodeTopology, subtype)
		got := map[string]string{}
		for k, v := range st.Data {
			got[k] = v.String()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", subtype, diff)
		}
	}
}

func TestRealNodesAreToldInFull(t *testing.T) {
	for _, f := range hosttest.Shared(t, "k8s-nodes/*") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		nodes := nodesIn(t, f, b)
		s := collect(t, 0, nodes...)
		hosttest.Golden(t, filepath.Base(f)+".golden.yaml", collector.Result{Measurements: s.Measurements, Status: measurement.CollectorStatus{State: measurement.StateOK}})
		got, err := topologytest.Read(s)
		if err != nil {
			t.Fatal(f, err)
		}
		if diff := cmp.Diff(topologytest.Expect(nodes), got); diff != "" {
			t.Error(f, diff)
		}
	}
}

// nodesIn reads a list of nodes, a bare array, or a node.
func nodesIn(t *testing.T, name string, b []byte) []*corev1.Node {
	t.Helper()
	var list struct {
		Items []*corev1.Node `json:"items"`
	}
	if err := yaml.Unmarshal(b, &list); err != nil || len(list.Items) == 0 {
		if err := yaml.Unmarshal(b, &list.Items); err != nil {
			list.Items = []*corev1.Node{{}}
			if err := yaml.Unmarshal(b, list.Items[0]); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	for _, n := range list.Items {
		if n.Name == "" {
			t.Fatalf("%s: a node without a name", name)
		}
	}
	return list.Items
}

func TestRefusedNodesFailTheCollectorAndNameThePermission(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "", errors.New("no"))
	})
	r := topology.New(client, 0).Collect(t.Context())
	want := collector.Result{Status: measurement.CollectorStatus{State: measurement.StateFailed, Reason: "forbidden: the agent may not list nodes"}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	want.Status = measurement.CollectorStatus{State: measurement.StateSkipped, Reason: "no cluster was named"}
	if diff := cmp.Diff(want, topology.New(nil, 0).Collect(t.Context())); diff != "" {
		t.Error(diff)
	}
}
