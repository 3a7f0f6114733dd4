// Aidy is the command line of operators of aidy-gateway, and `aidy dev` the whole
// product in one process.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/cli"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/dev"
)

func main() {
	os.Exit(run())
}

// run lets its deferred calls happen before the process ends. The first signal ends
// the work in good order, the second ends the process.
func run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130)
	}()
	return cli.Main(ctx, cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Dev: runDev}, os.Args[1:])
}

func runDev(ctx context.Context, o cli.DevOptions, stdout, stderr io.Writer) error {
	return dev.Run(ctx, dev.Options{
		Dir: o.Dir, InferenceAddr: o.InferenceAddr, AdminAddr: o.AdminAddr, SyncAddr: o.SyncAddr, OpsAddr: o.OpsAddr,
		DatabaseURL: o.DatabaseURL, Reset: o.Reset, LogLevel: o.LogLevel, Getenv: os.Getenv,
	}, stdout, stderr)
}
