package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// signalLife is how long soft state of nodes is kept.
const signalLife = 10 * time.Minute

const signalInsert = `INSERT INTO fleet_signal (id, node_id, kind, scope, subject, cause, until, start_time, source, status, request_id, announced, secret_version,
		dimension, limit_value, limit_remaining, limit_reset_ms)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) ON CONFLICT DO NOTHING`

func signalArgs(g *syncv1.Signal) []any {
	at := func(t *timestamppb.Timestamp) any {
		if t == nil {
			return nil
		}
		return t.AsTime()
	}
	return []any{
		g.GetId(), g.GetNodeId(), int16(g.GetKind()), g.GetScope(), g.GetSubject(), g.GetCause(), at(g.GetUntil()),
		at(g.GetStartTime()), g.GetSource(), g.GetStatus(), g.GetRequestId(), g.GetAnnounced(), g.GetSecretVersion(),
		g.GetDimension(), g.GetLimit(), g.GetRemaining(), g.GetResetMs(),
	}
}

// PutSignals shares soft state of nodes with the other replicas. A signal that is
// there already is left as it is.
func (s *Store) PutSignals(ctx context.Context, signals []*syncv1.Signal) error {
	batch := &pgx.Batch{}
	for _, g := range signals {
		batch.Queue(signalInsert, signalArgs(g)...)
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("share signals: %w", s.cat.classify(err, nil))
	}
	return nil
}

// PutCommand shares a command to the running state of all nodes, and writes down who
// gave it, or neither. event says what it is about.
func (s *Store) PutCommand(ctx context.Context, by Actor, event AuditEvent, g *syncv1.Signal) error {
	event.Actor, event.ActorKind, event.Remote = by.ID, by.Kind, by.Remote
	return s.inTx(ctx, "share a command", func(pg pgx.Tx) error {
		if _, err := pg.Exec(ctx, signalInsert, signalArgs(g)...); err != nil {
			return err
		}
		return s.audit(ctx, pg, event)
	})
}

// signalPage is how many signals are read at a time.
const signalPage = 10_000

// SignalsSince returns signals shared after a time of the database's clock, the oldest
// first, and the time to ask from next. Ask with an overlap: one that was written
// earlier can become visible later.
func (s *Store) SignalsSince(ctx context.Context, since time.Time) ([]*syncv1.Signal, time.Time, error) {
	var out []*syncv1.Signal
	id := ""
	for {
		page, err := s.signalsAfter(ctx, since, id)
		if err != nil {
			return nil, since, err
		}
		for _, row := range page {
			out = append(out, row.signal)
			since, id = row.created, row.signal.GetId()
		}
		if len(page) < signalPage {
			return out, since, nil
		}
	}
}

type signalRow struct {
	signal  *syncv1.Signal
	created time.Time
}

// signalsAfter is one page in the order of time and id.
func (s *Store) signalsAfter(ctx context.Context, since time.Time, id string) ([]signalRow, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, node_id, kind, scope, subject, cause, coalesce(until, '0001-01-01Z'),
			coalesce(start_time, '0001-01-01Z'), source, status, request_id, announced, secret_version,
			dimension, limit_value, limit_remaining, limit_reset_ms, created_at
		FROM fleet_signal WHERE (created_at, id) > ($1, $2) AND ($2 <> '' OR created_at > $1) ORDER BY created_at, id LIMIT $3`, since, id, signalPage)
	if err != nil {
		return nil, fmt.Errorf("read signals: %w", s.cat.classify(err, nil))
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r signalRow, err error) {
		g := &syncv1.Signal{}
		var kindNumber int16
		var until, start time.Time
		err = row.Scan(&g.Id, &g.NodeId, &kindNumber, &g.Scope, &g.Subject, &g.Cause, &until,
			&start, &g.Source, &g.Status, &g.RequestId, &g.Announced, &g.SecretVersion,
			&g.Dimension, &g.Limit, &g.Remaining, &g.ResetMs, &r.created)
		g.Kind = syncv1.SignalKind(kindNumber)
		if !until.IsZero() {
			g.Until = timestamppb.New(until)
		}
		if !start.IsZero() {
			g.StartTime = timestamppb.New(start)
		}
		r.signal = g
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read signals: %w", s.cat.classify(err, nil))
	}
	return page, nil
}

// DropSignals removes those that are over.
func (s *Store) DropSignals(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `DELETE FROM fleet_signal
		WHERE until < clock_timestamp() OR created_at < clock_timestamp() - make_interval(secs => $1)`, signalLife.Seconds())
	if err != nil {
		return fmt.Errorf("remove old signals: %w", s.cat.classify(err, nil))
	}
	return nil
}
