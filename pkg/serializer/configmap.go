package serializer

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/apierror"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// MaxConfigMapBytes is what the values of a ConfigMap may hold together: the
// API server's own limit.
const MaxConfigMapBytes = 1 << 20

// JobRef names the Job that owns a staging ConfigMap.
type JobRef struct {
	Name string
	UID  types.UID
}

// ConfigMapOptions tell NewConfigMap what to write and for whom.
type ConfigMapOptions struct {
	Client kubernetes.Interface
	Ref    configmap.Ref
	// Owner, when set, is put on the ConfigMap as a plain owner reference (no
	// controller, blocking no deletion), so that a ConfigMap written when its
	// run is being cleaned up goes with the run's Job. A ConfigMap that a
	// caller asked for has none.
	//
	// The reference needs no right beyond those of the write: the admission
	// plugin OwnerReferencesPermissionEnforcement asks for "delete" only where
	// a reference is added to a ConfigMap that exists, and for the owner's
	// finalizers only where it blocks the owner's deletion. Where it is refused
	// nonetheless the write fails: without its owner, a late write would stay.
	Owner *JobRef
}

type configMap struct {
	ConfigMapOptions
	now    func() time.Time
	pauses pauses
}

// NewConfigMap returns the destination that writes the document to a
// ConfigMap by server-side apply as field manager "aicr". It puts there the
// document, its format and the time, and the labels name, component (the
// document's kind) and version; what others put on an existing ConfigMap
// beside these stays.
//
// Apply is forced: the fields are few, they are aicr's by their names, and
// whoever named an existing ConfigMap as output wants them replaced, even
// where another tool or an older aicr wrote them by another way. A conflict
// would cost a snapshot and save nothing.
//
// Write waits out a Forbidden of up to 20 seconds, because a run's RoleBinding
// is made after its Job, and an API server that is away or fails (any 5xx, 429)
// for up to a minute, each measured from the first of such answers in a row; an
// apply can be repeated. A document beyond MaxConfigMapBytes is
// InvalidRequest, before a request is sent.
func NewConfigMap(o ConfigMapOptions) Destination {
	return configMap{ConfigMapOptions: o, now: time.Now, pauses: defaultPauses()}
}

func (c configMap) String() string { return c.Ref.String() }

func (c configMap) Check(context.Context) error {
	_, err := configmap.ParseURI(c.Ref.String())
	return err
}

func (c configMap) Write(ctx context.Context, d Document) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	data := map[string]string{
		configmap.DocumentKey(string(d.Format)): string(d.Data),
		configmap.KeyFormat:                     string(d.Format),
		configmap.KeyTimestamp:                  c.now().UTC().Format(time.RFC3339),
	}
	if err := checkSize(c.Ref, data); err != nil {
		return err
	}
	obj := corev1ac.ConfigMap(c.Ref.Name, c.Ref.Namespace).
		WithData(data).
		WithLabels(map[string]string{
			labels.Name:      labels.AICR,
			labels.Component: labelValue(strings.ToLower(d.Kind)),
			labels.Version:   labelValue(d.Version),
		})
	if c.Owner != nil {
		obj.WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion("batch/v1").WithKind("Job").WithName(c.Owner.Name).WithUID(c.Owner.UID).
			WithBlockOwnerDeletion(false))
	}
	return c.apply(ctx, obj)
}

// apply repeats the request until it is answered with something that waiting
// does not change.
func (c configMap) apply(ctx context.Context, obj *corev1ac.ConfigMapApplyConfiguration) error {
	configMaps := c.Client.CoreV1().ConfigMaps(c.Ref.Namespace)
	err := c.pauses.retry(ctx, func() error {
		_, err := configMaps.Apply(ctx, obj, metav1.ApplyOptions{FieldManager: configmap.FieldManager, Force: true})
		return err
	})
	if apierrors.IsForbidden(err) {
		return apierror.Wrap(err, "write %s", c.Ref).
			WithAdvice("let this identity create and patch the ConfigMap %s in namespace %s", c.Ref.Name, c.Ref.Namespace)
	}
	if err != nil {
		return apierror.Wrap(err, "write %s", c.Ref)
	}
	return nil
}

func checkSize(ref configmap.Ref, data map[string]string) error {
	size := 0
	for _, v := range data {
		size += len(v)
	}
	if size <= MaxConfigMapBytes {
		return nil
	}
	return errors.New(errors.InvalidRequest, "write %s: the document has %d bytes, and a ConfigMap holds %d",
		ref, size, MaxConfigMapBytes).
		WithAdvice("capture less with --max-nodes-per-entry, or run aicr snapshot --local -o FILE on the node")
}

// labelValue makes a valid label value: other characters become "_", and what
// is beyond 63 characters is cut.
func labelValue(s string) string {
	v := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	v = v[:min(len(v), validation.LabelValueMaxLength)]
	return strings.Trim(v, "-_.")
}
