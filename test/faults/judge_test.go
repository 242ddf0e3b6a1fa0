package faults

import (
	"context"
	stderrors "errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/aicr/internal/inventory"
	"github.com/NVIDIA/aicr/pkg/errors"
)

// violation is a promise that was broken: (a) others' objects stay as they
// are, (b) nothing of ours is left, or it is named, (c) what was said is true.
func (c *run) violation(promise, format string, args ...any) {
	c.t.Helper()
	c.violations.Add(1)
	c.t.Errorf("("+promise+") "+format, args...)
}

// checkStands holds Deploy to its success.
func (c *run) checkStands() {
	c.t.Helper()
	var stand []string
	made := c.record().made
	for key, o := range c.list(context.Background()) {
		if _, ours := made[o.UID]; ours {
			stand = append(stand, key.Resource)
		}
	}
	replaced := c.record().struck // by the fault itself
	for _, resource := range c.scenario.stands {
		if !slices.Contains(stand, resource) && (replaced == nil || replaced.resource != resource) {
			c.violation("c", "Deploy succeeded, and no %s of the run stands", resource)
		}
	}
}

// judge looks at what is left once all is over.
func (c *run) judge() {
	c.t.Helper()
	ctx := context.Background()
	all := c.list(ctx)
	c.judgeWarnings(all)
	after := c.collect(ctx, all).inventory()
	c.judgeForeign(after)
	c.judgeLeft(after)
	c.judgeNamespace(ctx)
	for _, call := range c.calls {
		c.judgeCall(call)
	}
	if c.t.Failed() {
		c.t.Logf("calls:\n%s\nwarnings:\n%s\nrequests:\n%s", lines(c.calls), lines(c.said.list()), lines(c.record().requests))
	}
}

func lines[T any](list []T) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintf(&b, "\t%v\n", x)
	}
	return b.String()
}

func (c call) String() string {
	if c.err == nil {
		return c.name + ": nil"
	}
	return fmt.Sprintf("%s: %s: %v", c.name, errors.CodeOf(c.err), c.err)
}

// judgeForeign compares all that others made with what it was.
func (c *run) judgeForeign(after inventory.Inventory) {
	c.t.Helper()
	foreign := inventory.Inventory{}
	for key := range c.foreign {
		if o, ok := after[key]; ok {
			foreign[key] = o
		}
	}
	for _, what := range append(foreign.Diff(c.foreign), foreign.Changed(c.foreign)...) {
		c.violation("a", "somebody else's: %s", what)
	}
}

// judgeLeft holds Cleanup to its success: nothing is left, or it is named.
func (c *run) judgeLeft(after inventory.Inventory) {
	c.t.Helper()
	said := strings.Join(c.said.list(), "\n")
	for _, what := range after.Diff(c.foreign) {
		name := what[strings.LastIndexAny(what, " /")+1:]
		switch {
		case !strings.HasPrefix(what, "+ "): // judged above
		case strings.Contains(said, name):
			c.leftAndNamed++
		default:
			c.violation("b", "left without a word: %s", what)
		}
	}
}

// judgeWarnings checks that what is said to be left is there.
func (c *run) judgeWarnings(all listing) {
	c.t.Helper()
	for _, text := range c.said.list() {
		if !strings.Contains(text, "left in place") {
			continue
		}
		named := false
		for key := range all {
			named = named || strings.Contains(text, key.Name)
		}
		if named {
			c.leftAndNamed++
		} else {
			c.violation("c", "said to be left, and not there: %s", text)
		}
	}
}

// judgeNamespace: it is never deleted, and another owner's is left alone.
func (c *run) judgeNamespace(ctx context.Context) {
	c.t.Helper()
	ns, err := c.admin.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && c.scenario.absent: // never created
	case err != nil:
		c.violation("a", "the namespace: %v", err)
	case ns.DeletionTimestamp != nil:
		c.violation("a", "the namespace is being deleted")
	case c.foreignNamespace != "" && c.foreignNamespace != ns.ResourceVersion:
		c.violation("a", "the namespace of another owner was changed")
	}
}

// judgeCall holds an error to what happened: its code is one of the fault's,
// and it names what the fault struck.
func (c *run) judgeCall(call call) {
	c.t.Helper()
	code := errors.CodeOf(call.err)
	switch {
	case call.err == nil:
	case c.scenario.loses != "" && call.name == "Deploy" && code == errors.Unavailable:
	case c.fault == nil:
		c.violation("c", "%v without a fault", call)
	case !c.allows(call):
		c.violation("c", "%s ended with %s, want one of %v: %v", call.name, code, c.fault.codes, call.err)
	case call.struck && !c.names(call.err):
		c.violation("c", "%s does not name what failed: %v", call.name, call.err)
	}
}

// allows reports whether the fault explains the code.
func (c *run) allows(call call) bool {
	code := errors.CodeOf(call.err)
	switch {
	case c.fault.interrupts && stderrors.Is(call.err, context.Canceled):
		return true
	case c.scenario.stubborn && call.name != "Deploy" && c.calls[0].err != nil:
		return true // after Deploy failed
	case c.fault.lasts && call.name == "WaitForCompletion" && code == errors.Timeout:
		return true
	}
	return slices.Contains(c.fault.codes, code)
}

// names reports whether the error names the object, or of an access review
// the resource, that the fault struck.
func (c *run) names(err error) bool {
	if err == context.Canceled { //nolint:errorlint // bare, it is the caller's own doing and all there is to tell
		return true
	}
	text := err.Error()
	if !c.fault.wide {
		return strings.Contains(text, subject(c.target, c.record().struck.name))
	}
	// One that was about to be sent beside it is in no record.
	if c.target.asks != "" && strings.Contains(text, "ask whether ") {
		return true
	}
	// Every name holds the run's ID; only access reviews have none.
	return strings.Contains(text, c.runID) || slices.ContainsFunc(c.record().requests, func(r request) bool {
		return r.asks != "" && strings.Contains(text, subject(r, ""))
	})
}

func subject(r request, name string) string {
	if name == "" {
		return r.asks[strings.LastIndex(r.asks, " ")+1:]
	}
	return name
}
