package client_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/client"
)

func ExampleBuildKubeClient() {
	path := filepath.Join(os.TempDir(), "there-is-no-such-kubeconfig")
	_, _, err := client.BuildKubeClient(path)
	fmt.Println(errors.CodeOf(err), errors.AdviceOf(err))
	// Output:
	// INVALID_REQUEST check that the file is readable and a kubeconfig: kubectl config view --kubeconfig FILE
}
