package agent

import "strings"

// maxName is the longest name: a Job's name becomes a label of its pods.
const maxName = 63

// StagingConfigMapName returns the name of the ConfigMap through which a run's
// snapshot travels from the pod to the controller.
func StagingConfigMapName(runID string) string { return "aicr-agent-snapshot-" + runID }

// scopedName joins a prefix and the run ID. The prefix is cut where both do
// not fit, never the run ID, and no separator is left dangling.
func scopedName(prefix, runID string) string {
	room := max(0, maxName-1-len(runID)) // a run ID that is too long is refused elsewhere
	prefix = prefix[:min(len(prefix), room)]
	return strings.TrimRight(prefix, "-.") + "-" + runID
}

// names are the names of a run's objects.
type names struct {
	job         string
	identity    string // ServiceAccount, Role and RoleBinding
	clusterRole string // ClusterRole and ClusterRoleBinding
}

func (c Config) names() names {
	pick := func(s string) string {
		if s == "" {
			return c.NameBase
		}
		return s
	}
	return names{
		job:         scopedName(pick(c.JobName), c.RunID),
		identity:    scopedName(pick(c.ServiceAccountName), c.RunID),
		clusterRole: scopedName("aicr-node-reader", c.RunID),
	}
}
