// Package event tells what a run does while it does it. A run has one
// consumer, which a terminal view, plain lines or JSON lines are made from.
package event

import "time"

// Type names a step of a run.
type Type string

// The steps, in the order in which a run without faults takes them.
const (
	Gate      Type = "gate"      // permissions and preconditions hold
	Namespace Type = "namespace" // the namespace was created or labelled
	Created   Type = "created"   // an object of the run was created
	Completed Type = "completed" // the Job is complete
	Retrieved Type = "retrieved" // the snapshot is here
	Delivered Type = "delivered" // the snapshot is at its destination
	Deleted   Type = "deleted"   // an object of the run was deleted
	Warning   Type = "warning"   // something to know; the run goes on
)

// Event is one step. It holds no reference to anything of the run.
type Event struct {
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Kind, Namespace and Name tell the object, where the step is about one.
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Message is for people.
	Message string `json:"message,omitempty"`
}

// Sink consumes events. It is called by several goroutines at once, should
// return soon, and may be nil where nobody listens: use Emit.
type Sink func(Event)

// Emit stamps e with the time and hands it to the consumer, if there is one.
func (s Sink) Emit(e Event) {
	if s == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s(e)
}
