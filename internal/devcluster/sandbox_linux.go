package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// makeSandbox makes the namespaces that the node lives in, its cgroup, and its
// network: a cable to the machine, and the way to the API server.
func (n *Node) makeSandbox(ctx context.Context, s *slot) error {
	n.undo.add(func() error { return removeCgroup(context.WithoutCancel(ctx), s.cgroup()) })
	if err := makeCgroup(ctx, s.cgroup()); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", filepath.Join(n.dir, "init.sh"), n.dir, n.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	var err error
	if n.init, err = startProcess("node-init", filepath.Join(n.dir, "init.log"), cmd); err != nil {
		return err
	}
	n.undo.add(n.init.stop)
	err = waitFor(ctx, "the node's namespaces", n.init, func(context.Context) error {
		_, err := os.Stat(filepath.Join(n.dir, "ready"))
		return err
	})
	if err != nil {
		return err
	}
	if err := n.connect(ctx, s); err != nil {
		return err
	}
	f, err := startForwarder(ctx, n.init.cmd.Process.Pid, n.apiAddress(), fmt.Sprintf("127.0.0.1:%d", n.cluster.port.number))
	if err != nil {
		return err
	}
	n.undo.add(f.stop)
	return nil
}

// connect lays a cable between the machine and the node.
func (n *Node) connect(ctx context.Context, s *slot) error {
	device := s.device()
	// The kernel takes the cable of a killed node away a moment later; until
	// then its name is in use.
	if err := removeDevice(ctx, device); err != nil {
		return err
	}
	n.undo.add(func() error { return removeDevice(context.WithoutCancel(ctx), device) })
	machine := [][]string{
		{"link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(n.init.cmd.Process.Pid)},
		{"addr", "add", s.machineIP() + "/30", "dev", device},
		{"link", "set", device, "up"},
	}
	for _, args := range machine {
		if err := quiet(exec.CommandContext(ctx, "ip", args...)); err != nil {
			return fmt.Errorf("connect the node: %w", err)
		}
	}
	node := [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", advertised + "/32", "dev", "lo"},
		{"addr", "add", n.ip + "/30", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "via", s.machineIP()},
	}
	for _, args := range node {
		if err := quiet(n.inside(ctx, "ip", args...)); err != nil {
			return fmt.Errorf("connect the node: %w", err)
		}
	}
	// Pods' packets pass from the bridge to the cable. This is the node's own
	// setting, not the machine's.
	return quiet(n.inside(ctx, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"))
}

// removeDevice removes a network device if there is one of that name.
func removeDevice(ctx context.Context, device string) error {
	if _, err := os.Lstat("/sys/class/net/" + device); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err := quiet(exec.CommandContext(ctx, "ip", "link", "delete", device))
	if _, statErr := os.Lstat("/sys/class/net/" + device); errors.Is(statErr, os.ErrNotExist) {
		return nil // it went by itself in between
	}
	return err
}

// inside gives a command that runs in the node's namespaces.
func (n *Node) inside(ctx context.Context, program string, args ...string) *exec.Cmd {
	enter := []string{
		"--target", strconv.Itoa(n.init.cmd.Process.Pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--", program,
	}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// startProgram starts one of the node's programs, to be ended by Stop; ctx is
// for starting it only.
func (n *Node) startProgram(ctx context.Context, name, program string, args ...string) (*process, error) {
	cmd := n.inside(context.WithoutCancel(ctx), program, args...)
	p, err := startProcess(name, filepath.Join(n.dir, name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	n.undo.add(p.stop)
	return p, nil
}

// ctr runs the container runtime's own client.
func (n *Node) ctr(ctx context.Context, args ...string) error {
	_, err := n.ctrOutput(ctx, args...)
	return err
}

func (n *Node) ctrOutput(ctx context.Context, args ...string) (string, error) {
	common := []string{"--address", filepath.Join(n.dir, "containerd.sock"), "--namespace", "k8s.io"}
	return output(n.inside(ctx, "ctr", append(common, args...)...))
}

// LoadImage puts the images of a docker or OCI archive onto the node, where
// pods find them without a registry. It returns once the kubelet can see them.
func (n *Node) LoadImage(ctx context.Context, tarPath string) error {
	path, err := filepath.Abs(tarPath)
	if err != nil {
		return fmt.Errorf("load an image: %w", err)
	}
	if err := n.ctr(ctx, "images", "import", path); err != nil {
		return fmt.Errorf("load the image %s: %w", tarPath, err)
	}
	return waitFor(ctx, "the loaded image to be known", nil, func(ctx context.Context) error {
		// The runtime's part for Kubernetes labels what it has taken note of.
		unknown, err := n.ctrOutput(ctx, "images", "list", "--quiet", `labels."io.cri-containerd.image"!=managed`)
		if err == nil && strings.TrimSpace(unknown) != "" {
			err = fmt.Errorf("not yet known: %s", strings.Fields(unknown))
		}
		return err
	})
}

// quiet runs a command whose output matters only when it fails.
func quiet(cmd *exec.Cmd) error {
	_, err := output(cmd)
	return err
}

// output gives what a command wrote, and in its error what it said.
func output(cmd *exec.Cmd) (string, error) {
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
