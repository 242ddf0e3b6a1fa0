package topologytest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUNode is node i of a cluster of GPU nodes, with names, labels, taints and
// images as one on a cloud has them: what all share, what a rack, a zone or a
// pool shares, and what is each node's own.
func GPUNode(i int) *corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-%d.us-east-1.compute.internal", i>>16, i>>8&255, i&255)
	// Racks of 18 nodes, as of NVL72, in 3 zones; every tenth rack is of
	// another kind.
	rack, zone := i/18, string(rune('a'+i/18%3))
	product, instance := "NVIDIA-GB200", "p6e-gb200.36xlarge"
	if rack%10 == 9 {
		product, instance = "NVIDIA-H100-80GB-HBM3", "p5.48xlarge"
	}
	labels := map[string]string{
		"beta.kubernetes.io/arch": "arm64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
		"kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": instance, "beta.kubernetes.io/instance-type": instance,
		"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1" + zone,
		"topology.k8s.aws/zone-id": "use1-az" + zone, "topology.k8s.aws/network-node-layer-1": "nn-" + zone,
		"topology.k8s.aws/network-node-layer-2": fmt.Sprintf("nn-%s-%d", zone, rack/12),
		"topology.k8s.aws/network-node-layer-3": fmt.Sprintf("nn-%s-%d", zone, rack/4),
		"eks.amazonaws.com/nodegroup":           fmt.Sprintf("gpu-%d", rack%4), "example.com/instance-id": fmt.Sprintf("i-%017x", i*7919),
		"nvidia.com/gpu.clique":   fmt.Sprintf("7b968a6d-c8aa-45e1-9e07-e1e51be9%04x.1", rack),
		"nvidia.com/gpu.product":  product,
		"nvidia.com/gpu.machine":  "GB200-NVL72",
		"nvidia.com/gpu.present":  "true",
		"nvidia.com/gpu.count":    "4",
		"nvidia.com/gpu.family":   "blackwell",
		"nvidia.com/gpu.memory":   "189471",
		"nvidia.com/mig.strategy": "single", "nvidia.com/mig.config": []string{"all-disabled", "all-1g.23gb"}[i/7%2],
		"nvidia.com/gfd.timestamp":         fmt.Sprintf("17650%05d", i*3),
		"nvidia.com/cuda.driver.major":     "580",
		"nvidia.com/cuda.driver.minor":     []string{"65", "82"}[i/1000%2],
		"nvidia.com/gpu.deploy.driver":     "true",
		"node-role.kubernetes.io/gpu":      "",
		"example.com/repair.ticket-needed": []string{"no", "no", "no", "no", "no", "no", "yes"}[i%7],
	}
	for n := range 60 {
		labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%02d", n)] = "true"
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"nfd.node.kubernetes.io/feature-labels": fmt.Sprint(labels)}},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///us-east-1" + zone + "/" + labels["example.com/instance-id"],
			Taints:     []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
	}
	if i%97 == 0 {
		node.Spec.Taints = append(node.Spec.Taints,
			corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute},
			corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoSchedule})
	}
	for n := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names:     []string{fmt.Sprintf("registry.example.com/team/project/image-%d@sha256:%064x", n, n), fmt.Sprintf("registry.example.com/team/project/image-%d:v1", n)},
			SizeBytes: int64(n) << 20,
		})
	}
	return node
}

// Expect is what a document must tell of those nodes.
func Expect(nodes []*corev1.Node, summarised ...string) Topology {
	t := Topology{Nodes: map[string]*Node{}, Summarised: map[string]bool{}}
	for _, key := range summarised {
		t.Summarised[key] = true
	}
	for _, n := range nodes {
		want := &Node{Labels: map[string]string{}, Taints: map[string]bool{}}
		for k, v := range n.Labels {
			if !t.Summarised[k] {
				want.Labels[k] = v
			}
		}
		for _, taint := range n.Spec.Taints {
			want.Taints[taint.Key+"="+taint.Value+":"+string(taint.Effect)] = true
		}
		t.Nodes[n.Name] = want
	}
	return t
}
