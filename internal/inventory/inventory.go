// Package inventory lists every object of a cluster, so that a test can prove,
// and the demo can show, what a run created, changed and left.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Key names an object.
type Key struct{ Resource, Namespace, Name string }

// String names the object as resource namespace/name.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource + " " + k.Name
	}
	return k.Resource + " " + k.Namespace + "/" + k.Name
}

// Object is what identifies an object and its state.
type Object struct {
	UID             types.UID
	ResourceVersion string
}

// Inventory is what a cluster held at one time.
type Inventory map[Key]Object

// noise returns the kinds that change by themselves on an idle cluster.
func noise() []string {
	return []string{"events", "events.events.k8s.io", "leases.coordination.k8s.io"}
}

// Taker takes inventories. It asks once which kinds the cluster has.
type Taker struct {
	client metadata.Interface
	kinds  []schema.GroupVersionResource
}

// NewTaker finds the kinds that can be listed, events and leases apart.
func NewTaker(config *rest.Config) (*Taker, error) {
	config = rest.CopyConfig(config)
	config.ContentType = ""
	config.WarningHandler = rest.NoWarnings{} // old kinds are listed on purpose
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lists, err := discovery.ServerPreferredResources(d)
	if err != nil {
		return nil, fmt.Errorf("discover the kinds of the cluster: %w", err)
	}
	t := &Taker{client: client}
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			gvr := gv.WithResource(r.Name)
			if !slices.Contains(noise(), gvr.GroupResource().String()) {
				t.kinds = append(t.kinds, gvr)
			}
		}
	}
	return t, nil
}

// Take lists every object of the cluster.
func (t *Taker) Take(ctx context.Context) (Inventory, error) {
	inv := Inventory{}
	for _, gvr := range t.kinds {
		opts := metav1.ListOptions{Limit: 500}
		for {
			list, err := t.client.Resource(gvr).List(ctx, opts)
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
			}
			for _, o := range list.Items {
				inv[Key{gvr.GroupResource().String(), o.Namespace, o.Name}] = Object{o.UID, o.ResourceVersion}
			}
			if opts.Continue = list.Continue; opts.Continue == "" {
				break
			}
		}
	}
	return inv, nil
}

// Unchanged is an error that tells what came, went or was replaced since before.
func (t *Taker) Unchanged(ctx context.Context, before Inventory) error {
	now, err := t.Take(ctx)
	if err != nil {
		return err
	}
	if diff := now.Diff(before); len(diff) > 0 {
		return errors.New(strings.Join(diff, "\n"))
	}
	return nil
}

// Diff tells, sorted, what came (+), went (-) or was replaced by another
// object of the same name (~) since before. Changes in place do not count:
// see Changed.
func (i Inventory) Diff(before Inventory) []string {
	var out []string
	for k, now := range i {
		switch old, ok := before[k]; {
		case !ok:
			out = append(out, "+ "+k.String())
		case old.UID != now.UID:
			out = append(out, "~ "+k.String())
		}
	}
	for k := range before {
		if _, ok := i[k]; !ok {
			out = append(out, "- "+k.String())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
	return out
}

// Changed names, sorted, the objects of before that still stand and whose
// resource version is another.
func (i Inventory) Changed(before Inventory) []string {
	var out []string
	for k, old := range before {
		if now, ok := i[k]; ok && now.UID == old.UID && now.ResourceVersion != old.ResourceVersion {
			out = append(out, k.String())
		}
	}
	slices.Sort(out)
	return out
}
