package agent

import (
	"bufio"
	"context"
	stderrors "errors"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/NVIDIA/aicr/pkg/errors"
)

// logTailBytes bounds the last lines that an error shows.
const logTailBytes = 16 << 10

// StreamLogs copies the agent's log to w as it is written, each line after
// "[prefix] " where a prefix is given, until the agent ends or ctx is done. It
// waits for the agent to start. Errors are those of w, or as those of
// WaitForPodReady.
func (d *Deployer) StreamLogs(ctx context.Context, w io.Writer, prefix string) (err error) {
	defer func() { err = whenOver(ctx, err) }()
	err = d.waitForPod(ctx, 0, "start", func(pod *corev1.Pod) (bool, error) {
		return started(pod) || finished(pod), nil
	})
	if err != nil {
		return err
	}
	logs, err := d.openLogs(ctx, &corev1.PodLogOptions{Container: containerName, Follow: true})
	if err != nil {
		return err
	}
	defer logs.Close()
	if prefix != "" {
		prefix = "[" + prefix + "] "
	}
	lines := bufio.NewReader(logs)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if _, err := io.WriteString(w, prefix+strings.TrimSuffix(line, "\n")+"\n"); err != nil {
				return err
			}
		}
		switch {
		case stderrors.Is(err, io.EOF):
			return nil
		case err != nil:
			return apiError(err, "follow the log of Job %s/%s", d.config.Namespace, d.names.job)
		}
	}
}

// GetPodLogs returns what the agent has logged so far, also of a failed pod.
// It is NotFound where the Job has no pod.
func (d *Deployer) GetPodLogs(ctx context.Context) (_ string, err error) {
	defer func() { err = whenOver(ctx, err) }()
	logs, err := d.openLogs(ctx, &corev1.PodLogOptions{Container: containerName})
	if err != nil {
		return "", err
	}
	defer logs.Close()
	b, err := io.ReadAll(logs)
	return string(b), apiError(err, "read the log of Job %s/%s", d.config.Namespace, d.names.job)
}

func (d *Deployer) openLogs(ctx context.Context, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	uid, err := d.jobUID()
	if err != nil {
		return nil, err
	}
	pod, err := d.pod(ctx, uid)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, errors.New(errors.NotFound, "Job %s/%s has no pod", d.config.Namespace, d.names.job)
	}
	logs, err := d.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).Stream(ctx)
	return logs, apiError(err, "read the log of pod %s/%s", pod.Namespace, pod.Name)
}

// lastLines returns the end of a pod's log, or what the kubelet kept of it.
func (d *Deployer) lastLines(ctx context.Context, pod *corev1.Pod) string {
	logs, err := d.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: containerName, TailLines: ptr.To[int64](logTail), LimitBytes: ptr.To[int64](logTailBytes),
	}).Stream(ctx)
	if err == nil {
		defer logs.Close()
		if b, err := io.ReadAll(logs); err == nil && len(b) > 0 {
			return strings.TrimRight(string(b), "\n")
		}
	}
	if s := agentStatus(pod); s != nil && s.State.Terminated != nil {
		return strings.TrimSpace(s.State.Terminated.Message)
	}
	return ""
}
