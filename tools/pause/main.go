// Command pause holds a pod's namespaces open on a development node: it does
// nothing until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Where the pod's containers share the process namespace, this process
	// inherits their orphans; an ignored SIGCHLD lets the kernel reap them.
	signal.Ignore(syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
