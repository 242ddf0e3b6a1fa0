// Command kube is a whole Kubernetes in one file: etcd, the API server, the
// controllers, the scheduler, the kubelet, kube-proxy and kubectl. The
// first argument chooses, or the name that the file was called by, so that
// links named etcd, kube-apiserver and kubectl to it work as the programs do.
//
// One binary instead of seven shares the code that they have in common: a
// third of the size, and one link step. It is for development and tests only.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	name, args := choose(os.Args)
	run, ok := programs()[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: kube %s [arguments]\n", strings.Join(names(), "|"))
		os.Exit(2)
	}
	// Each program reads os.Args itself, kubectl for its plugins too.
	os.Args = append([]string{name}, args...)
	os.Exit(run())
}

// choose tells which program argv asks for, and that program's arguments.
func choose(argv []string) (string, []string) {
	if base := filepath.Base(argv[0]); slices.Contains(names(), base) {
		return base, argv[1:]
	}
	if len(argv) < 2 {
		return "", nil
	}
	return argv[1], argv[2:]
}

// programs maps each name to what runs it and gives its exit code.
func programs() map[string]func() int {
	return map[string]func() int{
		"etcd": func() int {
			etcdmain.Main(os.Args) // exits by itself on an error
			return 0
		},
		"kube-apiserver":          component(apiserver.NewAPIServerCommand),
		"kube-controller-manager": component(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          component(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kubelet":                 component(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kube-proxy":              component(proxy.NewProxyCommand),
		"kubectl":                 runKubectl,
	}
}

func names() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
		"kubelet", "kube-proxy", "kubectl",
	}
}

func component(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints it as kubectl does, and exits
	}
	return 0
}
