// Command provider serves the scripted provider by itself, so that an installation
// can be tried and measured without an account at any vendor. It speaks all four
// protocols, asks for no credential, and answers every model.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8070", "address to listen on")
	control := flag.Bool("control", false, "serve the script interface below /_control, without authentication")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *addr, *control)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}
}

// serve answers until ctx ends, then lets running answers finish for a few seconds.
func serve(ctx context.Context, addr string, control bool) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; choose another address with -addr", addr, err)
	}
	fmt.Printf("the scripted provider answers at http://%s\n", l.Addr())
	s := &http.Server{
		// Little is recorded: nobody looks at it here.
		Handler:           fakeprovider.New(fakeprovider.Config{Control: control, Record: 1, RecordBytes: 1 << 20}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(drain); errors.Is(err, context.DeadlineExceeded) {
		return s.Close()
	} else if err != nil {
		return err
	}
	return nil
}
