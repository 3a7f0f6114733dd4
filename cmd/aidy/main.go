// Aidy is the command line of operators of aidy-gateway, and `aidy dev` the whole
// product in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/cli"
)

func main() {
	os.Exit(run())
}

// run lets its deferred calls happen before the process ends.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, os.Args[1:])
}
