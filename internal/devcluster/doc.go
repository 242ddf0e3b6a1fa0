// Package devcluster starts a real Kubernetes on this machine, for tests, the
// demo and benchmarks: etcd, the API server, the controllers and the
// scheduler as processes of their own, and on request a node with a real
// kubelet and container runtime.
//
// [Start] gives a [Cluster] that serves; [Cluster.Stop] ends every process
// and takes away all that was made. Several clusters run side by side: each
// has its own folder and port. A control plane needs no privileges. A node
// needs root, and lives in namespaces of its own (processes, mounts, network,
// host name), so that whatever it mounts, routes or filters ends with it, even
// when its owner is killed; see [Cluster.StartNode].
//
// The programs come from package assets; make kube builds them. Tests use
// package devtest, which shares one cluster among the tests of a package.
package devcluster
