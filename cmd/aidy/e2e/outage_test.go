package e2e

import (
	"context"
	"os"
	"testing"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/controlplane/localpg"
	"github.com/aidy-gateway/aidy-gateway/migrations"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// ownPostgres is a server that a test can stop and start again.
type ownPostgres struct {
	dir    string
	server *localpg.Server
}

func newPostgres(t *testing.T) *ownPostgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "aidy-e2e-") // its socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	p := &ownPostgres{dir: dir}
	t.Cleanup(func() {
		p.stop(t)
		_ = os.RemoveAll(p.server.Home())
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *ownPostgres) start(t *testing.T) (url string) {
	t.Helper()
	server, err := localpg.New(localpg.Config{Dir: p.dir}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	p.server = server
	if url, err = server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return url
}

func (p *ownPostgres) stop(t *testing.T) {
	t.Helper()
	if err := p.server.Stop(context.Background()); err != nil {
		t.Errorf("stop PostgreSQL: %v", err)
	}
}

// TestG08C36NodesServeWithoutControlPlaneAndDatabase: both control planes and
// PostgreSQL are gone. Every node goes on answering, and so does one that is restarted
// meanwhile, twice, in order and by a kill. When they return, the usage of that time
// arrives: the sums are the provider's, nothing lost and nothing twice.
func TestG08C36NodesServeWithoutControlPlaneAndDatabase(t *testing.T) {
	t.Parallel()
	database := newPostgres(t)
	url := database.start(t)
	if err := migrations.Up(t.Context(), url, nil); err != nil {
		t.Fatal(err)
	}
	f := newPlanes(t, url, 2, planeOptions{})
	stays, restarts := f.spec(t, "stays").start(t), f.spec(t, "restarts").spawn(t)
	f.nodes = []*node{stays, restarts}
	for _, n := range f.nodes {
		n.waitCurrent(t)
	}
	w := f.newWorld(t, "outage", oneUpstream(), tariffs("outage")...)
	for _, credential := range []string{"a", "b"} {
		f.provider.Script(fakeprovider.Match{Key: w.secretOf(credential)}, fakeprovider.Step{
			Usage: &fakeprovider.Usage{Input: 100, Cached: 30, Output: 20, Reasoning: 5},
		})
	}
	answered := 0
	everyone := func(when string) {
		t.Helper()
		for _, n := range f.nodes {
			for _, sdk := range vendorsdk.All() {
				for _, stream := range modes {
					if _, err := w.talk(t, n, sdk).ask(t.Context(), stream, vendorsdk.Question{}); err != nil {
						t.Errorf("%s: %s through %s, stream %v: %v", when, sdk.Protocol, n.spec.Name, stream, err)
						continue
					}
					answered++
				}
			}
			if _, err := w.talk(t, n, anySDK()).ask(t.Context(), false, vendorsdk.Question{Key: "sk-aidy-unknown"}); anySDK().Status(err) != 401 {
				t.Errorf("%s: an unknown key through %s: %v, want status 401", when, n.spec.Name, err)
			}
		}
	}
	everyone("before")
	w.rows(t, answered)

	for _, p := range f.planes {
		p.stop()
	}
	database.stop(t)
	everyone("without control plane and database")
	for name, end := range map[string]func(*node){
		"after a restart": func(n *node) { n.stop() },
		"after a kill":    func(n *node) { n.kill() },
	} {
		end(f.nodes[1])
		f.nodes[1] = restarts.spec.spawn(t)
		f.nodes[1].waitReady(t)
		s, err := f.nodes[1].status(t)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Configuration.FromDisk {
			t.Errorf("%s: the node's configuration is not from its disk: %+v", name, s.Configuration)
		}
		everyone(name)
	}
	for _, n := range f.nodes {
		s, err := n.status(t)
		if err != nil {
			t.Fatal(err)
		}
		if s.UsageLog.Acknowledged >= s.UsageLog.Last {
			t.Errorf("%s has shipped its usage to nobody: %+v", n.spec.Name, s.UsageLog)
		}
	}

	database.start(t)
	old := f.planes
	f.planes = nil
	for _, p := range old {
		f.planes = append(f.planes, f.startPlane(t, p.name+"-again", planeOptions{syncAddr: p.sync.String()}))
	}
	f.admin = f.planes[0].client(t)
	for _, n := range f.nodes {
		n.waitCurrent(t)
		n.waitShipped(t)
	}
	rows := w.rows(t, answered)
	if sent := f.provider.attempts(w.secretPrefix()); sent != answered || len(rows) != answered {
		t.Errorf("%d calls were answered, the provider saw %d attempts, the ledger has %d", answered, sent, len(rows))
	}
	var sum ledgerv1.Units
	for _, e := range rows {
		u := e.GetEvent().GetUnits()
		sum.Input, sum.CacheRead, sum.Output, sum.Reasoning = sum.Input+u.GetInput(), sum.CacheRead+u.GetCacheRead(), sum.Output+u.GetOutput(), sum.Reasoning+u.GetReasoning()
		checkMoney(t, e, costLarge, priceModel, 1, 1)
	}
	n := int64(answered)
	if sum.Input != 100*n || sum.CacheRead != 30*n || sum.Output != 20*n || sum.Reasoning != 5*n {
		t.Errorf("the ledger adds up to %d, %d, %d, %d tokens; the provider made %d, %d, %d, %d",
			sum.Input, sum.CacheRead, sum.Output, sum.Reasoning, 100*n, 30*n, 20*n, 5*n)
	}
	everyone("afterwards")
	w.rows(t, answered)
	f.atRest(t)
}
