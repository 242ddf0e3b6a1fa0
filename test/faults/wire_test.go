package faults

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/NVIDIA/aicr/pkg/k8s/client"
	"github.com/NVIDIA/aicr/pkg/k8s/labels"
)

// wire stands between the Deployer's client and the API server. It writes
// down every request and what the server made of it, whether or not the
// client hears of that, and lets one fault happen at one request.
type wire struct {
	world  *world
	next   http.RoundTripper
	rename *strings.Replacer // real names to those of a request
	before func(request)     // called before a request goes on; may be nil
	// interrupt ends the context of the call that is going on, cleanup makes
	// another call beside it, and restart kills the API server and has it
	// started again.
	interrupt func(error)
	cleanup   func()
	restart   func()

	mu         sync.Mutex
	counts     map[request]int
	requests   []request
	made       map[types.UID]object // what the server created for this client
	invocation string               // as the created objects carry it
	target     request
	fault      *fault
	struck     *object       // what the struck request was about; nil before
	away       bool          // nothing reaches the server any more
	loses      string        // the kind whose create stays without an answer
	late       *http.Request // arrives once Cleanup has looked
}

func newWire(w *world) *wire {
	return &wire{
		world: w, counts: map[request]int{}, made: map[types.UID]object{},
		rename: strings.NewReplacer(w.runID, "RUN", w.namespace, "NAMESPACE"),
	}
}

// client gives the client of a run, as the CLI makes it, on this wire.
func (x *wire) client() kubernetes.Interface {
	x.world.t.Helper()
	config := rest.CopyConfig(x.world.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		x.next = next
		return x
	})
	c, _, err := client.New(config, "")
	x.world.must(err)
	return c
}

// RoundTrip implements http.RoundTripper.
func (x *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	req, about, body, err := parse(r)
	if err != nil {
		return nil, err
	}
	req.name = x.rename.Replace(req.name)
	x.mu.Lock()
	x.counts[req]++
	req.nth = x.counts[req]
	x.requests = append(x.requests, req)
	if m, ok := body.(metav1.Object); ok && m.GetLabels()[labels.InvocationID] != "" {
		x.invocation = m.GetLabels()[labels.InvocationID]
	}
	strikes := x.fault != nil && x.struck == nil && req == x.target
	if strikes {
		x.struck = &about
	}
	looks := req.verb == "get" && x.late != nil && about == *x.struck
	away, lose := x.away, req.creates() && req.resource == x.loses
	x.mu.Unlock()
	if x.before != nil {
		x.before(req)
	}
	switch {
	case strikes:
		return x.fault.strike(&blow{wire: x, request: r, about: about})
	case away:
		return nil, refused()
	case lose:
		x.carryOut(r)
		return nil, reset()
	}
	resp, err := x.forward(r)
	if looks {
		x.arrive()
	}
	return resp, err
}

// forward sends a request and learns what it made.
func (x *wire) forward(r *http.Request) (*http.Response, error) {
	resp, err := x.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost || resp.StatusCode != http.StatusCreated {
		return resp, err
	}
	data, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	obj, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if m, ok := obj.(metav1.Object); ok && m.GetUID() != "" {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.made[m.GetUID()] = object{locate(r.URL.Path).resource, m.GetNamespace(), m.GetName()}
	}
	return resp, nil
}

// carryOut lets the server act on a request whatever becomes of the client,
// and keeps the answer to itself.
func (x *wire) carryOut(r *http.Request) {
	resp, err := x.forward(r.Clone(context.WithoutCancel(r.Context())))
	if err == nil {
		resp.Body.Close()
	}
}

// postpone keeps a request on its way until the client has looked whether its
// object is there.
func (x *wire) postpone(r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.late = r
}

// arrive lets a late request arrive.
func (x *wire) arrive() {
	x.mu.Lock()
	r := x.late
	x.late = nil
	x.mu.Unlock()
	if r != nil {
		x.carryOut(r)
	}
}

// heal ends a fault that lasts.
func (x *wire) heal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.away = false
}

// record is what has gone over the wire so far.
type record struct {
	requests   []request
	made       map[types.UID]object
	invocation string
	struck     *object
}

func (x *wire) record() record {
	x.mu.Lock()
	defer x.mu.Unlock()
	made := make(map[types.UID]object, len(x.made))
	for uid, o := range x.made {
		made[uid] = o
	}
	return record{append([]request(nil), x.requests...), made, x.invocation, x.struck}
}
