// Package agent deploys a Kubernetes Job that captures a snapshot of a node,
// waits for it, reads the result and removes exactly what it created.
//
// # Run scoping
//
// A deployment belongs to one run, identified by [Config.RunID], which ends
// the name of every object: Job, ServiceAccount, Role, RoleBinding,
// ClusterRole, ClusterRoleBinding and the staging ConfigMap. Concurrent runs
// therefore never share an object, creates are plain creates, and an object
// that already stands at one of these names is left as it is: the run ID was
// used before, and the run stops with a conflict.
//
// A ServiceAccount of exactly [Config.ServiceAccountName] that already exists
// is used as it is; the run then creates no identity and no permission.
// Otherwise the value is the prefix of the run's own ServiceAccount.
//
// Two things are not run-scoped: the namespace, which is ensured and never
// deleted, and a ConfigMap that the caller named in [Config.Output] without
// [Config.OwnsOutputConfigMap], which is the caller's and never deleted.
//
// # Ownership
//
// Every object carries the run ID and, in aicr.run/invocation-id, the ID of
// the one [Deployer] that created it. The Deployer records an object before it
// asks for its creation and adds the UID from the answer. [Deployer.Cleanup]
// deletes what is recorded, each pinned to its UID. Where the answer was lost
// it reads the object first and deletes it only if it carries this Deployer's
// labels, invocation ID included, pinned to the UID just read.
//
// The staging ConfigMap is written by the agent in the pod. It is deleted by
// the UID that [Deployer.GetSnapshot] saw or, where it was never read, only
// while the Job that this Deployer created is the live Job of that name. What
// an agent writes after that carries an owner reference to the Job and goes
// with it.
//
// # Waiting
//
// Waits are watches that survive a closed watch, an expired resource version
// and a restarted API server. A pod is chosen by its controlling owner
// reference, never by labels alone.
package agent
