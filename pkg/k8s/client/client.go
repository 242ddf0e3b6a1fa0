// Package client makes Kubernetes clients as aicr uses them: found the way
// kubectl finds a cluster, with a user agent that names aicr, without a
// client-side rate limit, and with protobuf for built-in types.
//
// Nothing here sends a request.
package client

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/errors"
)

const module = "github.com/NVIDIA/aicr"

// protobufAccept asks for protobuf and takes JSON from a server, or a proxy
// before it, that has no protobuf.
const protobufAccept = "application/vnd.kubernetes.protobuf,application/json"

// GetKubeClient returns a client for the cluster that KUBECONFIG names (several
// files are merged), else ~/.kube/config, else the one that this process runs
// in. Errors are as for [Load].
func GetKubeClient() (kubernetes.Interface, *rest.Config, error) {
	return BuildKubeClient("")
}

// BuildKubeClient returns a client for the current context of the kubeconfig
// file at path. An empty path is as GetKubeClient.
func BuildKubeClient(path string) (kubernetes.Interface, *rest.Config, error) {
	cfg, _, err := Load(path, nil)
	if err != nil {
		return nil, nil, err
	}
	return New(cfg, "")
}

// InCluster returns a client with the credentials of the pod that this process
// runs in, and never looks at a kubeconfig. Outside a pod it is
// InvalidRequest.
func InCluster(version string) (kubernetes.Interface, *rest.Config, error) {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return nil, nil, errors.Wrap(errors.InvalidRequest, err, "use this pod's credentials").
			WithAdvice("run in a pod whose ServiceAccount token is mounted")
	}
	return New(cfg, version)
}

// New returns a client made from cfg with aicr's settings, and the
// configuration with them: the user agent of [UserAgent] and no rate limit
// (QPS -1: the server's priority and fairness does that). cfg itself stays as
// it is.
//
// The client speaks protobuf; the returned configuration does not ask for it,
// so that it serves clients of custom resources too.
func New(cfg *rest.Config, version string) (kubernetes.Interface, *rest.Config, error) {
	out := rest.CopyConfig(cfg)
	out.UserAgent = UserAgent(version)
	out.QPS = -1

	typed := rest.CopyConfig(out)
	typed.ContentType = "application/vnd.kubernetes.protobuf"
	typed.AcceptContentTypes = protobufAccept
	cs, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return nil, nil, errors.Wrap(errors.InvalidRequest, err, "make a client for %s", cfg.Host).
			WithAdvice("check the server's address and the certificate files of this context")
	}
	return cs, out, nil
}

// UserAgent returns "aicr/<version> (<os>/<arch>)". An empty version is that
// of [ModuleVersion].
func UserAgent(version string) string {
	if version == "" {
		version = ModuleVersion()
	}
	return fmt.Sprintf("aicr/%s (%s/%s)", version, runtime.GOOS, runtime.GOARCH)
}

// ModuleVersion returns this module's version as the build recorded it, or
// "devel".
func ModuleVersion() string { return buildVersion(debug.ReadBuildInfo()) }

// buildVersion finds this module's version, whether it is the main module or a
// dependency of the program.
func buildVersion(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "devel"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == module && m.Version != "" {
			return strings.Trim(m.Version, "()")
		}
	}
	return "devel"
}
