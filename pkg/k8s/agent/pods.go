package agent

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/aicr/pkg/errors"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// podSelector narrows the pods to this run's. It authorizes none of them:
// whoever may update pods can set labels.
func (d *Deployer) podSelector() string {
	return k8slabels.SelectorFromSet(k8slabels.Set{
		labels.Component: labels.SnapshotAgent,
		labels.RunID:     d.config.RunID,
	}).String()
}

// jobUID returns the UID of the Job that this Deployer created, as the answer
// to its create told. It is NotFound where there is none.
func (d *Deployer) jobUID() (types.UID, error) {
	if r := d.ledger.find(kindJob); r != nil {
		if uid, confirmed := d.ledger.identity(r); confirmed {
			return uid, nil
		}
	}
	return "", errors.New(errors.NotFound, "Job %s/%s was not created by this Deployer", d.config.Namespace, d.names.job).
		WithAdvice("call Deploy first, and wait before Cleanup")
}

// controlledBy reports whether the pod's controller is the Job of that UID.
func controlledBy(pod *corev1.Pod, job types.UID) bool {
	o := metav1.GetControllerOf(pod)
	return o != nil && o.Kind == kindJob && o.APIVersion == batchv1.SchemeGroupVersion.String() && o.UID == job
}

// pod returns the Job's pod, the newest where there are several, or nil where
// there is none yet.
func (d *Deployer) pod(ctx context.Context, job types.UID) (*corev1.Pod, error) {
	list, err := d.client.CoreV1().Pods(d.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: d.podSelector()})
	if err != nil {
		return nil, apiError(err, "list the pods of Job %s/%s", d.config.Namespace, d.names.job)
	}
	var found *corev1.Pod
	for i := range list.Items {
		p := &list.Items[i]
		if controlledBy(p, job) && (found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp)) {
			found = p
		}
	}
	return found, nil
}

// agentStatus returns the status of the agent's container, or nil.
func agentStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == containerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// started reports whether the agent's container runs or has run.
func started(pod *corev1.Pod) bool {
	s := agentStatus(pod)
	return s != nil && (s.State.Running != nil || s.State.Terminated != nil)
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// waitingFor tells in one line what keeps the pod from being done.
func waitingFor(pod *corev1.Pod) string {
	name := fmt.Sprintf("pod %s/%s", pod.Namespace, pod.Name)
	if s := agentStatus(pod); s != nil {
		switch {
		case s.State.Terminated != nil:
			return fmt.Sprintf("%s: the agent ended with exit code %d (%s)", name, s.State.Terminated.ExitCode, s.State.Terminated.Reason)
		case s.State.Running != nil:
			return fmt.Sprintf("%s on node %q: the agent is still running", name, pod.Spec.NodeName)
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			return fmt.Sprintf("%s on node %q: %s", name, pod.Spec.NodeName, reasoned(s.State.Waiting.Reason, s.State.Waiting.Message))
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("%s is not scheduled: %s", name, reasoned(c.Reason, c.Message))
		}
	}
	if pod.Spec.NodeName == "" {
		return name + " waits for a scheduler"
	}
	return fmt.Sprintf("%s is %s: no kubelet of node %q has started it yet", name, pod.Status.Phase, pod.Spec.NodeName)
}

// reasoned joins a reason and its message, either of which may be empty.
func reasoned(reason, message string) string {
	return strings.Trim(strings.TrimSpace(reason+": "+message), ": ")
}
