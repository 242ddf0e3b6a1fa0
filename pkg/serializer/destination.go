package serializer

import (
	"context"
	"fmt"
	"io"
)

// Document is what is written.
type Document struct {
	Format Format
	Data   []byte
	// Kind is the document's kind, such as "Snapshot".
	Kind string
	// Version is that of the aicr which made the document.
	Version string
}

// Destination takes a document. Implementations are safe for concurrent use,
// except that two writes at once leave either document.
type Destination interface {
	// Check reports, without changing anything and without a request to a
	// cluster, what would make Write fail for certain.
	Check(ctx context.Context) error
	// Write puts the document there, whole or not at all where the
	// destination can.
	Write(ctx context.Context, d Document) error
	// String names the destination for people.
	String() string
}

type stream struct{ w io.Writer }

// NewStdout returns the destination that writes to w, the process' standard
// output.
func NewStdout(w io.Writer) Destination { return stream{w} }

func (s stream) Check(context.Context) error { return nil }

func (s stream) Write(_ context.Context, d Document) error {
	if _, err := s.w.Write(d.Data); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

func (s stream) String() string { return "standard output" }
