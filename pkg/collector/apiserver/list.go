// Package apiserver holds what the collectors that read from a Kubernetes API
// server have in common: lists read page by page, and reasons that a person
// can act on.
package apiserver

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/pkg/measurement"
)

// PageSize is how many objects are asked for at once.
const PageSize = 500

// Pages reads a list to its end, size objects at a time, and hands each page
// to reduce, which must not keep it: at no time is the whole list in memory.
//
// A list takes place at one state of the cluster. Where the server forgets
// that state before the end, the rest is read from a later one, as the
// server's answer offers: no object is seen twice, but one that changed
// meanwhile is seen as it is then. Pages then returns false, and true else. It
// never falls back to one whole list.
func Pages[L metav1.ListInterface](ctx context.Context, size int64, list func(context.Context, metav1.ListOptions) (L, error), reduce func(L)) (consistent bool, err error) {
	consistent = true
	o := metav1.ListOptions{Limit: size}
	for {
		page, err := list(ctx, o)
		if next := laterState(err, o.Continue); next != "" {
			o.Continue, consistent = next, false
			continue
		}
		if err != nil {
			return consistent, err
		}
		reduce(page)
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return consistent, nil
		}
	}
}

// laterState returns the token that a server offers in place of one that it
// has let expire: 410 Gone with a continue token,
// https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
func laterState(err error, token string) string {
	var status apierrors.APIStatus
	if token == "" || !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	next := status.Status().Continue
	if next == token {
		return "" // it would be refused again
	}
	return next
}

// NoteInconsistent says in a subtype's context that [Pages] returned false.
func NoteInconsistent(s *measurement.Subtype) {
	if s.Context == nil {
		s.Context = map[string]string{}
	}
	s.Context["consistency"] = "the list changed while it was read: its later pages show a later state than its first"
}
