package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	stderrors "errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/event"
	"github.com/NVIDIA/aicr/pkg/k8s/configmap"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// Deployer creates, watches and removes the objects of one invocation of a
// run. Its methods may be called by several goroutines at once.
type Deployer struct {
	client       kubernetes.Interface
	config       Config
	names        names
	invocationID string
	log          *slog.Logger

	deployed atomic.Bool
	ledger   ledger
	cleaning chan struct{} // holds a token while a Cleanup runs
}

// NewDeployer returns a Deployer of its own invocation ID. It sends no request
// and copies config; what is wrong with config is told by the first method
// that needs it.
func NewDeployer(client kubernetes.Interface, config Config) *Deployer {
	c := config.withDefaults()
	return &Deployer{
		client:       client,
		config:       c,
		names:        c.names(),
		invocationID: newInvocationID(),
		cleaning:     make(chan struct{}, 1),
		log:          c.Logger.With("run", c.RunID),
	}
}

func newInvocationID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// JobName returns the run-scoped name of the Job.
func (d *Deployer) JobName() string { return d.names.job }

// Deploy checks permissions and preconditions, ensures the namespace and
// creates the run's objects. It does not roll back: after any failure the
// caller's Cleanup removes what was created. Nothing is created any more once
// Cleanup was called. A Deployer deploys once.
//
// Errors: InvalidRequest for a faulty Config, before any request; Unauthorized
// naming every missing permission; Conflict for a run ID used before; NotFound
// for a runtime class that does not exist; otherwise what the server answered,
// joined where several requests failed.
func (d *Deployer) Deploy(ctx context.Context) (err error) {
	if err := d.config.Validate(); err != nil {
		return err
	}
	defer func() { err = whenOver(ctx, err) }()
	found, err := d.gate(ctx)
	if err != nil {
		return err
	}
	if d.ledger.isClosed() {
		return d.cleanedUp()
	}
	if !d.deployed.CompareAndSwap(false, true) {
		return errors.New(errors.Conflict, "run %q was already deployed by this Deployer", d.config.RunID).
			WithAdvice("make a new Deployer with a new run ID")
	}
	d.config.Events.Emit(event.Event{Type: event.Gate, Namespace: d.config.Namespace, Message: "permissions and preconditions hold"})
	if err := d.ensureNamespace(ctx, found.namespace); err != nil {
		return err
	}
	if found.adopted {
		_, err = d.createJob(ctx, d.config.ServiceAccountName)
	} else {
		err = d.createOwn(ctx, found.maySetOwner)
	}
	if err == nil && d.ledger.isClosed() {
		return d.cleanedUp() // while the last of it was created
	}
	return err
}

// createOwn creates the Job with an identity of its own. What can go with the
// Job after a kill of this process is created after it and owned by it; the
// agent waits for rights that arrive a moment later than its pod.
func (d *Deployer) createOwn(ctx context.Context, maySetOwner bool) error {
	err := together(func() error {
		_, err := create(ctx, d, kindServiceAccount, d.client.CoreV1().ServiceAccounts(d.config.Namespace), d.serviceAccount())
		return err
	}, func() error {
		_, err := create(ctx, d, kindClusterRole, d.client.RbacV1().ClusterRoles(), d.clusterRole())
		return err
	})
	if err != nil {
		return err
	}
	return together(func() error {
		_, err := create(ctx, d, kindClusterRoleBinding, d.client.RbacV1().ClusterRoleBindings(), d.clusterRoleBinding())
		return err
	}, func() error {
		job, err := d.createJob(ctx, d.names.identity)
		if err != nil {
			return err
		}
		return d.createOwned(ctx, job, maySetOwner)
	})
}

// createOwned creates what goes with the Job: the Role and its binding, and
// the ServiceAccount's owner reference.
func (d *Deployer) createOwned(ctx context.Context, job *batchv1.Job, maySetOwner bool) error {
	owner := jobOwner(job)
	return together(func() error {
		_, err := create(ctx, d, kindRole, d.client.RbacV1().Roles(d.config.Namespace), d.role(owner))
		if err != nil {
			return err
		}
		_, err = create(ctx, d, kindRoleBinding, d.client.RbacV1().RoleBindings(d.config.Namespace), d.roleBinding(owner))
		return err
	}, func() error {
		if maySetOwner {
			d.ownServiceAccount(ctx, owner)
		}
		return nil
	})
}

// together does all at once and returns what failed, joined. None is cut short
// by another's failure: that would lose answers.
func together(fs ...func() error) error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return stderrors.Join(errs...)
}

// cleanedUp is why a create does not start.
func (d *Deployer) cleanedUp() error {
	return errors.New(errors.Conflict, "run %q was cleaned up already: it creates nothing more", d.config.RunID).
		WithAdvice("make a new Deployer with a new run ID")
}

func (d *Deployer) createJob(ctx context.Context, serviceAccount string) (*batchv1.Job, error) {
	return create(ctx, d, kindJob, d.client.BatchV1().Jobs(d.config.Namespace), d.job(serviceAccount))
}

// labels returns the labels of everything that this Deployer creates.
func (d *Deployer) labels() map[string]string {
	return labels.ForRun(d.config.RunID, d.invocationID)
}

// meta returns the metadata of an object of the run in its namespace.
func (d *Deployer) meta(name string, owners ...metav1.OwnerReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       d.config.Namespace,
		Name:            name,
		Labels:          d.labels(),
		OwnerReferences: owners,
	}
}

// output returns the ConfigMap that the agent writes. The Config is valid.
func (d *Deployer) output() configmap.Ref {
	ref, _ := configmap.ParseURI(d.config.Output)
	return ref
}

func (d *Deployer) emit(t event.Type, r *record, message string) {
	d.config.Events.Emit(event.Event{Type: t, Kind: r.kind, Namespace: r.namespace, Name: r.name, Message: message})
}

// warn tells what does not end the run but what a person should know.
func (d *Deployer) warn(format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	d.log.Warn(message)
	d.config.Events.Emit(event.Event{Type: event.Warning, Namespace: d.config.Namespace, Message: message})
}
