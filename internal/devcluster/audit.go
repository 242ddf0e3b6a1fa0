package devcluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// auditPolicy records each request once, when it was answered: who, what and
// with what result, without bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// AuditEvent is one request as the API server recorded it once answered.
type AuditEvent struct {
	Time      time.Time // when the request arrived
	User      string
	Groups    []string
	UserAgent string
	// Impersonated is the user that User acted as, or empty.
	Impersonated string
	Verb         string // get, list, watch, create, update, patch, delete, deletecollection
	URI          string // path and query
	APIGroup     string // empty for the core group
	Resource     string // plural, empty for requests that are not about objects
	Subresource  string
	Namespace    string
	Name         string
	Code         int // HTTP status of the answer
}

// auditRecord holds the fields of audit.k8s.io/v1 Event that AuditEvent takes.
type auditRecord struct {
	Timestamp  time.Time   `json:"requestReceivedTimestamp"`
	User       auditUser   `json:"user"`
	ActingAs   auditUser   `json:"impersonatedUser"`
	UserAgent  string      `json:"userAgent"`
	Verb       string      `json:"verb"`
	RequestURI string      `json:"requestURI"`
	Object     auditObject `json:"objectRef"`
	Status     struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

type auditUser struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

type auditObject struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

func (r auditRecord) event() AuditEvent {
	return AuditEvent{
		Time:         r.Timestamp,
		User:         r.User.Username,
		Groups:       r.User.Groups,
		UserAgent:    r.UserAgent,
		Impersonated: r.ActingAs.Username,
		Verb:         r.Verb,
		URI:          r.RequestURI,
		APIGroup:     r.Object.APIGroup,
		Resource:     r.Object.Resource,
		Subresource:  r.Object.Subresource,
		Namespace:    r.Object.Namespace,
		Name:         r.Object.Name,
		Code:         r.Status.Code,
	}
}

// AuditEvents gives the requests that the API server has recorded so far, in
// the order in which they were answered, over all its restarts. A request
// that was just answered may show a moment later. It needs Options.Audit.
func (c *Cluster) AuditEvents() ([]AuditEvent, error) {
	if c.attached {
		return nil, fmt.Errorf("read the audit log: %w: the cluster is not ours", ErrUnsupported)
	}
	if !c.options.Audit {
		return nil, errors.New("read the audit log: the cluster was started without Options.Audit")
	}
	text, err := os.ReadFile(c.path("audit.log"))
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	// What follows the last line break is still being written.
	lines := bytes.Split(text[:bytes.LastIndexByte(text, '\n')+1], []byte("\n"))
	events := make([]AuditEvent, 0, len(lines))
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		var record auditRecord
		if err := json.Unmarshal(line, &record); err != nil {
			continue // the line during which the API server was killed
		}
		events = append(events, record.event())
	}
	return events, nil
}
