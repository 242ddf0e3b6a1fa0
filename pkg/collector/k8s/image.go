package k8s

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/NVIDIA/aicr/pkg/collector/redact"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
	"github.com/NVIDIA/aicr/pkg/measurement"
)

// image is an image as pods name it, and what a node found under that name.
type image struct {
	ref string
	// digest is the manifest's where it is known; id is the runtime's own
	// identifier where a node tells only that, as for an image that was
	// imported and not pulled. Both are empty until a container has started.
	digest, id string
}

// imageCount counts the pods that use an image.
type imageCount map[image]int

// add counts a pod. Pods of aicr's own runs are left out: they would make two
// snapshots of the same cluster differ.
func (c imageCount) add(pod *corev1.Pod) {
	if pod.Labels[labels.Name] == labels.AICR && pod.Labels[labels.Component] == labels.SnapshotAgent {
		return
	}
	ids := map[string]string{}
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			ids[statuses[i].Name] = statuses[i].ImageID
		}
	}
	seen := map[image]bool{}
	add := func(container, ref string) { seen[newImage(ref, ids[container])] = true }
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Image)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Image)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Name, pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range seen {
		c[i]++
	}
}

// newImage takes the image ID of a container's status apart: runtimes give
// repository@digest, some behind a scheme, or a bare ID.
func newImage(ref, imageID string) image {
	i := image{ref: redact.Image(ref)}
	if at := strings.LastIndexByte(imageID, '@'); at >= 0 {
		i.digest = imageID[at+1:]
	} else {
		i.id = imageID
	}
	return i
}

// name is the reference with the digest, by which the image can be pulled
// again; with the runtime's ID where nothing else tells two apart.
func (i image) name() string {
	switch pin := cmp.Or(i.digest, i.id); {
	case pin == "", strings.HasSuffix(i.ref, "@"+pin):
		return i.ref
	default:
		return i.ref + "@" + pin
	}
}

func (c imageCount) subtype() measurement.Subtype {
	s := measurement.Subtype{Name: subtypeImage, Context: map[string]string{"left-out": "pods of aicr's own runs"}}
	tags := map[string][]string{}
	for _, i := range slices.SortedFunc(maps.Keys(c), func(a, b image) int {
		return cmp.Or(cmp.Compare(a.ref, b.ref), cmp.Compare(a.digest, b.digest), cmp.Compare(a.id, b.id))
	}) {
		r := readings{"pods": measurement.Int(c[i])}
		r.text("reference", i.ref)
		r.text("digest", i.digest)
		r.text("image-id", i.id)
		s.Items = append(s.Items, measurement.Item{Name: measurement.Text(i.name()), Data: r})
		name, tag := splitReference(i.ref)
		tags[name] = append(tags[name], tag)
	}
	s.Data = folded(tags)
	return s
}

// folded writes the familiar map of a name to its version; several versions of
// one name stand together, sorted.
func folded(versions map[string][]string) readings {
	r := readings{}
	for name, v := range versions {
		slices.Sort(v)
		r[measurement.Key(name)] = measurement.Str(strings.Join(slices.Compact(v), ", "))
	}
	return r
}

// splitReference returns the last part of a redacted reference's repository,
// and its tag; its digest where it has none; "latest", which is what is
// pulled, where it has neither.
func splitReference(ref string) (name, tag string) {
	last := strings.TrimPrefix(ref[strings.LastIndexByte(ref, '/')+1:], redact.Marker+"@")
	rest, digest, _ := strings.Cut(last, "@")
	name, tag, _ = strings.Cut(rest, ":")
	return name, cmp.Or(tag, digest, "latest")
}
