package cli

import (
	stderrors "errors"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
)

// clusterFlags say which cluster and as whom, by the names that kubectl uses.
// They are client-go's own: those of k8s.io/cli-runtime are the same but bring
// text/template into the binary, which more than doubles it.
type clusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	flags      *pflag.FlagSet
}

func (c *clusterFlags) register(flags *pflag.FlagSet) {
	c.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	names := clientcmd.RecommendedConfigOverrideFlags("")
	// Basic authentication is gone from Kubernetes, and the others are rare
	// enough to be kubeconfig's.
	names.AuthOverrideFlags.Username.LongName = ""
	names.AuthOverrideFlags.Password.LongName = ""
	names.AuthOverrideFlags.ImpersonateUID.LongName = ""
	names.ClusterOverrideFlags.ProxyURL.LongName = ""
	names.ClusterOverrideFlags.DisableCompression.LongName = ""
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.ContextOverrideFlags.Namespace.LongName = ""
	clientcmd.BindOverrideFlags(&c.overrides, c.flags, names)
	c.flags.StringVar(&c.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use, in place of those that KUBECONFIG names")
	// The namespace is ours to explain, and a variable can set it.
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVarP(&c.overrides.Context.Namespace, "namespace", "n", "",
		"Namespace of the run; default that of the kubeconfig's context, or \"default\"")
	takeFromEnv(own)
	c.flags.AddFlagSet(own)

	annotate(c.flags, clusterAnnotation)
	flags.AddFlagSet(c.flags)
}

// chosen reports whether a cluster was asked for on the command line.
func (c *clusterFlags) chosen() bool {
	for _, name := range []string{"kubeconfig", clientcmd.FlagContext, clientcmd.FlagAPIServer, clientcmd.FlagClusterName} {
		if c.flags.Changed(name) {
			return true
		}
	}
	return false
}

// load finds the cluster and the namespace. It sends no request.
func (c *clusterFlags) load() (*rest.Config, string, error) {
	if _, err := clientcmd.ParseTimeout(c.overrides.Timeout); err != nil {
		return nil, "", errors.New(errors.InvalidRequest, "--request-timeout %q is no duration", c.overrides.Timeout).
			WithAdvice("write a time with its unit, such as 30s")
	}
	cfg, namespace, err := client.Load(c.kubeconfig, &c.overrides)
	if stderrors.Is(err, client.ErrNoCluster) {
		return nil, "", errors.Wrap(errors.InvalidRequest, client.ErrNoCluster, "there is no cluster to take a snapshot in").
			WithAdvice("name a cluster with --kubeconfig or KUBECONFIG, or capture this machine with --local")
	}
	return cfg, namespace, err
}
