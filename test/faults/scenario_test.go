package faults

import (
	"github.com/NVIDIA/aicr/pkg/k8s/agent"
)

// scenario is a way to use a Deployer.
type scenario struct {
	name   string
	change func(*agent.Config)
	// absent says that the namespace is to be created.
	absent bool
	// identity says that the run's ServiceAccount stands and is used.
	identity bool
	// older says that the agent sets no owner reference, as those of other
	// versions do.
	older bool
	// late says that the agent writes its ConfigMap only when the delete of
	// its Job arrives.
	late bool
	// reads says that the caller waits and reads the snapshot. Otherwise it
	// goes from Deploy to Cleanup, as one that is interrupted does.
	reads bool
	// keeps says that the ConfigMap is the caller's own.
	keeps bool
	// stands are the kinds of which Deploy makes one.
	stands []string
	// stubborn says that the caller goes on after errors.
	stubborn bool
	// loses is the kind whose create stays without an answer, beside the fault.
	loses string
	// reviews says that access reviews are struck too. Their code is the same
	// in all scenarios.
	reviews bool
}

// ownIdentity is the plainest scenario.
const ownIdentity = "own identity"

// existing is the ServiceAccount that a run uses as it is.
const existing = "existing"

func scenarios() []scenario {
	jobOnly := []string{"jobs"}
	all := []string{"jobs", "serviceaccounts", "roles", "rolebindings", "clusterroles", "clusterrolebindings"}
	out := []scenario{
		{name: ownIdentity, reads: true, stands: all, reviews: true},
		{name: "never read, an older agent", older: true, stands: all},
		{name: "interrupted, the agent writes late", late: true, stands: all},
		{
			name: "existing ServiceAccount", reads: true, stands: jobOnly, reviews: true, identity: true,
			change: func(c *agent.Config) { c.ServiceAccountName = existing },
		},
		{name: "stubborn caller", reads: true, stands: all, stubborn: true},
		{name: "absent namespace", absent: true, reads: true, stands: all},
		{
			name: "output of the caller's own", keeps: true, reads: true, stands: all,
			change: func(c *agent.Config) { c.Output = "cm://" + c.Namespace + "/mine" },
		},
	}
	for _, kind := range all {
		out = append(out, scenario{name: "answer lost to the create in " + kind, stands: all, loses: kind})
	}
	return out
}

// strikes reports whether faults at a request are part of the scenario: where
// it adds nothing to another scenario they are not.
func (s scenario) strikes(r request) bool {
	switch {
	case s.stubborn:
		return r.creates()
	case s.loses != "":
		unread := s.loses == "jobs" && r.resource == "configmaps" && r.nth > 1
		return unread || r.resource == s.loses && !r.creates()
	}
	return s.reviews || !r.reviews()
}
