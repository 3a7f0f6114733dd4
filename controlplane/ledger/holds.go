package ledger

import (
	"context"
	"fmt"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// sweeperNode and sweeperBoot name the batches of rows that the control plane
// writes when it closes holds.
const (
	sweeperNode = "control-plane"
	sweeperBoot = "holds"
)

// holdsAtOnce bounds the holds that one transaction closes.
const holdsAtOnce = 200

// unknownUnits returns what an attempt of unknown outcome is settled with: the
// estimate on the cost side, the policy on the customer's.
func (l *Ledger) unknownUnits(ev *ledgerv1.UsageEvent) (owed, charged money.Units) {
	owed = unitsOf(ev.GetUnits())
	switch {
	case ev.GetChargedUnits() != nil:
		return owed, unitsOf(ev.GetChargedUnits())
	case onOwnAccount(ev.GetPurpose()):
		return owed, money.Units{}
	}
	switch l.cfg.Unknown {
	case ChargeReserved:
		charged = owed
	case ChargeInput:
		for _, c := range []money.Component{
			money.Input, money.CacheRead, money.CacheWrite5m, money.CacheWrite1h, money.AudioIn, money.ImageIn, money.Request,
		} {
			charged[c] = owed[c]
		}
	}
	return owed, charged
}

// openHolds puts new hold rows on the list of what is to be closed. The wait
// begins when the row is stored, so that the true settlement of an attempt that
// was found late has its time to arrive.
func (l *Ledger) openHolds(ctx context.Context, tx pgx.Tx, rows []*row, now time.Time) error {
	for _, r := range rows {
		if r.kind != ledgerv1.EntryKind_ENTRY_KIND_HOLD {
			continue
		}
		body, err := proto.Marshal(r.ev)
		if err != nil {
			return fmt.Errorf("open hold: %w", err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO usage_hold (request_id, attempt, seq, entry_id, due_at, event) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT DO NOTHING`, r.ev.GetRequestId(), r.ev.GetAttempt(), r.seq, r.entryID, now.Add(l.cfg.HoldFor), body)
		if err != nil {
			return fmt.Errorf("open hold: %w", err)
		}
	}
	return nil
}

// takeBackEstimates reverses estimated settlements of attempts whose true
// settlement is among rows.
func (l *Ledger) takeBackEstimates(ctx context.Context, tx pgx.Tx, rows []*row, batchID string, now time.Time) ([]*row, error) {
	fresh := map[string]bool{}
	for _, r := range rows {
		if r.kind == ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT {
			fresh[attemptKey(r.ev)] = true
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	// One probe of the key for each staged settlement: the limit keeps the
	// planner from reading the whole ledger instead.
	found, err := tx.Query(ctx, "SELECT l.* FROM ledger_incoming i CROSS JOIN LATERAL (SELECT "+l.schema.list+` FROM usage_ledger u
		WHERE u.ledger_day = i.ledger_day AND u.request_id = i.request_id AND u.attempt = i.attempt AND u.kind = i.kind AND u.seq = $2 LIMIT 1) l
		WHERE i.kind = $1`, int(ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT), gatewaySeq)
	if err != nil {
		return nil, fmt.Errorf("read estimated settlements: %w", err)
	}
	estimates, err := pgx.CollectRows(found, l.schema.scan)
	if err != nil {
		return nil, fmt.Errorf("read estimated settlements: %w", err)
	}
	var reversals []*row
	for _, e := range estimates {
		if !fresh[attemptKey(e.ev)] {
			continue
		}
		fresh[attemptKey(e.ev)] = false // several rows of one attempt: once
		r := e.negated(ledgerv1.EntryKind_ENTRY_KIND_REVERSAL, gatewaySeq, now)
		r.batchID = batchID
		reversals = append(reversals, r)
	}
	return l.insertRows(ctx, tx, reversals)
}

func attemptKey(ev *ledgerv1.UsageEvent) string {
	return fmt.Sprintf("%s/%d", ev.GetRequestId(), ev.GetAttempt())
}

// insertRows inserts a few rows one by one and returns those that were new.
func (l *Ledger) insertRows(ctx context.Context, tx pgx.Tx, rows []*row) ([]*row, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	sortRows(rows)
	marks := make([]byte, 0, 512)
	for i := range l.schema.names {
		if i > 0 {
			marks = append(marks, ", "...)
		}
		marks = fmt.Appendf(marks, "$%d", i+1)
	}
	insert := "INSERT INTO usage_ledger (" + l.schema.list + ") VALUES (" + string(marks) + ") ON CONFLICT DO NOTHING"
	work := &pgx.Batch{}
	for _, r := range rows {
		work.Queue(insert, l.schema.values(r)...)
	}
	results := tx.SendBatch(ctx, work)
	var fresh []*row
	for _, r := range rows {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // the first error says what happened
			return nil, fmt.Errorf("insert %s of %s: %w", kindName(r.kind), r.ev.GetRequestId(), err)
		}
		if tag.RowsAffected() > 0 {
			fresh = append(fresh, r)
		}
	}
	if err := results.Close(); err != nil {
		return nil, fmt.Errorf("insert rows: %w", err)
	}
	return fresh, nil
}

// CloseHolds closes every hold that is due: a hold_release in its place and,
// unless the true settlement has arrived, an estimated one. It returns how many
// it closed. Holds that another replica is closing are left to it.
func (l *Ledger) CloseHolds(ctx context.Context) (int, error) {
	return l.closeHolds(ctx, time.Now())
}

func (l *Ledger) closeHolds(ctx context.Context, now time.Time) (int, error) {
	total := 0
	for {
		var rows []*row
		var taken int
		err := l.transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			rows, taken, err = l.closeSome(ctx, tx, now)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("close holds: %w", err)
		}
		l.metrics.wrote(ctx, rows, 0)
		l.logUnpriced(rows)
		total += taken
		if taken < holdsAtOnce {
			return total, nil
		}
	}
}

// hold is a line of usage_hold.
type hold struct {
	requestID string
	attempt   int32
	seq       int32
	entryID   string
	ev        *ledgerv1.UsageEvent
}

func (l *Ledger) closeSome(ctx context.Context, tx pgx.Tx, now time.Time) (fresh []*row, taken int, err error) {
	found, err := tx.Query(ctx, `SELECT request_id, attempt, seq, entry_id, event FROM usage_hold
		WHERE due_at <= $1 ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED`, now, holdsAtOnce)
	if err != nil {
		return nil, 0, fmt.Errorf("read due holds: %w", err)
	}
	holds, err := pgx.CollectRows(found, func(from pgx.CollectableRow) (*hold, error) {
		h := &hold{ev: &ledgerv1.UsageEvent{}}
		var body []byte
		if err := from.Scan(&h.requestID, &h.attempt, &h.seq, &h.entryID, &body); err != nil {
			return nil, err
		}
		if err := proto.Unmarshal(body, h.ev); err != nil {
			return nil, fmt.Errorf("event of hold %s: %w", h.entryID, err)
		}
		return h, nil
	})
	if err != nil || len(holds) == 0 {
		return nil, 0, err
	}
	batchID := ident.New(ident.Batch)
	var rows []*row
	for _, h := range holds {
		more, err := l.closing(ctx, tx, h, now)
		if err != nil {
			return nil, 0, fmt.Errorf("hold %s: %w", h.entryID, err)
		}
		rows = append(rows, more...)
		if _, err := tx.Exec(ctx, "DELETE FROM usage_hold WHERE request_id = $1 AND attempt = $2 AND seq = $3", h.requestID, h.attempt, h.seq); err != nil {
			return nil, 0, fmt.Errorf("hold %s: %w", h.entryID, err)
		}
	}
	for _, r := range rows {
		r.batchID = batchID
	}
	if fresh, err = l.insertRows(ctx, tx, rows); err != nil {
		return nil, 0, err
	}
	if len(fresh) == 0 {
		return nil, len(holds), nil
	}
	last, prev, err := watermark(ctx, tx, sweeperNode, sweeperBoot)
	if err != nil {
		return nil, 0, err
	}
	b := &batch{
		id: batchID, node: sweeperNode, boot: sweeperBoot, first: last + 1, last: last + uint64(len(fresh)), rows: fresh, prev: prev,
	}
	return fresh, len(holds), b.write(ctx, tx)
}

// closing returns the rows that close a hold.
func (l *Ledger) closing(ctx context.Context, tx pgx.Tx, h *hold, now time.Time) ([]*row, error) {
	held, err := newRow(h.ev, unitsOf(h.ev.GetUnits()), Rating{}, now)
	if err != nil {
		return nil, err
	}
	held.entryID = h.entryID
	rows := []*row{held.negated(ledgerv1.EntryKind_ENTRY_KIND_HOLD_RELEASE, h.seq, now)}

	var settled bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM usage_ledger WHERE ledger_day = $1 AND request_id = $2 AND attempt = $3 AND kind = $4)`,
		held.day, h.requestID, h.attempt, int(ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT)).Scan(&settled)
	if err != nil || settled {
		return rows, err
	}
	ev := proto.CloneOf(h.ev)
	ev.Kind, ev.Seq = ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT, gatewaySeq
	ev.UsageSource = ledgerv1.UsageSource_USAGE_SOURCE_ESTIMATED
	owed, charged := l.unknownUnits(ev)
	rating, err := l.rater.rate(ctx, ev, owed, charged)
	if refusedByRate(err) != nil {
		// Prices changed since the hold was taken, and now its amount has no
		// place in 64 bits. It must not hold up the others: no amount, and said so.
		rating, err = Rating{Cost: Charge{Unpriced: BadVersion}, Price: Charge{Unpriced: BadVersion}}, nil
	}
	if err != nil {
		return nil, err
	}
	ev.ChargedUnits = unitsMessage(charged)
	if ev.OccurredAt == nil {
		ev.OccurredAt = timestamppb.New(held.occurred())
	}
	estimate, err := newRow(ev, owed, rating, now)
	if err != nil {
		return nil, err
	}
	estimate.refID = h.entryID
	return append(rows, estimate), nil
}
