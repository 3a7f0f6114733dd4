package admin

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect/v2"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/access"
	"github.com/aidy-gateway/aidy-gateway/controlplane/requestlog"
)

// Bounds of a replay.
const (
	replayWindow  = time.Hour
	maxReplay     = 31 * 24 * time.Hour
	maxReplayRows = 2_000_000
	replayTime    = 15 * time.Minute

	// progressEvery is how many rows lie between two signs of life.
	progressEvery = 5000
)

var errReplayRows = errors.New("the window holds too many rows")

// Replay decides the requests of a window again, under the newest configuration and as if
// a draft had been applied, and says what would differ. It streams how far it is.
func (s configService) Replay(ctx context.Context, req *adminv1.ReplayRequest, stream adminv1connect.ConfigServiceReplayServerStream) error {
	if s.api.cfg.Decider == nil {
		return connect.NewError(connect.CodeFailedPrecondition, "this control plane was started without what decides about calls")
	}
	log, err := s.api.requests()
	if err != nil {
		return err
	}
	tenant, err := tenantAsked(ctx, req.GetTenantId(), access.ReadLogs)
	if err != nil {
		return err
	}
	if actor := access.ActorOf(ctx); !actor.Can(access.ReadLogs) {
		return access.Denied(access.ReadLogs, "a replay reads the request log")
	}
	f := requestlog.Filter{To: time.Now()}
	if req.GetUntil() != nil {
		f.To = req.GetUntil().AsTime()
	}
	f.From = f.To.Add(-replayWindow)
	if req.GetSince() != nil {
		f.From = req.GetSince().AsTime()
	}
	if !f.From.Before(f.To) || f.To.Sub(f.From) > maxReplay {
		return wrong(nil, "since", "window", "must be before until, and at most 31 days")
	}
	if tenant != "" {
		f.Tenants = []string{tenant}
	}
	ctx, cancel := context.WithTimeout(ctx, replayTime)
	defer cancel()
	done, err := s.api.decide(ctx)
	if err != nil {
		return err
	}
	defer done()
	current, generation, err := s.api.shards(ctx, nil, 0)
	if err != nil {
		return err
	}
	draft := current
	if req.GetDraft() != nil {
		if draft, _, err = s.api.shards(ctx, req.GetDraft(), generation); err != nil {
			return err
		}
	}
	n := int64(0)
	out, err := s.api.cfg.Decider.Replay(current, draft, func(fn func(*ledgerv1.RequestRecord) error) error {
		return log.Scan(ctx, f, fn)
	}, func(rows int64) error {
		if n = rows; rows > maxReplayRows {
			return errReplayRows
		}
		if rows%progressEvery == 0 {
			return stream.Send(&adminv1.ReplayResponse{Rows: rows})
		}
		return ctx.Err()
	})
	if errors.Is(err, errReplayRows) {
		return connect.Errorf(connect.CodeResourceExhausted, "the window holds more than %d requests; choose a shorter one, or one tenant", maxReplayRows)
	}
	if err != nil {
		return err
	}
	return stream.Send(&adminv1.ReplayResponse{Rows: n, Done: true, SummaryJson: string(out)})
}
