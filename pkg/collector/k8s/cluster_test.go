package k8s_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/k8s"
	"github.com/NVIDIA/aicr/pkg/collector/topology"
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

func TestMain(m *testing.M) { os.Exit(devtest.Main(m, devtest.Options{NoControllers: true})) }

// operators are two of the three kinds of policies, a policy of one of them,
// a DaemonSet, and a class.
const operators = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
spec: {group: nvidia.com, scope: Cluster, names: {kind: ClusterPolicy, listKind: ClusterPolicyList, plural: clusterpolicies, singular: clusterpolicy}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nvidiadrivers.nvidia.com}
spec: {group: nvidia.com, scope: Cluster, names: {kind: NVIDIADriver, listKind: NVIDIADriverList, plural: nvidiadrivers, singular: nvidiadriver}, versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-driver-daemonset, namespace: NAMESPACE}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: driver, image: "nvcr.io/nvidia/driver:580"}]}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: csi.example.com
`

func kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := devtest.Cluster(t).Kubectl(t.Context(), args...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), append(os.Environ(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", args, err, out)
	}
}

// as returns a client of a user, with the rights of an agent or none.
func as(t *testing.T, user, namespace string, granted bool) kubernetes.Interface {
	t.Helper()
	config, err := devtest.Cluster(t).UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	kube, _, err := client.New(config, "")
	if err != nil {
		t.Fatal(err)
	}
	if !granted {
		return kube
	}
	manifests, err := agent.BuildServiceAccountRoleManifests(agent.ManifestOptions{Namespace: namespace, ServiceAccountName: user})
	if err != nil {
		t.Fatal(err)
	}
	var binding rbacv1.ClusterRoleBinding
	if err := yaml.Unmarshal(manifests[3].Content, &binding); err != nil {
		t.Fatal(err)
	}
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	b, err := yaml.Marshal(binding)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, string(bytes.Join([][]byte{manifests[2].Content, b}, []byte("---\n"))), "apply", "-f", "-")
	return kube
}

func TestC29_TheAgentsRightsAreEnoughOnARealServer(t *testing.T) {
	namespace, admin := devtest.Namespace(t), devtest.Client(t)
	kubectl(t, strings.ReplaceAll(operators, "NAMESPACE", namespace), "apply", "-f", "-")
	devtest.Eventually(t, "the server knows of policies", time.Minute, func(ctx context.Context) error {
		return admin.Discovery().RESTClient().Get().AbsPath("/apis/nvidia.com/v1/clusterpolicies").Do(ctx).Error()
	})
	kubectl(t, "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec: {driver: {enabled: true, version: '580', env: [{name: TOKEN, value: hunter2}]}}", "apply", "-f", "-")
	n := node()
	n.ResourceVersion = ""
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "a", Image: "robot:hunter2@registry.example.com/app:1"}, {Name: "b", Image: fmt.Sprintf("side:%d", i%3)}},
		}}
		if _, err := admin.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kube := as(t, "robot", namespace, true)
	var r collector.Result
	devtest.Eventually(t, "the rights are there", time.Minute, func(ctx context.Context) error {
		r = k8s.New(kube, "gpu-1").WithPageSize(5).Collect(ctx)
		if r.Status.State != measurement.StateOK {
			return errors.New(r.Status.Reason)
		}
		return nil
	})
	s := &measurement.Snapshot{Measurements: r.Measurements}
	items := func(subtype string) map[string]string {
		st, _ := s.Subtype(measurement.TypeK8s, subtype)
		out := map[string]string{}
		for _, item := range st.Items {
			for k, v := range item.Data {
				out[item.Name+" "+k] = v.String()
			}
		}
		return out
	}
	images := items("image")
	for name, want := range map[string]string{"[redacted]@registry.example.com/app:1": "12", "side:0": "4", "side:1": "4", "side:2": "4"} {
		if images[name+" pods"] != want {
			t.Errorf("%s: %q pods, want %s of %v", name, images[name+" pods"], want, images)
		}
	}
	if p := items("policy"); p["ClusterPolicy/p driver.version"] != "580" || p["ClusterPolicy/p driver.env.0.value"] != "[redacted]" {
		t.Errorf("%v", p)
	}
	if policy, _ := s.Subtype(measurement.TypeK8s, "policy"); !policy.Data["NVIDIADriver"].Equal(measurement.Int(0)) || policy.Context["NicClusterPolicy"] == "" {
		t.Errorf("%+v", policy)
	}
	if d := items("daemonsets"); d[namespace+"/nvidia-driver-daemonset version"] != "580" {
		t.Errorf("%v", d)
	}
	if c := items("storageclass"); c["fast provisioner"] != "csi.example.com" {
		t.Errorf("%v", c)
	}
	if r := topology.New(kube, 0).Collect(t.Context()); r.Status.State != measurement.StateOK {
		t.Errorf("%+v", r.Status)
	}
	if doc, err := json.Marshal(r); err != nil || strings.Contains(string(doc), "hunter2") {
		t.Errorf("a secret is shown, or %v: %s", err, doc)
	}
	if diff := cmp.Diff(r, k8s.New(kube, "gpu-1").Collect(t.Context())); diff != "" {
		t.Errorf("the same state is told in two ways: %s", diff)
	}
}

func TestC29_WithoutRightsEachReadingNamesItsPermission(t *testing.T) {
	namespace := devtest.Namespace(t)
	r := k8s.New(as(t, "nobody", namespace, false), "gpu-1").Collect(t.Context())
	want := []measurement.Unread{
		{Key: "daemonsets", Reason: "forbidden: the agent may not list daemonsets.apps"},
		{Key: "image", Reason: "forbidden: the agent may not list pods"},
		{Key: "node", Reason: "forbidden: the agent may not get nodes"},
		{Key: "policy/ClusterPolicy", Reason: "forbidden: the agent may not list clusterpolicies.nvidia.com"},
		{Key: "policy/NVIDIADriver", Reason: "forbidden: the agent may not list nvidiadrivers.nvidia.com"},
		{Key: "policy/NicClusterPolicy", Reason: "forbidden: the agent may not list nicclusterpolicies.mellanox.com"},
		{Key: "storageclass", Reason: "forbidden: the agent may not list storageclasses.storage.k8s.io"},
	}
	if diff := cmp.Diff(want, r.Status.Unread); diff != "" || r.Status.State != measurement.StatePartial {
		t.Errorf("%s %s", r.Status.State, diff)
	}
}
