// Kubernetes-server is etcd, Kubernetes' control plane, kubelet and kubectl in one static
// program: the cluster that the tests of tare's fleet run against. Its first argument
// names the component. One program links once and is one file in a cache.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components makes the command of each component, but for etcd, which has none.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	if len(os.Args) < 2 {
		usage("no component is named")
	}
	os.Args = os.Args[1:]
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, ok := components[os.Args[0]]
	if !ok {
		usage(fmt.Sprintf("there is no component %q", os.Args[0]))
	}
	os.Exit(cli.Run(command()))
}

func usage(why string) {
	fmt.Fprintf(os.Stderr, "kubernetes-server: %s; take etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or kubectl\n", why)
	os.Exit(2)
}
