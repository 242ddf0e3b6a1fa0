package client

import (
	"cmp"
	stderrors "errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// ErrNoCluster is in the chain of the error for a machine on which no cluster
// is configured at all. Its code is InvalidRequest rather than NotFound: no
// cluster was asked, the call lacks an input.
var ErrNoCluster = stderrors.New("no kubeconfig, and this is no pod in a cluster")

// Load finds a cluster: the kubeconfig file at path; where path is empty the
// files in KUBECONFIG, merged; where that is unset ~/.kube/config; else the
// cluster whose pod this is. It returns the configuration for its current
// context, with overrides (which may be nil) applied, and the namespace that
// the context names, or "default". Nothing is sent.
//
// A file that cannot be read or parsed, a context that does not exist, and a
// KUBECONFIG of which no file exists are InvalidRequest and name the file; no
// configuration at all is InvalidRequest with [ErrNoCluster]. There is no
// guess at a server on localhost.
func Load(path string, overrides *clientcmd.ConfigOverrides) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	// Files that are missing are this function's to report.
	rules.WarnIfAllMissing = false
	if overrides == nil {
		overrides = &clientcmd.ConfigOverrides{}
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)

	if err := someFileExists(rules); err != nil {
		return nil, "", err
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", errors.Wrap(errors.InvalidRequest, err, "read kubeconfig").
			WithAdvice("check that the file is readable and a kubeconfig: kubectl config view --kubeconfig FILE")
	}
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", explain(err, raw, rules, overrides.CurrentContext)
	}
	// The in-cluster configuration takes no identity from overrides. To go on
	// as the pod would mean more rights than the caller asked for.
	if u := overrides.AuthInfo.Impersonate; u != "" && cfg.Impersonate.UserName == "" {
		cfg.Impersonate = rest.ImpersonationConfig{
			UserName: u, UID: overrides.AuthInfo.ImpersonateUID, Groups: overrides.AuthInfo.ImpersonateGroups,
		}
	}
	ns, _, err := loader.Namespace()
	if err != nil {
		return nil, "", explain(err, raw, rules, overrides.CurrentContext)
	}
	return cfg, ns, nil
}

// someFileExists refuses a KUBECONFIG whose files are all missing. To go on to
// another cluster than the one that was named is worse than to stop.
func someFileExists(rules *clientcmd.ClientConfigLoadingRules) error {
	if rules.ExplicitPath != "" || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return nil
	}
	for _, f := range rules.Precedence {
		if _, err := os.Stat(f); f != "" && !stderrors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return errors.New(errors.InvalidRequest, "KUBECONFIG names no file that exists: %s", strings.Join(rules.Precedence, ", ")).
		WithAdvice("correct KUBECONFIG, or unset it to use ~/.kube/config")
}

// explain turns clientcmd's errors into ours; chosen is the context that the
// caller asked for, if any.
func explain(err error, raw api.Config, rules *clientcmd.ClientConfigLoadingRules, chosen string) error {
	files := strings.Join(rules.GetLoadingPrecedence(), ", ")
	if rules.ExplicitPath != "" {
		files = rules.ExplicitPath
	}
	contexts := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
	if !clientcmd.IsEmptyConfig(err) {
		e := errors.Wrap(errors.InvalidRequest, err, "kubeconfig %s", files)
		if _, ok := raw.Contexts[cmp.Or(chosen, raw.CurrentContext)]; !ok && contexts != "" {
			return e.WithAdvice("choose one of the contexts there are: %s", contexts)
		}
		return e.WithAdvice("check the context, its cluster and its user: kubectl config view")
	}
	switch {
	case contexts != "":
		return errors.New(errors.InvalidRequest, "kubeconfig %s: no context is current", files).
			WithAdvice("choose one of the contexts there are: %s", contexts)
	case rules.ExplicitPath != "":
		return errors.New(errors.InvalidRequest, "kubeconfig %s: it names no cluster", files).
			WithAdvice("give a kubeconfig with a context, a cluster and a user")
	}
	return errors.Wrap(errors.InvalidRequest, ErrNoCluster, "find a cluster").
		WithAdvice("point KUBECONFIG at a kubeconfig file, or run in a pod with a ServiceAccount token")
}
