package k8s

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

type readings map[string]measurement.Reading

// text adds a value that is set: the API leaves out what it does not know.
func (r readings) text(key, value string) {
	if value != "" {
		r[key] = measurement.Str(value)
	}
}

// serverSubtype reports the version; major and minor are text ("33+" on EKS).
func serverSubtype(info *version.Info) measurement.Subtype {
	r := readings{}
	r.text("version", info.GitVersion)
	r.text("major", info.Major)
	r.text("minor", info.Minor)
	r.text("platform", info.Platform)
	r.text("go-version", info.GoVersion)
	return measurement.Subtype{Name: subtypeServer, Data: r}
}

// gpuResources is the prefix of the resources that NVIDIA's device plugin
// offers: gpu, mig-1g.10gb and so on.
const gpuResources = "nvidia.com/"

// nodeSubtype reports what stays the same on an idle node: no timestamps, no
// resource version, no addresses.
func nodeSubtype(n *corev1.Node) measurement.Subtype {
	info := n.Status.NodeInfo
	runtime, runtimeVersion, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
	r := readings{}
	r.text("name", n.Name)
	r.text("provider", provider(n.Spec.ProviderID))
	r.text("instance-type", firstLabel(n, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType))
	r.text("container-runtime", runtime)
	r.text("container-runtime-version", runtimeVersion)
	r.text("kubelet-version", info.KubeletVersion)
	r.text("kernel-version", info.KernelVersion)
	r.text("os-image", info.OSImage)
	r.text("operating-system", info.OperatingSystem)
	r.text("architecture", info.Architecture)
	for key, list := range map[string]corev1.ResourceList{"capacity": n.Status.Capacity, "allocatable": n.Status.Allocatable} {
		for name, quantity := range list {
			if strings.HasPrefix(string(name), gpuResources) {
				r[key+"."+string(name)] = measurement.Int(quantity.Value())
			}
		}
	}
	for _, c := range n.Status.Conditions {
		r["condition."+string(c.Type)] = measurement.Str(string(c.Status))
	}
	return measurement.Subtype{Name: subtypeNode, Data: r}
}

func firstLabel(n *corev1.Node, keys ...string) string {
	for _, k := range keys {
		if v := n.Labels[k]; v != "" {
			return v
		}
	}
	return ""
}

// provider returns the cloud's name in a provider ID: <provider>://<ID>, as
// the Node API asks for. Oracle's are bare OCIDs. The ID itself is left out.
func provider(id string) string {
	name, _, ok := strings.Cut(id, "://")
	switch {
	case ok:
		return name
	case strings.HasPrefix(id, "ocid1."):
		return "oci"
	}
	return ""
}
