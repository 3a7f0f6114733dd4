package dataplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/meter"
)

const (
	// slowFirst is the time to the first event from which on a request is logged with its
	// decision.
	slowFirst = 5 * time.Second
	// decisionShare is the share of other requests that are: one in so many.
	decisionShare = 100

	maxDecision = 8 << 10
	maxFeatures = 4 << 10
	maxLogTries = 32
)

// logRequest puts a request into the request log. rec is its decision; nil if none was
// made.
func (n *Node) logRequest(call *inbound.Call, who *auth.Principal, req *attempt.Request, res *attempt.Result, rec *decision.Record, outcome string, took time.Duration) {
	if n.requests == nil {
		return
	}
	r := &ledgerv1.RequestRecord{
		RequestId: call.ID, StartTime: timestamppb.New(call.Start),
		Protocol: string(call.Target.Protocol), Operation: call.Target.Op.String(), Stream: call.Target.Stream,
		Outcome: outcome, Status: http.StatusOK, Stop: string(res.Stop), Affinity: string(res.Affinity),
		QueueUs: res.Queued.Microseconds(), DurationUs: took.Microseconds(),
	}
	if v := call.View; v.Whole() {
		r.PolicyGeneration, r.IdentityGeneration = v.Policy.Generation, v.Identity.Generation
	}
	if who != nil {
		r.TenantId = who.Tenant.ID
		if who.Key != nil {
			r.ApiKeyId = who.Key.ID
		}
		if who.Consumer != nil {
			r.ConsumerId = who.Consumer.GetId()
		}
		if who.Project != nil {
			r.ProjectId = who.Project.GetId()
		}
	}
	if call.Shape != nil {
		r.ModelRequested = decision.Cut(call.Shape.Model)
	}
	if f := res.Fault; f != nil {
		r.Status, r.Code = int32(f.Status()), f.StableCode()
		if f.Gateway != nil {
			r.Pool = f.Gateway.Pool[:min(len(f.Gateway.Pool), 1024)]
		}
	}
	first := took
	if c := res.Winner; c != nil {
		r.ModelServed, r.ProviderId, r.UpstreamId, r.CredentialId = c.UpstreamModel(), c.Upstream.GetProviderId(), c.Upstream.GetId(), c.CredentialID()
		r.Units = meter.UnitsOf(res.Answer.Usage)
		r.CostNanos = costOf(res)
		if at := res.Answer.FirstEventAt; !at.IsZero() {
			first = at.Sub(call.Start)
			r.FirstEventUs = first.Microseconds()
		}
	}
	if req != nil {
		r.RouteId, r.Class = req.Route.GetId(), req.Class
	}
	for i := range res.Tries[:min(len(res.Tries), maxLogTries)] {
		r.UpstreamRequests = append(r.UpstreamRequests, upstreamRequest(call, &res.Tries[i]))
	}
	if rec != nil {
		r.DecisionId = rec.ID
		if b, err := json.Marshal(&rec.Features); err == nil && len(b) <= maxFeatures {
			r.FeaturesJson = string(b)
		}
		if outcome != "ok" || len(res.Failed) > 0 || first > slowFirst || rand.IntN(decisionShare) == 0 {
			if b, err := rec.Encode(maxDecision); err == nil && len(b) <= maxDecision {
				r.DecisionJson = string(b)
			}
		}
	}
	n.requests.Put(r, res.Fault != nil && len(res.Tries) == 0)
}

func upstreamRequest(call *inbound.Call, t *attempt.Tried) *ledgerv1.UpstreamRequest {
	c := t.Candidate
	u := &ledgerv1.UpstreamRequest{
		ProviderId: c.Upstream.GetProviderId(), UpstreamId: c.Upstream.GetId(), CredentialId: c.CredentialID(), Model: c.UpstreamModel(),
		Stage: t.Stage, Ok: t.OK, Status: int32(t.Status), WaitedUs: t.Waited.Microseconds(),
		StartedUs: t.Started.Sub(call.Start).Microseconds(), TookUs: t.Took.Microseconds(),
		ProviderRequestId: decision.Cut(t.UpstreamRequestID),
	}
	if !t.OK || t.Class != 0 {
		u.Class, u.Consumed = t.Class.String(), t.Consumed.String()
	}
	return u
}

// costOf is what the answer cost by the price that its account was weighed at.
func costOf(res *attempt.Result) int64 {
	for i := len(res.Selections) - 1; i >= 0; i-- {
		sel := res.Selections[i]
		for _, at := range sel.Order {
			if sel.IDOf(at) != res.Winner.ID {
				continue
			}
			p, u := sel.Price(at), res.Answer.Usage
			write := p.Write
			if write <= 0 {
				write = p.In
			}
			fresh := u.PromptTokens() - u.CacheRead - u.CacheWrite()
			return int64(math.Round(float64(fresh)*p.In + float64(u.CacheRead)*p.Read + float64(u.CacheWrite())*write + float64(u.CompletionTokens())*p.Out))
		}
	}
	return 0
}

// IngestLogs implements requestlog.Ingester.
func (c *ledgerClient) IngestLogs(ctx context.Context, batch *ledgerv1.IngestLogsRequest) (*ledgerv1.IngestLogsResponse, error) {
	client, err := c.connected()
	if err != nil {
		return nil, err
	}
	resp, err := client.IngestLogs(ctx, batch)
	if err != nil {
		c.close()
	}
	return resp, err
}

// shipLogs carries the request log to the control plane once the node knows who it is.
func (n *Node) shipLogs(ctx context.Context) error {
	id, err := n.identity(ctx)
	if err != nil {
		return nil // the node ends before it ever had an identity, so it served nothing
	}
	client := &ledgerClient{dial: n.deps.Dial, endpoints: n.cfg.ControlPlane.Endpoints, subscriber: n.subscriber}
	defer client.close()
	if err := n.requests.Run(ctx, id, client); err != nil {
		return fmt.Errorf("request log: %w", err)
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.cfg.ShipDrain)
	defer cancel()
	if err := n.requests.Drain(drain, id, client); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		n.log.Warn().Err(err).Msg("rows of the request log stay on this node and are sent at its next start")
	}
	return nil
}
