package devcluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes a self-contained kubeconfig for one user of one
// cluster, readable by its owner only.
func writeKubeconfig(path, server string, ca []byte, user string, c credential) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["devcluster"] = &clientcmdapi.Cluster{
		Server:                   server,
		CertificateAuthorityData: ca,
	}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: c.cert,
		ClientKeyData:         c.key,
	}
	config.Contexts["devcluster"] = &clientcmdapi.Context{Cluster: "devcluster", AuthInfo: user}
	config.CurrentContext = "devcluster"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return nil
}

// restConfig gives a client configuration without a rate limit of its own.
func restConfig(server string, ca []byte, c credential) *rest.Config {
	return &rest.Config{
		Host: server,
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   append([]byte(nil), ca...),
			CertData: c.cert,
			KeyData:  c.key,
		},
	}
}
