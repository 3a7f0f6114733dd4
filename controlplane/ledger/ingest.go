package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What Ingest refuses.
var (
	// ErrBatch: the batch itself makes no sense, whatever its events hold.
	ErrBatch = errors.New("invalid usage batch")
	// ErrOverlap: a batch of sums meets rows that are stored in part, or the
	// other way round; taking it would count them twice.
	ErrOverlap = errors.New("the range overlaps usage that is stored")
)

// quarantined is an event that cannot be a row.
type quarantined struct {
	ev  *ledgerv1.UsageEvent
	why *refused
}

// Ingest stores a batch of a node's log exactly once and returns last, up to
// where the log is now stored, and how many rows were new. When it returns nil,
// everything in the batch is on disk: as a row, or in quarantine with the reason.
//
// The events are those of the log's sequences first to last; what is missing
// between them was no settlement. A replay, whole or in part, in any order,
// changes nothing. A settlement that arrives for an attempt closed as unknown
// takes the estimated one back with a reversal.
//
// A batch of folded sums is taken only if nothing of its range is stored, and
// detail only if its range is not in stored sums. Where all of the range is
// stored the batch is acknowledged and adds nothing; where a part is, the error
// is ErrOverlap. ErrBatch says that the batch cannot be read; any other error
// may pass, and the batch is to be sent again.
func (l *Ledger) Ingest(ctx context.Context, nodeID, bootID string, first, last uint64, events []*ledgerv1.UsageEvent) (lastSeq uint64, inserted int64, err error) {
	if err := l.checkBatch(nodeID, bootID, first, last, events); err != nil {
		l.metrics.batch(ctx, "refused")
		return 0, 0, err
	}
	in := &incoming{node: nodeID, boot: bootID, first: first, last: last, now: time.Now()}
	if err := l.prepare(ctx, in, events); err != nil {
		l.metrics.batch(ctx, "failed")
		return 0, 0, fmt.Errorf("ingest usage: %w", err)
	}
	var done ingested
	err = l.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = ingested{}
		return l.store(ctx, tx, in, &done)
	})
	if err != nil {
		result := "failed"
		if errors.Is(err, ErrOverlap) {
			result = "refused"
		}
		l.metrics.batch(ctx, result)
		if noPartition(err) { // it was there, and has been detached since
			l.months.Clear()
		}
		return 0, 0, fmt.Errorf("ingest usage: %w", err)
	}
	l.report(ctx, in, &done)
	return last, int64(len(done.rows)), nil
}

func (l *Ledger) checkBatch(nodeID, bootID string, first, last uint64, events []*ledgerv1.UsageEvent) error {
	for name, id := range map[string]string{"node_id": nodeID, "boot_id": bootID} {
		if id == "" {
			return fmt.Errorf("%w: %s is empty", ErrBatch, name)
		}
		if r := checkText(name, id, maxID); r != nil {
			return fmt.Errorf("%w: %w", ErrBatch, r.err)
		}
	}
	switch {
	case nodeID == sweeperNode:
		return fmt.Errorf("%w: node_id %q is the control plane's own", ErrBatch, nodeID)
	case first == 0 || last < first || last > math.MaxInt64:
		return fmt.Errorf("%w: first_seq %d, last_seq %d: want 1 or more, in order", ErrBatch, first, last)
	case len(events) > l.cfg.MaxEvents:
		return fmt.Errorf("%w: %d events: want at most %d", ErrBatch, len(events), l.cfg.MaxEvents)
	}
	for i, ev := range events {
		if ev == nil {
			return fmt.Errorf("%w: event %d is missing", ErrBatch, i)
		}
	}
	return nil
}

// incoming is a batch as it was sent, with its events sorted into what can be a
// row and what cannot.
type incoming struct {
	node, boot  string
	first, last uint64
	now         time.Time
	rows        []*row
	bad         []quarantined
	folded      bool
}

// prepare rates the events and makes the partitions they need.
func (l *Ledger) prepare(ctx context.Context, in *incoming, events []*ledgerv1.UsageEvent) error {
	for _, ev := range events {
		r, why, err := l.prepareEvent(ctx, ev, in.now)
		if err != nil {
			return err
		}
		if why != nil {
			in.bad = append(in.bad, quarantined{ev, why})
			continue
		}
		in.folded = in.folded || r.kind == ledgerv1.EntryKind_ENTRY_KIND_FOLDED
		in.rows = append(in.rows, r)
		if err := l.ensureMonth(ctx, r.day); err != nil {
			return err
		}
	}
	return nil
}

// prepareEvent makes a row of an event, or says why it cannot be one. The error
// is one that may pass.
func (l *Ledger) prepareEvent(ctx context.Context, ev *ledgerv1.UsageEvent, now time.Time) (*row, *refused, error) {
	if why := checkEvent(ev, now, l.cfg.MaxAhead, l.cfg.MaxBehind); why != nil {
		return nil, why, nil
	}
	owed, _ := dueUnits(ev)
	if isHold(ev) {
		// A hold states what is at stake and moves no money; that it can be
		// rated is found out now, while it can still be refused.
		if why, err := l.rateable(ctx, ev); why != nil || err != nil {
			return nil, why, err
		}
		held := proto.CloneOf(ev)
		held.Kind = ledgerv1.EntryKind_ENTRY_KIND_HOLD
		held.Outcome = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN
		ev, owed = held, unitsOf(ev.GetUnits())
	}
	rating, err := l.rater.Rate(ctx, ev)
	if err != nil {
		if why := refusedByRate(err); why != nil {
			return nil, why, nil
		}
		return nil, nil, err
	}
	r, err := newRow(ev, owed, rating, now)
	if err != nil {
		return nil, &refused{reasonID, err}, nil
	}
	if ev.GetOutcome() == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT {
		// What the cached answer would have cost; a note, so a missing price is no matter.
		if would, err := l.rater.rate(ctx, ev, unitsOf(ev.GetUnits()), money.Units{}); err == nil {
			r.saved = would.Cost.Nano
		}
	}
	return r, nil, nil
}

func (l *Ledger) rateable(ctx context.Context, ev *ledgerv1.UsageEvent) (*refused, error) {
	owed, charged := l.unknownUnits(ev)
	if _, err := l.rater.rate(ctx, ev, owed, charged); err != nil {
		if why := refusedByRate(err); why != nil {
			return why, nil
		}
		return nil, err
	}
	return nil, nil
}

// ingested is what a transaction did.
type ingested struct {
	rows       []*row // new rows of the batch, corrections not among them
	corrected  []*row
	duplicates int
	bad        []quarantined // new in quarantine
	batchID    string
}

// store is the transaction of one batch.
func (l *Ledger) store(ctx context.Context, tx pgx.Tx, in *incoming, done *ingested) error {
	_, prev, err := watermark(ctx, tx, in.node, in.boot)
	if err != nil {
		return err
	}
	stored, err := overlap(ctx, tx, in)
	if err != nil {
		return err
	}
	if !stored {
		done.batchID = ident.New(ident.Batch)
		if err := l.storeRows(ctx, tx, in, done); err != nil {
			return err
		}
	}
	if done.bad, err = storeQuarantine(ctx, tx, in.node, in.boot, slices.Concat(in.bad, done.bad)); err != nil {
		return err
	}
	if len(done.rows) == 0 && len(done.bad) == 0 {
		_, err := tx.Exec(ctx, `UPDATE ingest_watermark SET last_seq = greatest(last_seq, $3), updated_at = clock_timestamp()
			WHERE node_id = $1 AND boot_id = $2`, in.node, in.boot, int64(in.last))
		if err != nil {
			return fmt.Errorf("move the watermark: %w", err)
		}
		return nil
	}
	if done.batchID == "" {
		done.batchID = ident.New(ident.Batch)
	}
	b := &batch{
		id: done.batchID, node: in.node, boot: in.boot, first: in.first, last: in.last, folded: in.folded, prev: prev,
		rows: slices.Concat(done.rows, done.corrected),
	}
	return b.write(ctx, tx)
}

// storeRows inserts the rows that are new, and what follows from them.
func (l *Ledger) storeRows(ctx context.Context, tx pgx.Tx, in *incoming, done *ingested) error {
	for _, r := range in.rows {
		r.batchID = done.batchID
	}
	if err := l.stage(ctx, tx, in.rows); err != nil {
		return err
	}
	// An open hold of a settled attempt is locked until this commits: a sweeper
	// either finished with it, and its rows are seen below, or will see ours.
	_, err := tx.Exec(ctx, `SELECT FROM usage_hold h JOIN ledger_incoming i ON i.request_id = h.request_id AND i.attempt = h.attempt
		WHERE i.kind = $1 ORDER BY h.request_id, h.attempt, h.seq FOR UPDATE OF h`, int(ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT))
	if err != nil {
		return fmt.Errorf("lock open holds: %w", err)
	}
	if done.rows, err = l.insertStaged(ctx, tx, in.rows); err != nil {
		return err
	}
	if done.duplicates = len(in.rows) - len(done.rows); done.duplicates > 0 {
		if done.bad, err = l.conflicts(ctx, tx, in.rows); err != nil {
			return err
		}
	}
	if err := l.openHolds(ctx, tx, done.rows, in.now); err != nil {
		return err
	}
	if done.corrected, err = l.takeBackEstimates(ctx, tx, done.rows, done.batchID, in.now); err != nil {
		return err
	}
	return nil
}

// stage copies rows to the connection's temporary table, ledger_incoming, with
// their place in the slice. The table is made once a connection and emptied at
// the end of each transaction.
func (l *Ledger) stage(ctx context.Context, tx pgx.Tx, rows []*row) error {
	_, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE IF NOT EXISTS ledger_incoming (LIKE usage_ledger, ordinal int NOT NULL) ON COMMIT DELETE ROWS")
	if err != nil {
		return fmt.Errorf("make the staging table: %w", err)
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"ledger_incoming"}, append([]string{"ordinal", "fx_id"}, l.schema.names...),
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			return append([]any{i, ""}, l.schema.values(rows[i])...), nil
		}))
	if err != nil {
		return fmt.Errorf("copy usage: %w", err)
	}
	return nil
}

// insertStaged inserts the staged rows and returns those that were new. Rows go
// in by key, so that two batches with a row in common wait and do not deadlock.
func (l *Ledger) insertStaged(ctx context.Context, tx pgx.Tx, rows []*row) ([]*row, error) {
	found, err := tx.Query(ctx, "INSERT INTO usage_ledger ("+l.schema.list+") SELECT "+l.schema.list+` FROM ledger_incoming
		ORDER BY ledger_day, request_id, attempt, kind, seq, ordinal ON CONFLICT DO NOTHING RETURNING entry_id`)
	if err != nil {
		return nil, fmt.Errorf("insert usage: %w", err)
	}
	ids, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("insert usage: %w", err)
	}
	if len(ids) == len(rows) {
		return rows, nil
	}
	isNew := make(map[string]bool, len(ids))
	for _, id := range ids {
		isNew[id] = true
	}
	fresh := make([]*row, 0, len(ids))
	for _, r := range rows {
		if isNew[r.entryID] {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// conflicts finds staged rows whose key was taken by a row that says something
// else. A replay says the same; anything else is a fault of the node, and what
// it says must not get lost.
func (l *Ledger) conflicts(ctx context.Context, tx pgx.Tx, rows []*row) ([]quarantined, error) {
	compared := []string{"tenant", "consumer", "api_key", "provider", "model_requested", "model_served", "outcome", "usage_source", "charged_units"}
	for c := range money.Component(money.NumComponents) {
		compared = append(compared, c.String())
	}
	side := func(of string) string { return "ROW(" + of + "." + strings.Join(compared, ", "+of+".") + ")" }
	// One probe of the key for each staged row, as in takeBackEstimates.
	found, err := tx.Query(ctx, `SELECT i.ordinal, l.entry_id FROM ledger_incoming i CROSS JOIN LATERAL (SELECT u.* FROM usage_ledger u
		WHERE u.ledger_day = i.ledger_day AND u.request_id = i.request_id AND u.attempt = i.attempt AND u.kind = i.kind AND u.seq = i.seq LIMIT 1) l
		WHERE l.entry_id <> i.entry_id AND `+side("l")+" IS DISTINCT FROM "+side("i")+" ORDER BY i.ordinal")
	if err != nil {
		return nil, fmt.Errorf("compare with stored rows: %w", err)
	}
	var out []quarantined
	var ordinal int
	var entry string
	_, err = pgx.ForEachRow(found, []any{&ordinal, &entry}, func() error {
		out = append(out, quarantined{rows[ordinal].ev, refuse(reasonConflict, "row %s has this key and says something else", entry)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare with stored rows: %w", err)
	}
	return out, nil
}

// overlap decides what a batch is to the ranges that are stored, where sums are
// in play: nothing (false), stored already (true), or ErrOverlap.
func overlap(ctx context.Context, tx pgx.Tx, in *incoming) (bool, error) {
	found, err := tx.Query(ctx, `SELECT first_seq, last_seq, folded FROM ingest_batch
		WHERE node_id = $1 AND boot_id = $2 AND first_seq <= $4 AND last_seq >= $3 ORDER BY first_seq, last_seq`,
		in.node, in.boot, int64(in.first), int64(in.last))
	if err != nil {
		return false, fmt.Errorf("read stored ranges: %w", err)
	}
	var from, to int64
	var folded, sums bool
	end := int64(in.first) - 1 // the range is stored from its start up to here
	n := 0
	_, err = pgx.ForEachRow(found, []any{&from, &to, &folded}, func() error {
		n++
		sums = sums || folded
		if from <= end+1 {
			end = max(end, to)
		}
		return nil
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("read stored ranges: %w", err)
	case n == 0 || !sums && !in.folded:
		return false, nil
	case end >= int64(in.last):
		return true, nil
	}
	return false, fmt.Errorf("%w: of %d to %d, stored without a gap up to %d; send only what is not stored", ErrOverlap, in.first, in.last, max(end, 0))
}

// storeQuarantine keeps events that cannot be rows and returns those that were
// new.
func storeQuarantine(ctx context.Context, tx pgx.Tx, node, boot string, bad []quarantined) ([]quarantined, error) {
	var fresh []quarantined
	for _, q := range bad {
		body, err := eventBytes(q.ev)
		if err != nil {
			return nil, fmt.Errorf("keep event %d: %w", q.ev.GetLogSeq(), err)
		}
		h := sha256.New()
		putText(h, node)
		putText(h, string(body))
		tag, err := tx.Exec(ctx, `INSERT INTO usage_quarantine (hash, node_id, boot_id, log_seq, request_id, reason, detail, event)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
			h.Sum(nil), node, boot, int64(q.ev.GetLogSeq()), printable(q.ev.GetRequestId()), q.why.reason, printable(q.why.err.Error()), body)
		if err != nil {
			return nil, fmt.Errorf("keep event %d: %w", q.ev.GetLogSeq(), err)
		}
		if tag.RowsAffected() > 0 {
			fresh = append(fresh, q)
		}
	}
	return fresh, nil
}

// eventBytes marshals an event. What is not UTF-8, which only a caller in this
// process can send, is replaced: kept as it can be, rather than not at all.
func eventBytes(ev *ledgerv1.UsageEvent) ([]byte, error) {
	options := proto.MarshalOptions{Deterministic: true}
	body, err := options.Marshal(ev)
	if err == nil {
		return body, nil
	}
	clean := func(s string) string { return strings.ToValidUTF8(s, "�") }
	mended := proto.CloneOf(ev)
	m := mended.ProtoReflect()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Kind() == protoreflect.StringKind && !fd.IsMap() {
			m.Set(fd, protoreflect.ValueOfString(clean(v.String())))
		}
		return true
	})
	mended.Labels = map[string]string{}
	for k, v := range ev.GetLabels() {
		mended.Labels[clean(k)] = clean(v)
	}
	return options.Marshal(mended)
}

// printable makes any string one that PostgreSQL takes, cut to what is of use.
func printable(s string) string {
	const most = 512
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "�"), "�")
}

// report counts and logs what was stored, once it is on disk.
func (l *Ledger) report(ctx context.Context, in *incoming, done *ingested) {
	l.metrics.batch(ctx, "stored")
	l.metrics.wrote(ctx, slices.Concat(done.rows, done.corrected), done.duplicates)
	l.metrics.quarantine(ctx, done.bad)
	if n := len(done.corrected); n > 0 {
		l.metrics.corrected.Add(ctx, int64(n))
	}
	for _, q := range done.bad {
		l.log.Error().Str("node", in.node).Str("boot", in.boot).Uint64("log_seq", q.ev.GetLogSeq()).
			Str("reason", q.why.reason).Str("detail", printable(q.why.err.Error())).Msg("usage event is in quarantine")
	}
	l.logUnpriced(done.rows)
}

// logUnpriced writes one line for all rows of a batch that have no price.
func (l *Ledger) logUnpriced(rows []*row) {
	n := 0
	var example *row
	for _, r := range rows {
		if r.rating.Cost.Unpriced != Priced || r.rating.Price.Unpriced != Priced {
			n++
			example = r
		}
	}
	if n == 0 {
		return
	}
	l.log.Warn().Int("rows", n).Str("request_id", example.ev.GetRequestId()).Str("tenant", example.ev.GetTenantId()).
		Str("provider", example.ev.GetProviderId()).Str("model_served", example.ev.GetModelServed()).
		Str("model_requested", example.ev.GetModelRequested()).Str("price_book", example.ev.GetPriceBook()).
		Str("cost_reason", string(example.rating.Cost.Unpriced)).Str("price_reason", string(example.rating.Price.Unpriced)).
		Msg("usage was written without a price; publish one for the model and adjust")
}
