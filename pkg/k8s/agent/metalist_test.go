package agent_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// metaList names the objects of a list.
func metaList(list runtime.Object) ([]string, error) {
	var out []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		m, ok := o.(metav1.Object)
		if !ok {
			return fmt.Errorf("%T has no metadata", o)
		}
		out = append(out, fmt.Sprintf("%T %s/%s", o, m.GetNamespace(), m.GetName()))
		return nil
	})
	return out, err
}
