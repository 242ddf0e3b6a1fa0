package k8s

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// defaultClass marks the class of volumes that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// addStorageClass adds an item, and to the data the class' provisioner.
func addStorageClass(s *measurement.Subtype, c *storagev1.StorageClass) {
	r := readings{"default": measurement.Bool(c.Annotations[defaultClass] == "true")}
	r.text("provisioner", c.Provisioner)
	if c.ReclaimPolicy != nil {
		r.text("reclaim-policy", string(*c.ReclaimPolicy))
	}
	if c.VolumeBindingMode != nil {
		r.text("volume-binding-mode", string(*c.VolumeBindingMode))
	}
	if c.AllowVolumeExpansion != nil {
		r["allow-volume-expansion"] = measurement.Bool(*c.AllowVolumeExpansion)
	}
	r.text("mount-options", strings.Join(c.MountOptions, ","))
	for k, v := range c.Parameters {
		r[measurement.Key("parameters."+k)] = setting(k, v)
	}
	s.Items = append(s.Items, measurement.Item{Name: c.Name, Data: r})
	s.Data[c.Name] = measurement.Str(c.Provisioner)
}
