package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"aicr": func() {
			os.Exit(Main(context.Background(), os.Args[1:], Streams{Out: os.Stdout, Err: os.Stderr}, os.LookupEnv))
		},
	})
}

// Scripts run the binary as a process. Beside testscript's own commands there
// are
//
//	exits STATUS COMMAND [ARGUMENT...]   the command ends with that status
//	requests COUNT                       that many requests came to the cluster
//
// KUBECONFIG names a cluster that counts what it is asked and refuses it all.
// $WORK/refused.yaml names one where nobody listens.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup:         setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"requests": requests,
		},
	})
}

type countKey struct{}

func setup(env *testscript.Env) error {
	count := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"you may not"}`)
	}))
	env.Defer(srv.Close)
	env.Values[countKey{}] = count

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	refused := "http://" + free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	counting := filepath.Join(env.WorkDir, "kubeconfig.yaml")
	env.Setenv("KUBECONFIG", counting)
	env.Setenv("WORK", env.WorkDir)
	for path, server := range map[string]string{counting: srv.URL, filepath.Join(env.WorkDir, "refused.yaml"): refused} {
		c := api.NewConfig()
		c.Clusters["test"] = &api.Cluster{Server: server}
		c.Contexts["test"] = &api.Context{Cluster: "test", Namespace: "team"}
		c.CurrentContext = "test"
		if err := clientcmd.WriteToFile(*c, path); err != nil {
			return err
		}
	}
	return nil
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

func requests(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: requests COUNT")
	}
	got := ts.Value(countKey{}).(*atomic.Int64).Load()
	if (strconv.FormatInt(got, 10) == args[0]) == neg {
		ts.Fatalf("%d requests", got)
	}
}
