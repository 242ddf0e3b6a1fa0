package serializer

import (
	"context"
	stderrors "errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/apierror"
)

// pauses tell how long to repeat a request for, by the kind of answer.
type pauses struct {
	// first is the pause after the first attempt; each is half as long again
	// as the one before it, up to longest.
	first, longest time.Duration
	// forbidden is how long answers may stay Forbidden, unavailable how long
	// the API server may be away or fail, each since the first of the answers
	// of its kind that follow each other.
	forbidden, unavailable time.Duration
}

func defaultPauses() pauses {
	return pauses{
		first: 100 * time.Millisecond, longest: 3 * time.Second,
		forbidden: 20 * time.Second, unavailable: time.Minute,
	}
}

// retry calls f until it succeeds, its error is one that waiting does not
// change, or the time for it is over. When ctx ends while waiting, the error
// tells that and the last answer.
func (p pauses) retry(ctx context.Context, f func() error) error {
	var last kind
	var since time.Time
	for pause := p.first; ; pause = min(pause*3/2, p.longest) {
		err := f()
		patience, k := p.patience(err)
		if k != last {
			last, since = k, time.Now()
		}
		if k == final || time.Since(since)+pause > patience {
			return err
		}
		select {
		case <-ctx.Done():
			return stderrors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// kind is a kind of answer by what waiting for another is worth.
type kind int

const (
	final kind = iota
	refusal
	outage
)

// patience is how long answers as err may follow each other. Every failure of
// a server counts as one that may pass: an apply can be repeated, and what
// writes it has no other way to deliver.
func (p pauses) patience(err error) (time.Duration, kind) {
	switch {
	case err == nil:
		return 0, final
	case apierrors.IsForbidden(err):
		return p.forbidden, refusal
	case apierror.Code(err) == errors.Unavailable, apierror.Status(err) >= http.StatusInternalServerError:
		return p.unavailable, outage
	}
	return 0, final
}
