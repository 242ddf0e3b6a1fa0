package k8s

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/NVIDIA/aicr/pkg/collector/redact"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// Labels by which charts and operators mark what they deploy.
const (
	labelChart      = "helm.sh/chart"
	labelAppVersion = "app.kubernetes.io/version"
)

// daemonSets gathers those of the GPU and network operators.
type daemonSets []measurement.Item

func (d *daemonSets) add(set *appsv1.DaemonSet) {
	if !ofOperators(set) {
		return
	}
	r := readings{
		"desired": measurement.Int(set.Status.DesiredNumberScheduled),
		"ready":   measurement.Int(set.Status.NumberReady),
	}
	r.text("chart", set.Labels[labelChart])
	r.text("app-version", set.Labels[labelAppVersion])
	pod := &set.Spec.Template.Spec
	r.text("version", versionOf(pod))
	for _, c := range containers(pod) {
		r["image."+c.Name] = measurement.Str(redact.Image(c.Image))
	}
	*d = append(*d, measurement.Item{Name: set.Namespace + "/" + set.Name, Data: r})
}

// subtype tells each DaemonSet as an item, and in the data the version by its
// name, as the image map does.
func (d *daemonSets) subtype() measurement.Subtype {
	slices.SortFunc(*d, func(a, b measurement.Item) int { return cmp.Compare(a.Name, b.Name) })
	versions := map[string][]string{}
	for _, item := range *d {
		_, name, _ := strings.Cut(item.Name, "/")
		versions[name] = append(versions[name], item.Data["version"].String())
	}
	return measurement.Subtype{Name: subtypeDaemonSets, Data: folded(versions), Items: *d, Context: map[string]string{
		"selection": "owned by a policy of the GPU or network operator, labelled as theirs, or running an image of NVIDIA's",
	}}
}

// versionOf is the tag of what the DaemonSet is there for: its first
// container, whose name in the operators' charts is the DaemonSet's own.
func versionOf(pod *corev1.PodSpec) string {
	if len(pod.Containers) == 0 {
		return ""
	}
	_, tag := splitReference(redact.Image(pod.Containers[0].Image))
	return tag
}

func containers(pod *corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// ofOperators reports whether a DaemonSet belongs to the GPU or the network
// operator. They own what they deploy by their policies, label it, and their
// images come from NVIDIA's registry or a mirror that keeps the path; the last
// also finds a device plugin that was installed alone.
func ofOperators(set *appsv1.DaemonSet) bool {
	for _, o := range set.OwnerReferences {
		if slices.ContainsFunc(policyKinds[:], func(k policyKind) bool { return k.kind == o.Kind && strings.HasPrefix(o.APIVersion, k.group+"/") }) {
			return true
		}
	}
	for _, key := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/instance"} {
		switch v := set.Labels[key]; {
		case strings.HasPrefix(v, "gpu-operator"), strings.HasPrefix(v, "network-operator"), strings.HasPrefix(v, "nvidia-"):
			return true
		}
	}
	return slices.ContainsFunc(containers(&set.Spec.Template.Spec), func(c corev1.Container) bool {
		return strings.HasPrefix(c.Image, "nvcr.io/") || strings.Contains(c.Image, "nvidia/") || strings.Contains(c.Image, "mellanox/")
	})
}
