// Package faults proves ownership fault by fault: a run is recorded against a
// real API server and then replayed once for every request and every fault at
// it.
package faults

import (
	stderrors "errors"
	"flag"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/NVIDIA/aicr/internal/devcluster"
	"github.com/NVIDIA/aicr/internal/devcluster/devtest"
	"github.com/NVIDIA/aicr/internal/inventory"
)

var (
	all  = flag.Bool("all", false, "run every case and print the matrix")
	seed = flag.Uint64("seed", 1, "choose the cases that run without -all")
	each = flag.Int("each", 5, "how many cases of each fault run without -all")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Cases wait for pauses between tries rather than for the processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	// client-go logs the connections that are lost here on purpose.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(devtest.Main(m, devtest.Options{NoControllers: true, AdmissionPlugins: []string{"OwnerReferencesPermissionEnforcement"}}))
}

// planned is a fault at a request of a scenario.
type planned struct {
	scenario scenario
	request  request
	fault    fault
}

func (p planned) String() string {
	return strings.NewReplacer(" ", "_", "/", "-").Replace(p.scenario.name + "/" + p.fault.name + "/" + p.request.String())
}

func TestFaults(t *testing.T) {
	config := devtest.OwnCluster(t).Config()
	grantAccounts(t, config)
	taker, err := inventory.NewTaker(config)
	if err != nil {
		t.Fatal(err)
	}
	before := outsideOfRuns(t, taker)
	m := &matrix{}
	plan := m.plan(t, config)
	t.Run("case", func(t *testing.T) {
		t.Run("restart", func(t *testing.T) {
			t.Parallel()
			m.restarts(t, plan)
		})
		for _, p := range plan {
			if p.fault.kills {
				continue
			}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				m.add(p, p.replay(t, config, nil))
			})
		}
	})
	after := outsideOfRuns(t, taker)
	for _, what := range append(after.Diff(before), after.Changed(before)...) {
		// The API server keeps some books of its own there, which grow.
		if !strings.HasPrefix(what, "- ") && !strings.Contains(what, rbacv1.GroupName) {
			continue
		}
		t.Errorf("(a) the cluster, outside of the runs' namespaces: %s", what)
	}
	m.report(t, os.Stdout)
}

// outsideOfRuns gives all objects of the cluster but those in namespaces, which
// each case judges, and the namespaces themselves.
func outsideOfRuns(t *testing.T, taker *inventory.Taker) inventory.Inventory {
	t.Helper()
	all, err := taker.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(k inventory.Key, _ inventory.Object) bool { return k.Namespace != "" || k.Resource == "namespaces" })
	return all
}

// restarts plays the cases that kill the API server, one after another on a
// cluster of their own.
func (m *matrix) restarts(t *testing.T, plan []planned) {
	t.Helper()
	cluster, err := devcluster.Start(t.Context(), devcluster.Options{NoControllers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, p := range plan {
		if !p.fault.kills {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			m.add(p, p.replay(t, cluster.Config(), func() {
				if err := stderrors.Join(cluster.KillAPIServer(), cluster.StartAPIServer(t.Context())); err != nil {
					t.Error(err)
				}
			}))
		})
	}
}

// plan records each scenario and lists its cases, or a seeded part of them.
func (m *matrix) plan(t *testing.T, config *rest.Config) []planned {
	t.Helper()
	byFault := map[string][]planned{}
	for _, s := range scenarios() {
		requests := s.recordClean(t, config)
		m.requests += len(requests)
		for _, f := range faults() {
			for _, r := range requests {
				if s.strikes(r) && (f.at == nil || f.at(s, r)) {
					byFault[f.name] = append(byFault[f.name], planned{s, r, f})
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // chosen to be the same each time
	var plan []planned
	for _, f := range faults() {
		cases := byFault[f.name]
		if !*all {
			random.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
			n := *each
			if f.kills {
				n = 1 // a restart takes seconds
			}
			cases = cases[:min(n, len(cases))]
		}
		plan = append(plan, cases...)
	}
	return plan
}

// recordClean plays the scenario without a fault and gives its requests,
// in an order that does not depend on which of those sent together came first.
func (s scenario) recordClean(t *testing.T, config *rest.Config) []request {
	t.Helper()
	c := newRun(t, config, s)
	c.play()
	c.judge()
	c.close()
	if c.violations.Load() > 0 || c.leftAndNamed > 0 {
		t.Fatalf("%s fails without a fault", s.name)
	}
	requests := c.record().requests
	slices.SortFunc(requests, func(a, b request) int { return strings.Compare(a.String(), b.String()) })
	return requests
}

// replay plays the case and judges it.
func (p planned) replay(t *testing.T, config *rest.Config, restart func()) *run {
	t.Helper()
	c := newRun(t, config, p.scenario)
	c.target, c.fault, c.restart = p.request, &p.fault, restart
	c.play()
	c.judge()
	if c.record().struck == nil {
		t.Errorf("the request never came:\n%s", lines(c.record().requests))
	}
	return c
}
