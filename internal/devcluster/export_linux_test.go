package devcluster

import "context"

// HoldSlot takes a node's number, so that no other node on the machine can
// have it meanwhile, and gives what releases it; nil when it is taken.
func HoldSlot(ctx context.Context, number int) (func() error, error) {
	s, err := trySlot(ctx, number)
	if s == nil || err != nil {
		return nil, err
	}
	return s.release, nil
}
