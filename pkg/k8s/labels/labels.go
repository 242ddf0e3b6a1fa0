// Package labels holds every label key and value that aicr puts on an object.
package labels

// Keys.
const (
	// Name, ManagedBy, Component and Version are Kubernetes' recommended
	// labels: https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
	Name      = "app.kubernetes.io/name"
	ManagedBy = "app.kubernetes.io/managed-by"
	Component = "app.kubernetes.io/component"
	Version   = "app.kubernetes.io/version"

	// RunID holds the run ID, which several invocations may share.
	RunID = "aicr.run/run-id"
	// InvocationID identifies the one Deployer that created an object. It
	// changes with every invocation: do not select on it.
	InvocationID = "aicr.run/invocation-id"

	// GPUPresent is set on GPU nodes by NVIDIA's GPU feature discovery.
	GPUPresent = "nvidia.com/gpu.present"
)

// Values.
const (
	// AICR is the value of Name and ManagedBy.
	AICR = "aicr"
	// SnapshotAgent is the Component of what a run creates.
	SnapshotAgent = "snapshot-agent"
	// AgentRBAC is the Component of manifests rendered for a ServiceAccount.
	AgentRBAC = "agent-rbac"
)

// ForRun returns the labels of an object that one invocation of a run creates.
func ForRun(runID, invocationID string) map[string]string {
	return map[string]string{
		Name:         AICR,
		ManagedBy:    AICR,
		Component:    SnapshotAgent,
		RunID:        runID,
		InvocationID: invocationID,
	}
}

// Has reports whether have contains every pair of want.
func Has(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}
