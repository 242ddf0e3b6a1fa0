package devcluster

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// nodeFiles are the settings of a node's programs, and its first process.
//
//go:embed nodefiles
var nodeFiles embed.FS

// nodeValues is what the settings are filled with.
type nodeValues struct {
	Name       string
	ClusterDir string
	Dir        string // the node's own folder
	NodeIP     string
	PodRange   string
	CgroupRoot string
	CNIBinDir  string
	PauseImage string
}

// writeNodeFiles writes every file below nodefiles into the node's folder.
func writeNodeFiles(v nodeValues) error {
	targets := map[string]string{
		"init.sh":         "init.sh",
		"containerd.toml": "containerd.toml",
		"cni.conflist":    "cni/10-aicr.conflist",
		"kubelet.yaml":    "kubelet.yaml",
		"kube-proxy.yaml": "kube-proxy.yaml",
	}
	for source, target := range targets {
		parsed, err := template.ParseFS(nodeFiles, "nodefiles/"+source)
		if err != nil {
			return fmt.Errorf("read the node's %s: %w", source, err)
		}
		if err := writeTemplate(parsed, filepath.Join(v.Dir, target), v); err != nil {
			return fmt.Errorf("write the node's %s: %w", target, err)
		}
	}
	// Pods get this as theirs. There is no name server to tell them of.
	if err := os.WriteFile(filepath.Join(v.Dir, "resolv.conf"), nil, 0o644); err != nil {
		return fmt.Errorf("write the node's resolv.conf: %w", err)
	}
	return nil
}

func writeTemplate(t *template.Template, path string, v nodeValues) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := t.Execute(file, v); err != nil {
		_ = file.Close() // the other error tells more
		return err
	}
	return file.Close()
}
