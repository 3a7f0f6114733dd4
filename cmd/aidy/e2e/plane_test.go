package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/decide"
	"github.com/aidy-gateway/aidy-gateway/controlplane"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
	"github.com/aidy-gateway/aidy-gateway/shared/telemetry"
)

// The keys of every test installation: an owner's token and a root key.
const (
	ownerToken = "end-to-end-owner-token-0123456789abcdef"
	rootKey    = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

// planeOptions are what differs between control planes. Zero fields take what they
// document.
type planeOptions struct {
	mutualTLS bool          // of the listener for nodes; else plain
	syncAddr  string        // of the listener for nodes; else any free port
	heartbeat time.Duration // else the product's
}

// plane is a control plane that runs.
type plane struct {
	name             string
	options          planeOptions
	admin, sync, ops net.Addr

	stop func() // orderly; returns when it has ended
}

// startPlane starts a control plane on the fleet's database and waits until it is
// ready.
func (f *fleet) startPlane(t *testing.T, name string, o planeOptions) *plane {
	t.Helper()
	cfg := controlplane.Config{
		AdminListener: listen(t, ""), SyncListener: listen(t, o.syncAddr), OpsListener: listen(t, ""),
		SyncInsecure: !o.mutualTLS, Heartbeat: o.heartbeat, Version: "v0.0.0-e2e", Drain: 5 * time.Second,
		RootKey: secret.New(rootKey), BootstrapToken: secret.New(ownerToken),
		BootstrapTokenFile: filepath.Join(t.TempDir(), "token"),
	}
	cfg.Database.URL = secret.New(f.database)
	p := &plane{name: name, options: o, admin: cfg.AdminListener.Addr(), sync: cfg.SyncListener.Addr(), ops: cfg.OpsListener.Addr()}
	log := logger(t, name)
	tel, err := telemetry.Start(t.Context(), telemetry.Config{Service: "aidy-controlplane"}, log)
	if err != nil {
		t.Fatal(err)
	}
	server, err := controlplane.New(cfg, tel, log, controlplane.WithDecider(decide.Decider{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(ended)
		if err := server.Run(ctx); err != nil && ctx.Err() == nil {
			failed <- err
		}
	}()
	p.stop = func() {
		cancel()
		<-ended
		_ = tel.Shutdown(context.Background())
	}
	t.Cleanup(p.stop)
	eventually(t, name+" is ready", func() error {
		select {
		case err := <-failed:
			t.Fatalf("start %s: %v", name, err)
		default:
		}
		if ready, reasons := server.Ready(); !ready {
			return fmt.Errorf("not ready: %v", reasons)
		}
		return nil
	})
	return p
}

// listen binds an address of the loopback interface; empty takes a free port.
func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (p *plane) syncURL() string {
	scheme := "http"
	if p.options.mutualTLS {
		scheme = "https"
	}
	return scheme + "://" + p.sync.String()
}

// client is the admin API as the owner calls it.
func (p *plane) client(t *testing.T) *admin {
	return newAdmin(t, "http://"+p.admin.String(), ownerToken)
}

// metric adds up the samples of a counter that /metrics of the control plane shows;
// 0 if it never counted.
func (p *plane) metric(t *testing.T, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.ops.String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := plainClient(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		sum += n
	}
	return sum
}
