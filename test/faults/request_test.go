package faults

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// request identifies a request of a run so that the same one is met again in
// another run, in whatever order requests that go out together arrive.
type request struct {
	verb     string // as RBAC calls it
	resource string
	name     string // with RUN and NAMESPACE for what differs between runs
	asks     string // what an access review asks
	nth      int    // from 1, of those that are alike
}

func (r request) String() string {
	s := strings.Join(strings.Fields(strings.Join([]string{r.verb, r.resource, r.name, r.asks}, " ")), " ")
	if r.nth > 1 {
		s += fmt.Sprintf(" (%d)", r.nth)
	}
	return s
}

// reviews reports whether the request is an access review, which stores
// nothing.
func (r request) reviews() bool { return strings.HasSuffix(r.resource, "reviews") }

// creates reports whether the request makes an object of the run.
func (r request) creates() bool {
	return r.verb == "create" && !r.reviews() && r.resource != "namespaces"
}

// object is what a request is about, by its real names.
type object struct{ resource, namespace, name string }

// parse reads a request and what it is about.
func parse(r *http.Request) (request, object, runtime.Object, error) {
	body, err := decodeBody(r)
	if err != nil {
		return request{}, object{}, nil, err
	}
	o := locate(r.URL.Path)
	if o.name == "" {
		o.name = nameFrom(r, body)
	}
	return request{verb: verbOf(r, o), resource: o.resource, name: o.name, asks: asked(body)}, o, body, nil
}

func decodeBody(r *http.Request) (runtime.Object, error) {
	if r.GetBody == nil || r.Method != http.MethodPost {
		return nil, nil //nolint:nilnil // no body, no object
	}
	reader, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return decode(reader)
}

// decode reads an object of a built-in type, in protobuf or JSON.
func decode(reader io.Reader) (runtime.Object, error) {
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	return obj, err
}

// locate reads the path of a request: /api/v1/... or /apis/group/version/...
func locate(path string) object {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	var o object
	if len(parts) > 2 && parts[0] == "namespaces" {
		o.namespace, parts = parts[1], parts[2:]
	}
	o.resource = parts[0]
	if len(parts) > 1 {
		o.name = parts[1]
	}
	return o
}

// nameFrom finds the name in the body of a create or in the field selector of
// a list.
func nameFrom(r *http.Request, body runtime.Object) string {
	if m, ok := body.(metav1.Object); ok {
		return m.GetName()
	}
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch(metav1.ObjectNameField)
	return name
}

func verbOf(r *http.Request, o object) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	switch {
	case r.URL.Query().Get("watch") != "":
		return "watch"
	case r.URL.Query().Get("fieldSelector") != "" || r.URL.Query().Get("labelSelector") != "" || o.name == "":
		return "list"
	}
	return "get"
}

// asked tells what an access review asks, and is empty for anything else.
func asked(body runtime.Object) string {
	var a *authorizationv1.ResourceAttributes
	switch review := body.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		a = review.Spec.ResourceAttributes
	case *authorizationv1.SubjectAccessReview:
		a = review.Spec.ResourceAttributes
	}
	if a == nil {
		return ""
	}
	return a.Verb + " " + a.Resource
}
