package serializer

import (
	"context"
	stderrors "errors"
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
	// forbidden is how long a Forbidden may last, unavailable how long the
	// API server may be away, both since the first attempt.
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
	start := time.Now()
	for pause := p.first; ; pause = min(pause*3/2, p.longest) {
		err := f()
		if err == nil || time.Since(start)+pause > p.patience(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return stderrors.Join(ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// patience is how long an error may last before it is final.
func (p pauses) patience(err error) time.Duration {
	switch {
	case apierrors.IsForbidden(err):
		return p.forbidden
	case apierror.Code(err) == errors.Unavailable:
		return p.unavailable
	}
	return 0
}
