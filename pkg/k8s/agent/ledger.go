package agent

import (
	"context"
	stderrors "errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// The kinds that a run creates.
const (
	kindServiceAccount     = "ServiceAccount"
	kindRole               = "Role"
	kindRoleBinding        = "RoleBinding"
	kindClusterRole        = "ClusterRole"
	kindClusterRoleBinding = "ClusterRoleBinding"
	kindJob                = "Job"
	kindConfigMap          = "ConfigMap"
)

// typedClient is what client-go's typed clients have in common.
type typedClient[T metav1.Object] interface {
	Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// record is one object that this Deployer created, or may have created.
type record struct {
	kind, namespace, name string
	// confirmed says that the create was answered, so that uid holds what the
	// answer told. Only a fake answers without a UID.
	confirmed bool
	uid       types.UID
	// answered is closed when the create has ended, with whatever outcome.
	answered chan struct{}
	// lost says that the create's outcome is not known.
	lost bool

	get    func(ctx context.Context) (metav1.Object, error)
	delete func(ctx context.Context, opts metav1.DeleteOptions) error
}

func newRecord[T metav1.Object](c typedClient[T], kind, namespace, name string) *record {
	return &record{
		kind: kind, namespace: namespace, name: name,
		answered: make(chan struct{}),
		get: func(ctx context.Context) (metav1.Object, error) {
			return c.Get(ctx, name, metav1.GetOptions{})
		},
		delete: func(ctx context.Context, opts metav1.DeleteOptions) error {
			return c.Delete(ctx, name, opts)
		},
	}
}

// settled reports whether the create has ended.
func (r *record) settled() bool {
	select {
	case <-r.answered:
		return true
	default:
		return false
	}
}

// String names the object as kubectl does: kind namespace/name.
func (r *record) String() string {
	if r.namespace == "" {
		return r.kind + " " + r.name
	}
	return r.kind + " " + r.namespace + "/" + r.name
}

// ledger is the set of objects to delete. It is safe for concurrent use;
// records are changed only through it.
type ledger struct {
	mu      sync.Mutex
	records []*record
	closed  bool
}

// add records what is about to be created, unless the ledger is closed.
func (l *ledger) add(r *record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.records = append(l.records, r)
	return true
}

// close ends the creates: none starts after it.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *ledger) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// await waits until every create has ended, at most until ctx is done.
func (l *ledger) await(ctx context.Context) {
	for _, r := range l.list() {
		select {
		case <-r.answered:
		case <-ctx.Done():
			return
		}
	}
}

// observe adds an object that was seen, unless it is recorded already.
func (l *ledger) observe(r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.records {
		if x.kind == r.kind && x.namespace == r.namespace && x.name == r.name {
			return
		}
	}
	l.records = append(l.records, r)
}

func (l *ledger) confirm(r *record, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.confirmed, r.uid = true, uid
}

func (l *ledger) markLost(r *record, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.lost = lost
}

func (l *ledger) isLost(r *record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.lost
}

func (l *ledger) remove(r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = slices.DeleteFunc(l.records, func(x *record) bool { return x == r })
}

// list returns the records in the order of their creation.
func (l *ledger) list() []*record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}

// find returns the record of that kind, or nil; a run has at most one of each.
func (l *ledger) find(kind string) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.kind == kind {
			return r
		}
	}
	return nil
}

// identity returns what is known of the object's UID.
func (l *ledger) identity(r *record) (uid types.UID, confirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.uid, r.confirmed
}

// create records the object, asks for its creation and records the answer. An
// object that already stands there is never adopted: unless it proves to be
// the outcome of this very create, the answer is a Conflict and the record
// goes. Every other error leaves the record, since the server may have
// committed what it did not get to say.
func create[T metav1.Object](ctx context.Context, d *Deployer, kind string, c typedClient[T], want T) (T, error) {
	var none T
	r := newRecord(c, kind, want.GetNamespace(), want.GetName())
	if !d.ledger.add(r) {
		return none, d.cleanedUp()
	}
	defer close(r.answered)
	if err := ctx.Err(); err != nil {
		d.ledger.remove(r)
		return none, apiError(err, "create %s", r)
	}
	ctx, cancel := outlasting(ctx)
	defer cancel()
	got, err := c.Create(ctx, want, metav1.CreateOptions{FieldManager: labels.AICR})
	if apierrors.IsAlreadyExists(err) {
		got, err = settle(ctx, d, c, r)
	}
	if err != nil {
		d.ledger.markLost(r, mayHaveBeenDone(err))
		return none, apiError(err, "create %s", r)
	}
	d.ledger.confirm(r, got.GetUID())
	d.emit(event.Created, r, "")
	return got, nil
}

// answerGrace is what a create under way gets when its caller's time is over:
// one that we cut off could reach the server after Cleanup has looked.
const answerGrace = 5 * time.Second

// outlasting returns a context that ends answerGrace after ctx.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerGrace, cancel) })
	return out, func() { stop(); cancel() }
}

// mayHaveBeenDone reports whether the error leaves open what the server did:
// it is neither a refusal of the server's nor a failure to reach it at all.
func mayHaveBeenDone(err error) bool {
	var status apierrors.APIStatus
	var dial *net.OpError
	switch {
	case stderrors.As(err, &status):
		return status.Status().Code >= http.StatusInternalServerError
	case stderrors.As(err, &dial):
		return dial.Op != "dial"
	}
	return true
}

// settle decides an AlreadyExists. client-go repeats a create that was answered
// with 429 or 5xx and Retry-After, so the object may be our own first attempt;
// only the live object's labels tell.
func settle[T metav1.Object](ctx context.Context, d *Deployer, c typedClient[T], r *record) (T, error) {
	var none T
	live, err := c.Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case err == nil && d.owns(live):
		return live, nil
	case err == nil, apierrors.IsNotFound(err):
		d.ledger.remove(r)
		return none, errors.New(errors.Conflict, "an object of that name exists already and is left as it is").
			WithAdvice("run ID %q was used before: use a new one", d.config.RunID)
	}
	return none, err
}

// owns reports whether the live object is one that this Deployer created: it
// has a UID and every label, the invocation ID included.
func (d *Deployer) owns(live metav1.Object) bool {
	return live.GetUID() != "" && labels.Has(live.GetLabels(), d.labels())
}
