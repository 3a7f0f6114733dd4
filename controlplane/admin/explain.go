package admin

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Decider decides about calls as nodes do, under configurations that it is given as the
// content of shards. It opens no secret and sends nothing.
type Decider interface {
	// Explain says, as JSON, where a call would go on a node that has just started. It
	// fails with a connect error for a question that cannot be understood.
	Explain(shards []proto.Message, q Asked) (decisionJSON []byte, err error)

	// Replay decides the recorded requests that rows gives, in the order of their times,
	// under two configurations, and says as JSON what differs. It hands each to seen when
	// it is decided.
	Replay(current, draft []proto.Message, rows func(fn func(*ledgerv1.RequestRecord) error) error, seen func(rows int64) error) (summaryJSON []byte, err error)
}

// Asked is the call that a question is about.
type Asked struct {
	QuestionJSON         string // in the words of a node's operations port; may be empty
	Tenant, Route, Model string // go before what QuestionJSON says; may be empty
	FeaturesJSON         string // of a recorded request, which is asked about instead
	Generation           uint64 // of the configuration
}

// deciding bounds how many configurations are held in memory for questions at a time.
const deciding = 2

// Explain says how a request would be served by a node that has just started: under the
// newest configuration, or as if a draft had been applied.
func (s configService) Explain(ctx context.Context, req *adminv1.ExplainRequest) (*adminv1.ExplainResponse, error) {
	decider := s.api.cfg.Decider
	if decider == nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, "this control plane was started without what decides about calls")
	}
	tenant, err := tenantAsked(ctx, req.GetTenantId(), access.ReadConfig)
	if err != nil {
		return nil, err
	}
	features := ""
	if id := req.GetRequestId(); id != "" {
		log, err := s.api.requests()
		if err != nil {
			return nil, err
		}
		found, err := s.api.request(ctx, func() (*adminv1.RequestLog, error) { return log.Get(ctx, id) }, id)
		if err != nil {
			return nil, err
		}
		if features = found.GetRecord().GetFeaturesJson(); features == "" {
			return nil, connect.Errorf(connect.CodeFailedPrecondition, "the request %s was refused before anything was decided", id)
		}
	}
	done, err := s.api.decide(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	shards, generation, err := s.api.shards(ctx, req.GetDraft(), req.GetGeneration())
	if err != nil {
		return nil, err
	}
	out, err := decider.Explain(shards, Asked{
		QuestionJSON: req.GetQuestionJson(), Tenant: tenant, Route: req.GetRouteId(), Model: req.GetModel(),
		FeaturesJSON: features, Generation: generation,
	})
	if err != nil {
		return nil, err
	}
	return &adminv1.ExplainResponse{DecisionJson: string(out)}, nil
}

// tenantAsked is the tenant that a call is about. An actor that is limited to tenants
// must name one of them.
func tenantAsked(ctx context.Context, tenant string, p access.Permission) (string, error) {
	actor := access.ActorOf(ctx)
	if actor.AllTenants() {
		return tenant, nil
	}
	if tenant == "" && len(actor.Tenants) == 1 {
		tenant = actor.Tenants[0]
	}
	switch {
	case tenant == "":
		return "", wrong(nil, "tenant_id", "required", "name one of the tenants that this account is limited to")
	case !actor.CanTenant(tenant):
		return "", access.Denied(p, "this account may not see tenant %s", tenant)
	}
	return tenant, nil
}

// decide waits until there is room for one more configuration in memory.
func (a *API) decide(ctx context.Context) (done func(), err error) {
	select {
	case a.deciding <- struct{}{}:
		return func() { <-a.deciding }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shards is the content of all shards of the newest configuration, or as a draft would
// make it, and its generation. want is the one that the caller means; 0 is any.
func (a *API) shards(ctx context.Context, draft *adminv1.Bundle, want uint64) ([]proto.Message, uint64, error) {
	for range 3 {
		byKey := make(map[string]proto.Message)
		var head store.Head
		for _, view := range [...]syncv1.View{syncv1.View_VIEW_IDENTITY, syncv1.View_VIEW_STABLE} {
			h, err := a.store.LoadShards(ctx, view, func(s store.StoredShard) error {
				m, err := configcheck.Decode(s.Key, s.Bytes)
				byKey[s.Key] = m
				return err
			})
			if err != nil {
				return nil, 0, err
			}
			if view != syncv1.View_VIEW_IDENTITY && h.Generation != head.Generation {
				head = store.Head{}
				break
			}
			head = h
		}
		if head.Generation == 0 {
			continue // a change came between the two views
		}
		if want != 0 && want != head.Generation {
			return nil, 0, connect.Errorf(connect.CodeFailedPrecondition, "only the newest generation, %d, can be asked about, not %d; give what should differ as a draft",
				head.Generation, want)
		}
		if draft != nil {
			at, err := a.draft(ctx, draft, byKey)
			if err != nil {
				return nil, 0, err
			}
			if at != head.Generation {
				continue
			}
		}
		keys := make([]string, 0, len(byKey))
		for key := range byKey {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		out := make([]proto.Message, len(keys))
		for i, key := range keys {
			out[i] = byKey[key]
		}
		return out, head.Generation, nil
	}
	return nil, 0, connect.NewError(connect.CodeAborted, "the configuration changes all the time; try again")
}

// draft puts into shards what a bundle would change, and returns the generation that it
// was tried on. It fails as an application of the bundle would.
func (a *API) draft(ctx context.Context, in *adminv1.Bundle, shards map[string]proto.Message) (uint64, error) {
	actor := access.ActorOf(ctx)
	rev := &review{preview: true}
	ctx = withReview(ctx, rev)
	w := &write{api: a, actor: actor, review: rev, bundle: true}
	done, err := a.store.Commit(ctx, store.Change{Actor: actor.Store(), Rollout: "immediate", ValidateOnly: true}, func(tx *store.Tx) error {
		w.ctx, w.tx = ctx, tx
		b := &bundle{w: w, owner: in.GetOwner(), res: new(adminv1.ApplyBundleResponse), index: newIndex(w)}
		return b.apply(in, false)
	})
	if err != nil {
		return 0, err
	}
	for _, c := range done.Shards {
		if c.NewHash == nil {
			delete(shards, c.Key)
			continue
		}
		m, err := configcheck.Decode(c.Key, c.Bytes)
		if err != nil {
			return 0, fmt.Errorf("read shard %s of the draft: %w", c.Key, err)
		}
		shards[c.Key] = m
	}
	return done.Generation, nil
}
