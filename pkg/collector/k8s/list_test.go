package k8s_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/NVIDIA/aicr/pkg/collector"
	"github.com/NVIDIA/aicr/pkg/collector/host/hosttest"
	"github.com/NVIDIA/aicr/pkg/collector/k8s"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

const (
	digestA = "sha256:aaaa"
	digestB = "sha256:bbbb"
)

// pod has a container an image, whose status tells that image ID.
func pod(name string, imageIDs map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for ref, id := range imageIDs {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: ref, Image: ref})
		if id != "" {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: ref, Image: "not/this", ImageID: id})
		}
	}
	return p
}

func TestListsBecomeItemsAndFamiliarMaps(t *testing.T) {
	own := pod("own", map[string]string{"example.com/aicr:v1": ""})
	own.Labels = map[string]string{"app.kubernetes.io/name": "aicr", "app.kubernetes.io/component": "snapshot-agent"}
	initialised := pod("initialised", map[string]string{"nvcr.io/nvidia/driver:580": "nvcr.io/nvidia/driver@" + digestA})
	initialised.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox"}, {Name: "again", Image: "busybox"}}
	initialised.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", ImageID: digestB}, {Name: "again", ImageID: digestB}}
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "csi.example.com", ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete), VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true), MountOptions: []string{"noatime", "nodiratime"},
		Parameters: map[string]string{"type": "ssd", "csi.storage.k8s.io/node-stage-secret-name": "creds", "adminPassword": "hunter2"},
	}
	daemonSet := func(namespace, name, image string, change func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: image}}
		d.Status = appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, NumberReady: 2}
		if change != nil {
			change(d)
		}
		return d
	}
	client := fake.NewClientset(node(), own, initialised, class,
		pod("a", map[string]string{"nvcr.io/nvidia/driver:580": "docker-pullable://nvcr.io/nvidia/driver@" + digestA, "me:hunter2@example.com/app:1": ""}),
		pod("b", map[string]string{"nvcr.io/nvidia/driver:580": "nvcr.io/nvidia/driver@" + digestB, "mirror.example.com/driver:570": ""}),
		pod("c", map[string]string{"example.com/pinned@" + digestA: "example.com/pinned@" + digestA}),
		daemonSet("gpu-operator", "nvidia-driver-daemonset", "mirror.example.com/driver:580", func(d *appsv1.DaemonSet) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "nvidia.com/v1", Kind: "ClusterPolicy"}}
			d.Labels = map[string]string{"helm.sh/chart": "gpu-operator-v25.3.0", "app.kubernetes.io/version": "v25.3.0"}
		}),
		daemonSet("network", "mofed", "mirror.example.com/doca:25.04", func(d *appsv1.DaemonSet) {
			d.Labels = map[string]string{"app.kubernetes.io/instance": "network-operator"}
		}),
		daemonSet("kube-system", "device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.4", nil),
		daemonSet("mirrored", "device-plugin", "me:hunter2@nvidia", func(d *appsv1.DaemonSet) {
			d.Labels = map[string]string{"app.kubernetes.io/part-of": "nvidia-gpu"}
		}),
		daemonSet("kube-system", "kube-proxy", "registry.k8s.io/kube-proxy:v1.35.4", nil),
		daemonSet("other", "owned", "example.com/x:1", func(d *appsv1.DaemonSet) {
			d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "other.com/v1", Kind: "ClusterPolicy"}}
		}),
	)
	client.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.35.4"}
	r := normalized(k8s.New(client, "gpu-1").Collect(t.Context()))
	hosttest.Golden(t, "lists.golden.yaml", r)
	if doc, err := json.Marshal(r); err != nil || strings.Contains(string(doc), "hunter2") {
		t.Errorf("a secret is shown, or %v: %s", err, doc)
	}
}

// policies collects what a server with those objects, by kind, tells of them.
func policies(t *testing.T, answers map[string]func(http.ResponseWriter)) collector.Result {
	t.Helper()
	s := &server{t: t, version: says(t, versionJSON), lists: answers}
	r := normalized(k8s.New(s.client(), "").Collect(t.Context()))
	r.Measurements[0].Subtypes = onlyPolicy(r.Measurements[0].Subtypes)
	return r
}

func onlyPolicy(all []measurement.Subtype) []measurement.Subtype {
	for i, s := range all {
		if s.Name == "policy" {
			return all[i : i+1]
		}
	}
	return nil
}

const (
	clusterPolicies    = "/apis/nvidia.com/v1/clusterpolicies"
	nvidiaDrivers      = "/apis/nvidia.com/v1alpha1/nvidiadrivers"
	nicClusterPolicies = "/apis/mellanox.com/v1alpha1/nicclusterpolicies"
)

func TestPoliciesAreFlattenedAndAbsentIsToldFromForbidden(t *testing.T) {
	r := policies(t, map[string]func(http.ResponseWriter){
		clusterPolicies: says(t, `{"metadata":{},"items":[{"metadata":{"name":"cluster-policy"},"status":{"state":"ready"},"spec":{
			"driver":{"enabled":true,"version":"580.65.06","imagePullSecrets":["ngc-secret"],"licensingConfig":{"secretName":"lic"},
				"env":[{"name":"PROXY","value":"http://me:hunter2@proxy"},{"name":"API_KEY","value":"hunter2"}],
				"args":["--token","hunter2","--v=2"],"none":null,"empty":{},"list":[]},
			"ratio":0.5,"count":9007199254740993,"huge":1e400}}]}`),
		nvidiaDrivers:      says(t, `{"items":[]}`),
		nicClusterPolicies: refuses(t, 403, metav1.StatusReasonForbidden),
	})
	hosttest.Golden(t, "policy.golden.yaml", r)
	if doc, err := json.Marshal(r); err != nil || strings.Contains(string(doc), "hunter2") {
		t.Errorf("a secret is shown, or %v: %s", err, doc)
	}
}

func TestRealPoliciesAreRead(t *testing.T) {
	for _, f := range hosttest.Shared(t, "gpu-operator/*") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var object struct {
			Kind string `json:"kind"`
		}
		if err := yaml.Unmarshal(b, &object); err != nil {
			t.Fatal(err)
		}
		path, ok := map[string]string{"ClusterPolicy": clusterPolicies, "NVIDIADriver": nvidiaDrivers}[object.Kind]
		if !ok {
			continue // a definition, not an object
		}
		j, err := yaml.YAMLToJSON(b)
		if err != nil {
			t.Fatal(err)
		}
		r := policies(t, map[string]func(http.ResponseWriter){path: says(t, `{"items":[`+string(j)+`]}`)})
		hosttest.Golden(t, strings.TrimSuffix(filepath.Base(f), ".yaml")+".golden.yaml", r)
	}
}

func TestAnswerThatIsNoListIsUnread(t *testing.T) {
	r := policies(t, map[string]func(http.ResponseWriter){clusterPolicies: says(t, "<html>")})
	if u := r.Status.Unread[1]; u.Key != "policy/ClusterPolicy" || !strings.HasPrefix(u.Reason, "the API server's answer cannot be read: ") {
		t.Errorf("%+v", r.Status)
	}
}

func TestAListThatEndsEarlyIsNoReading(t *testing.T) {
	pages := 0
	s := &server{t: t, version: says(t, versionJSON), lists: map[string]func(http.ResponseWriter){
		"/api/v1/pods": func(w http.ResponseWriter) {
			if pages++; pages > 1 {
				refuses(t, 500, metav1.StatusReasonInternalError)(w)
				return
			}
			says(t, `{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}]}`)(w)
		},
	}}
	r := k8s.New(s.client(), "").Collect(t.Context())
	snapshot := measurement.Snapshot{Measurements: r.Measurements}
	if _, ok := snapshot.Subtype(measurement.TypeK8s, "image"); ok || r.Status.State != measurement.StatePartial {
		t.Errorf("half of the pods pass for all: %+v", r)
	}
}

func TestImageReferencesAreTakenApart(t *testing.T) {
	for ref, want := range map[string][2]string{
		"busybox": {"busybox", "latest"}, "example.com:5000/a/b:1.2": {"b", "1.2"}, "a/b@" + digestA: {"b", digestA},
		"a/b:1@" + digestA: {"b", "1"}, "me:hunter2@app:3": {"app", "3"}, "me:hunter2@app": {"app", "latest"},
	} {
		r := k8s.New(fake.NewClientset(pod("p", map[string]string{ref: ""})), "").Collect(t.Context())
		s := measurement.Snapshot{Measurements: r.Measurements}
		st, _ := s.Subtype(measurement.TypeK8s, "image")
		if diff := cmp.Diff(map[string]measurement.Reading{want[0]: measurement.Str(want[1])}, st.Data); diff != "" {
			t.Errorf("%s: %s", ref, diff)
		}
	}
}
