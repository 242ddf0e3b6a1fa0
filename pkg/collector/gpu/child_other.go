//go:build !unix

package gpu

import (
	"context"
	"errors"
)

func runChild(context.Context, place) answer {
	return answer{startErr: errors.New("it is run on Linux only")}
}
