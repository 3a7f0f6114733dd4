package dataplane

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

const (
	// repeatEvery is how often a node tells again what lasts longer than its word.
	repeatEvery = 4 * time.Minute
	// commandLife is how long a command can come again.
	commandLife = 20 * time.Minute
	// Bounds of the contract for what a signal carries.
	maxSignalSubject, maxSignalWord, maxSignalRequest = 1200, 63, 127
)

// fleet keeps the running state of a node in step with the other nodes, with operators
// and with the configuration.
type fleet struct {
	node     *Node
	commands map[string]time.Time // ids that were obeyed; of the subscriber's goroutine alone

	wake chan struct{}
	mu   sync.Mutex
	gone map[string]bool // credentials whose state is to be dropped; guarded by mu
}

func newFleet(n *Node) *fleet {
	return &fleet{node: n, commands: make(map[string]time.Time), wake: make(chan struct{}, 1), gone: make(map[string]bool)}
}

// tell tells the other nodes. What does not fit into a signal stays here.
func (n *Node) tell(s schedule.Signal) {
	if g := signalOf(s, time.Now()); g != nil {
		n.subscriber.Tell(g)
	}
}

func signalOf(s schedule.Signal, now time.Time) *syncv1.Signal {
	g := &syncv1.Signal{Kind: syncv1.SignalKind_SIGNAL_KIND_BREAKER, Subject: s.Breaker, Until: timestamppb.New(s.Until), StartTime: timestamppb.New(s.Started)}
	if l := s.Limit; l != nil {
		g.Kind, g.Scope, g.Subject = syncv1.SignalKind_SIGNAL_KIND_LIMIT, schedule.QuotaModel.String(), l.Subject
		g.Dimension, g.Limit, g.Remaining, g.ResetMs = l.Dim.String(), l.Limit, l.Remaining, l.Reset.Milliseconds()
	}
	if r := s.Rest; r != nil {
		g = &syncv1.Signal{
			Kind: syncv1.SignalKind_SIGNAL_KIND_COOLDOWN, Scope: r.Scope.String(), Subject: r.Subject, Cause: r.Kind,
			Until: timestamppb.New(r.Until), StartTime: timestamppb.New(r.Started), Source: r.Source, Status: int32(r.Status),
			Announced: r.Announced, SecretVersion: r.Secret, RequestId: r.RequestID,
		}
		if s.Invalid {
			g.Kind, g.Until = syncv1.SignalKind_SIGNAL_KIND_AUTH_INVALID, timestamppb.New(now.Add(10*time.Minute))
		}
	}
	if len(g.GetSubject()) > maxSignalSubject || !utf8.ValidString(g.GetSubject()) || len(g.GetCause()) > maxSignalWord ||
		len(g.GetSource()) > maxSignalWord {
		return nil
	}
	if len(g.GetRequestId()) > maxSignalRequest || !utf8.ValidString(g.GetRequestId()) {
		g.RequestId = ""
	}
	return g
}

// heardOf is what a signal of another node means to the scheduler; false if it means
// nothing to this release.
func heardOf(g *syncv1.Signal) (schedule.Signal, bool) {
	until, started := g.GetUntil().AsTime(), g.GetStartTime().AsTime()
	if g.GetKind() == syncv1.SignalKind_SIGNAL_KIND_BREAKER {
		return schedule.Signal{Breaker: g.GetSubject(), Node: g.GetNodeId(), Started: started, Until: until}, true
	}
	if g.GetKind() == syncv1.SignalKind_SIGNAL_KIND_LIMIT {
		d, ok := schedule.DimNamed(g.GetDimension())
		l := &schedule.LimitSeen{Subject: g.GetSubject(), Observation: schedule.Observation{
			Dim: d, Limit: g.GetLimit(), Remaining: g.GetRemaining(), Reset: time.Duration(g.GetResetMs()) * time.Millisecond,
		}}
		return schedule.Signal{Limit: l, Node: g.GetNodeId(), Started: started, Until: until}, ok
	}
	scope, ok := schedule.ScopeNamed(g.GetScope())
	r := &schedule.Rest{
		Scope: scope, Subject: g.GetSubject(), Kind: g.GetCause(), Until: until, Started: started, Announced: g.GetAnnounced(),
		Source: g.GetSource(), Status: int(g.GetStatus()), RequestID: g.GetRequestId(), Node: g.GetNodeId(), Secret: g.GetSecretVersion(),
	}
	switch g.GetKind() {
	case syncv1.SignalKind_SIGNAL_KIND_COOLDOWN:
		return schedule.Signal{Rest: r}, ok
	case syncv1.SignalKind_SIGNAL_KIND_AUTH_INVALID:
		return schedule.Signal{Rest: r, Invalid: true}, ok
	}
	return schedule.Signal{}, false
}

// heard takes what other nodes and operators told. It may come more than once.
func (f *fleet) heard(signals []*syncv1.Signal) {
	now := time.Now()
	for _, g := range signals {
		switch g.GetKind() {
		case syncv1.SignalKind_SIGNAL_KIND_CLEAR, syncv1.SignalKind_SIGNAL_KIND_FLUSH_AFFINITY:
			if _, done := f.commands[g.GetId()]; !done {
				f.commands[g.GetId()] = now
				f.obey(g, now)
			}
		default:
			s, ok := heardOf(g)
			if !ok || g.GetNodeId() == "" || g.GetNodeId() == f.node.subscriber.NodeID() || f.renewed(g) {
				continue
			}
			f.node.scheduler.Hear(s, now)
		}
	}
	for id, at := range f.commands {
		if now.Sub(at) > commandLife {
			delete(f.commands, id)
		}
	}
}

// renewed reports the refusal of a secret that this node has a newer version of.
func (f *fleet) renewed(g *syncv1.Signal) bool {
	v := f.node.holder.Load()
	if g.GetSecretVersion() == 0 || v == nil {
		return false
	}
	a := accountOf(v, g.GetSubject())
	if a == nil {
		return false
	}
	s := v.Secret(a.TenantID, a.CredentialID())
	return s != nil && s.Version > g.GetSecretVersion()
}

// accountOf finds an account of a credential; nil if the node has none.
func accountOf(v *snapshot.View, credential string) (found *plan.Account) {
	if v == nil {
		return nil
	}
	v.EachTenant(func(t *snapshot.Tenant) bool {
		found = plan.AccountOf(t, credential)
		return found == nil
	})
	return found
}

// obey does what an operator told every node.
func (f *fleet) obey(g *syncv1.Signal, now time.Time) {
	n := f.node
	var ended int
	switch scope, subject := g.GetScope(), g.GetSubject(); {
	case subject == "":
		return
	case g.GetKind() == syncv1.SignalKind_SIGNAL_KIND_CLEAR:
		a := accountOf(n.holder.Load(), subject)
		if a == nil {
			a = &plan.Account{CredentialKey: subject, QuotaKey: subject}
		}
		n.subscriber.Withdraw(func(waiting *syncv1.Signal) bool {
			s, ok := heardOf(waiting)
			return ok && schedule.Covers(a, &s)
		})
		ended = n.scheduler.Clear(a, g.GetStartTime().AsTime(), now)
	case scope == "credential":
		ended = n.affinity.Flush("", "", subject)
	case scope == "route":
		ended = n.affinity.Flush("", subject, "")
	case scope == "tenant":
		ended = n.affinity.Flush(subject, "", "")
	default:
		return
	}
	n.log.Info().Str("command", g.GetKind().String()).Str("scope", g.GetScope()).Str("subject", g.GetSubject()).Int("ended", ended).
		Msg("command obeyed")
}

// swapped brings the running state in step with a new configuration: a new secret may be
// tried again, and what is known of credentials that are gone is forgotten.
func (f *fleet) swapped(old, now *snapshot.View, tenants []string) {
	if old == nil {
		return
	}
	var gone []string
	for _, id := range tenants {
		before, after := old.Tenant(id), now.Tenant(id)
		lives := make(map[string]bool)
		if after != nil {
			for _, c := range after.Message.GetCredentials() {
				lives[c.GetId()] = true
				f.renew(old, now, id, c.GetId())
			}
		}
		if before == nil {
			continue
		}
		for _, c := range before.Message.GetCredentials() {
			if !lives[c.GetId()] {
				gone = append(gone, c.GetId())
			}
		}
		for _, u := range before.Message.GetUpstreams() {
			if after == nil || after.Upstreams[u.GetId()] == nil {
				gone = append(gone, u.GetId()) // the key of an account without a credential
			}
		}
	}
	if len(gone) == 0 {
		return
	}
	f.mu.Lock()
	for _, id := range gone {
		f.gone[id] = true
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fleet) renew(old, now *snapshot.View, tenant, credential string) {
	secret := now.Secret(tenant, credential)
	if secret == nil {
		return
	}
	if before := old.Secret(tenant, credential); before == nil || before.Version != secret.Version {
		f.node.scheduler.Renewed(credential, secret.Version)
	}
}

// run drops the state of credentials that are gone, which takes too long to hold the
// configuration up, and tells again what lasts.
func (f *fleet) run(ctx context.Context) error {
	repeat := time.NewTicker(repeatEvery)
	defer repeat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-repeat.C:
			f.node.scheduler.Repeat(now)
		case <-f.wake:
			f.mu.Lock()
			gone := f.gone
			f.gone = make(map[string]bool)
			f.mu.Unlock()
			is := func(credential string) bool { return gone[credential] }
			f.node.scheduler.Forget(is)
			f.node.affinity.Forget(is)
		}
	}
}
