package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/syncdial"
	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// nodeSpec is what a node is started with. It outlives the node, so that the next one
// is the same node again.
type nodeSpec struct {
	Name      string   `json:"name"`
	Dir       string   `json:"dir"`
	Endpoints []string `json:"endpoints"`
	// ID is the node's where the connection to the control plane is plain; without
	// one it is mutual TLS, and JoinToken gives an identity to a node that has none.
	ID        string `json:"id,omitempty"`
	JoinToken string `json:"join_token,omitempty"`
}

// node is one that runs.
type node struct {
	spec nodeSpec
	url  string // of the inference listener
	ops  string // of the operations listener

	stop func()          // orderly; returns when the node has ended
	kill func()          // with SIGKILL; nil for a node within the test
	end  <-chan struct{} // closed when the node has ended
}

// spec makes a node of the fleet, which starts with nothing.
func (f *fleet) spec(t *testing.T, name string) nodeSpec {
	t.Helper()
	s := nodeSpec{Name: name, Dir: t.TempDir(), ID: ident.New(ident.Node)}
	for _, p := range f.planes {
		s.Endpoints = append(s.Endpoints, p.syncURL())
	}
	return s
}

func (s nodeSpec) config() dataplane.Config {
	var c dataplane.Config
	c.Name, c.DataDir, c.Version = s.Name, s.Dir, "v0.0.0-e2e"
	c.MaxBody, c.MaxHeaderBytes = 16<<20, 64<<10
	c.Drain, c.ShipDrain = 10*time.Second, time.Second
	c.ControlPlane.Endpoints = s.Endpoints
	c.ControlPlane.NodeID, c.ControlPlane.Insecure = s.ID, s.ID != ""
	if s.JoinToken != "" {
		c.ControlPlane.JoinToken = secret.New(s.JoinToken)
	}
	return c
}

// run runs a node until ctx ends. started gets the addresses of its listeners.
func (s nodeSpec) run(ctx context.Context, log zerolog.Logger, started func(inference, ops string)) error {
	inference, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ops, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, inference.Close())
	}
	n, err := dataplane.New(s.config(), dataplane.Deps{
		Log: log, Meters: noop.NewMeterProvider(), Dial: syncdial.Dial, Inference: inference, Ops: ops,
	})
	if err != nil {
		return errors.Join(err, inference.Close(), ops.Close())
	}
	started("http://"+inference.Addr().String(), "http://"+ops.Addr().String())
	return n.Run(ctx)
}

// start runs a node within the test.
func (s nodeSpec) start(t *testing.T) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	addresses, failed := make(chan [2]string, 1), make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.run(ctx, logger(t, s.Name), func(inference, ops string) { addresses <- [2]string{inference, ops} })
		if err != nil && ctx.Err() == nil {
			failed <- err
		}
	}()
	n := &node{spec: s, end: ended, stop: func() { cancel(); <-ended }}
	t.Cleanup(n.stop)
	select {
	case a := <-addresses:
		n.url, n.ops = a[0], a[1]
	case err := <-failed:
		t.Fatalf("start node %s: %v", s.Name, err)
	}
	return n
}

// playNode is the node of a process of its own. It ends with its standard input.
func playNode() error {
	var s nodeSpec
	if err := json.Unmarshal([]byte(os.Getenv("AIDY_E2E_NODE")), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	return s.run(ctx, log, func(inference, ops string) { fmt.Println(inference, ops) })
}

// spawn runs a node as a process.
func (s nodeSpec) spawn(t *testing.T) *node {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVariable+"=node", "AIDY_E2E_NODE="+string(spec))
	var said lockedBuffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	inference, ops, ok := strings.Cut(strings.TrimSpace(line), " ")
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	n := &node{spec: s, url: inference, ops: ops, end: ended}
	n.kill = func() { _ = cmd.Process.Kill(); <-ended }
	n.stop = func() { in.Close(); <-ended }
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("node %s said:\n%s", s.Name, said.String())
		}
	})
	if !ok {
		t.Fatalf("node %s did not start: %v\n%s", s.Name, err, said.String())
	}
	return n
}

// lockedBuffer collects what a process writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// nodeStatus is what /status of a node tells, as far as the tests ask.
type nodeStatus struct {
	Ready         bool     `json:"ready"`
	Reasons       []string `json:"reasons"`
	Configuration struct {
		State     string     `json:"state"`
		NodeID    string     `json:"node_id"`
		FromDisk  bool       `json:"from_disk"`
		LastError string     `json:"last_error"`
		Identity  viewStatus `json:"identity"`
		Policy    viewStatus `json:"policy"`
	} `json:"configuration"`
	OpenAttempts int `json:"open_attempts"`
	UsageLog     struct {
		Last         uint64 `json:"last"`
		Acknowledged uint64 `json:"acknowledged"`
	} `json:"usage_log"`
}

type viewStatus struct {
	Generation uint64 `json:"generation"`
	Root       string `json:"root"`
	Durable    bool   `json:"durable"`
}

func (n *node) status(t *testing.T) (nodeStatus, error) {
	t.Helper()
	var s nodeStatus
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.ops+"/status", nil)
	if err != nil {
		return s, err
	}
	resp, err := plainClient(t).Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// waitStatus waits until ok is true of a node's status.
func (n *node) waitStatus(t *testing.T, what string, ok func(nodeStatus) bool) {
	t.Helper()
	var last nodeStatus
	eventually(t, n.spec.Name+": "+what, func() error {
		s, err := n.status(t)
		if err != nil {
			return err
		}
		if last = s; !ok(s) {
			return fmt.Errorf("status %+v", last)
		}
		return nil
	})
}

func (n *node) waitReady(t *testing.T) {
	t.Helper()
	n.waitStatus(t, "ready", func(s nodeStatus) bool { return s.Ready })
}

// waitCurrent waits until the node runs what a control plane names.
func (n *node) waitCurrent(t *testing.T) {
	t.Helper()
	n.waitStatus(t, "current", func(s nodeStatus) bool { return s.Configuration.State == "CURRENT" })
}

// waitShipped waits until all that the node metered is in the ledger.
func (n *node) waitShipped(t *testing.T) {
	t.Helper()
	n.waitStatus(t, "usage shipped", func(s nodeStatus) bool {
		return s.OpenAttempts == 0 && s.UsageLog.Acknowledged == s.UsageLog.Last
	})
}
