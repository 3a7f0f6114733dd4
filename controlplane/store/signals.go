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

// PutSignals shares soft state of nodes with the other replicas. A signal that is
// there already is left as it is.
func (s *Store) PutSignals(ctx context.Context, signals []*syncv1.Signal) error {
	batch := &pgx.Batch{}
	for _, g := range signals {
		var until any
		if g.GetUntil() != nil {
			until = g.GetUntil().AsTime()
		}
		batch.Queue(`INSERT INTO fleet_signal (id, node_id, kind, scope, subject, cause, until) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
			g.GetId(), g.GetNodeId(), int16(g.GetKind()), g.GetScope(), g.GetSubject(), g.GetCause(), until)
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("share signals: %w", s.cat.classify(err, nil))
	}
	return nil
}

// SignalsSince returns signals shared after a time of the database's clock, and
// the time to ask from next. Ask with an overlap: one that was written earlier
// can become visible later.
func (s *Store) SignalsSince(ctx context.Context, since time.Time) ([]*syncv1.Signal, time.Time, error) {
	now := since
	rows, err := s.pool.Query(ctx, `SELECT id, node_id, kind, scope, subject, cause, coalesce(until, '0001-01-01Z'), created_at
		FROM fleet_signal WHERE created_at > $1 ORDER BY created_at LIMIT 10000`, since)
	if err != nil {
		return nil, since, fmt.Errorf("read signals: %w", s.cat.classify(err, nil))
	}
	signals, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*syncv1.Signal, error) {
		g := &syncv1.Signal{}
		var kindNumber int16
		var until, created time.Time
		err := row.Scan(&g.Id, &g.NodeId, &kindNumber, &g.Scope, &g.Subject, &g.Cause, &until, &created)
		g.Kind = syncv1.SignalKind(kindNumber)
		if !until.IsZero() {
			g.Until = timestamppb.New(until)
		}
		if created.After(now) {
			now = created
		}
		return g, err
	})
	if err != nil {
		return nil, since, fmt.Errorf("read signals: %w", s.cat.classify(err, nil))
	}
	return signals, now, nil
}
