package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/jackc/pgx/v5"
)

// batch is a row of ingest_batch: what one transaction added.
type batch struct {
	id, node, boot string
	first, last    uint64
	folded         bool
	rows           []*row // those that were really inserted, in the order of their key
	prev           []byte
}

// sums adds both sides over all currencies. They are checksums, not amounts, so
// they wrap.
func (b *batch) sums() (cost, price int64) {
	for _, r := range b.rows {
		cost += int64(r.rating.Cost.Nano)
		price += int64(r.rating.Price.Nano)
	}
	return cost, price
}

// chain returns the hash of the batch: SHA-256 over the hash of the batch
// before it, the batch, and its rows. A change of any of them breaks the chain.
func (b *batch) chain() []byte {
	h := sha256.New()
	putText(h, "aidy ledger batch 1")
	putText(h, string(b.prev))
	putText(h, b.id)
	putText(h, b.node)
	putText(h, b.boot)
	cost, price := b.sums()
	folded := int64(0)
	if b.folded {
		folded = 1
	}
	putNumbers(h, int64(b.first), int64(b.last), folded, int64(len(b.rows)), cost, price)
	for _, r := range b.rows {
		for _, s := range [...]string{
			r.ev.GetRequestId(), r.entryID, r.refID, r.ev.GetTenantId(), r.ev.GetProjectId(), r.ev.GetConsumerId(), r.ev.GetApiKeyId(),
			r.ev.GetProviderId(), r.ev.GetCredentialId(), r.ev.GetModelRequested(), r.ev.GetModelServed(), r.rating.ModelBilled(),
			r.rating.Cost.Version, r.rating.Cost.Currency, r.rating.Price.Version, r.rating.Price.Currency,
		} {
			putText(h, s)
		}
		unpriced := int64(0)
		if r.rating.Cost.Unpriced != Priced {
			unpriced |= 1
		}
		if r.rating.Price.Unpriced != Priced {
			unpriced |= 2
		}
		putNumbers(h, int64(r.ev.GetAttempt()), int64(r.kind), int64(r.seq), int64(r.ev.GetOutcome()), int64(r.ev.GetUsageSource()),
			int64(r.rating.Cost.Nano), int64(r.rating.Price.Nano), int64(r.saved), unpriced, r.occurred().UnixMicro())
		putNumbers(h, r.units[:]...)
	}
	return h.Sum(nil)
}

func putText(h hash.Hash, s string) {
	putNumbers(h, int64(len(s)))
	h.Write([]byte(s))
}

func putNumbers(h hash.Hash, numbers ...int64) {
	var b [8]byte
	for _, n := range numbers {
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
}

// sortRows puts rows in the order of their key.
func sortRows(rows []*row) {
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(
			cmp.Compare(a.ev.GetRequestId(), b.ev.GetRequestId()), cmp.Compare(a.ev.GetAttempt(), b.ev.GetAttempt()),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.seq, b.seq))
	})
}

// The accounts of the journal that usage moves money between.
const (
	accountCost       = "upstream_cost"
	accountPayable    = "provider_payable"
	accountReceivable = "receivable"
	accountRevenue    = "revenue"
)

// line is a line of the journal. Debits are positive.
type line struct {
	account, subject, currency string
	amount                     money.Amount
}

// journal returns the lines of rows: what was used makes a cost of the tenant
// and a debt to the provider, what is charged a claim on the consumer (the
// tenant where there is none) and revenue from it. There is one line per
// account, subject and currency, and the lines of each currency sum to nothing.
func journal(rows []*row) []line {
	type pair struct{ debit, credit, debitSubject, creditSubject, currency string }
	sums := map[pair][]money.Amount{}
	add := func(p pair, nano money.Amount) {
		if nano == 0 {
			return
		}
		parts := sums[p]
		if n := len(parts); n > 0 {
			if sum, err := parts[n-1].Add(nano); err == nil {
				parts[n-1] = sum
				return
			}
		}
		sums[p] = append(parts, nano) // more than one amount can hold: another line
	}
	for _, r := range rows {
		tenant, consumer := r.ev.GetTenantId(), r.ev.GetConsumerId()
		add(pair{accountCost, accountPayable, tenant, r.ev.GetProviderId(), r.rating.Cost.Currency}, r.rating.Cost.Nano)
		add(pair{accountReceivable, accountRevenue, cmp.Or(consumer, tenant), tenant, r.rating.Price.Currency}, r.rating.Price.Nano)
	}
	var lines []line
	for p, parts := range sums {
		for _, nano := range parts {
			if nano != 0 {
				lines = append(lines, line{p.debit, p.debitSubject, p.currency, nano}, line{p.credit, p.creditSubject, p.currency, -nano})
			}
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.subject, b.subject), cmp.Compare(a.currency, b.currency), cmp.Compare(a.amount, b.amount))
	})
	return lines
}

// write stores the batch, its journal and the watermark.
func (b *batch) write(ctx context.Context, tx pgx.Tx) error {
	sortRows(b.rows)
	cost, price := b.sums()
	sum := b.chain()
	_, err := tx.Exec(ctx, `INSERT INTO ingest_batch (id, node_id, boot_id, first_seq, last_seq, rows, sum_cost, sum_price, prev_hash, hash, folded)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		b.id, b.node, b.boot, int64(b.first), int64(b.last), len(b.rows), cost, price, b.prev, sum, b.folded)
	if err != nil {
		return fmt.Errorf("store the batch: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE ingest_watermark SET last_seq = greatest(last_seq, $3), last_hash = $4, updated_at = clock_timestamp()
		WHERE node_id = $1 AND boot_id = $2`, b.node, b.boot, int64(b.last), sum)
	if err != nil {
		return fmt.Errorf("move the watermark: %w", err)
	}
	lines := journal(b.rows)
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"journal"}, []string{"batch_id", "account", "subject", "currency", "amount_nano"},
		pgx.CopyFromSlice(len(lines), func(i int) ([]any, error) {
			l := lines[i]
			return []any{b.id, l.account, l.subject, l.currency, int64(l.amount)}, nil
		}))
	if err != nil {
		return fmt.Errorf("store the journal: %w", err)
	}
	return nil
}

// watermark locks the place of (node, boot), so that their batches follow one
// another, and returns up to where it reaches and the hash of the last batch.
func watermark(ctx context.Context, tx pgx.Tx, node, boot string) (last uint64, hash []byte, err error) {
	_, err = tx.Exec(ctx, "INSERT INTO ingest_watermark (node_id, boot_id, last_seq) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", node, boot)
	if err != nil {
		return 0, nil, fmt.Errorf("open the watermark: %w", err)
	}
	var seq int64
	err = tx.QueryRow(ctx, "SELECT last_seq, last_hash FROM ingest_watermark WHERE node_id = $1 AND boot_id = $2 FOR UPDATE", node, boot).Scan(&seq, &hash)
	if err != nil {
		return 0, nil, fmt.Errorf("lock the watermark: %w", err)
	}
	return uint64(seq), hash, nil
}

// VerifyChain reads the batches of one start of a node and recomputes their
// sums and hashes from the rows that are there. It returns how many batches it
// found sound, and an error that names the first that is not.
func (l *Ledger) VerifyChain(ctx context.Context, node, boot string) (int, error) {
	type stored struct {
		batch
		rows        int
		cost, price int64
		hash        []byte
	}
	found, err := l.pool.Query(ctx, `SELECT id, first_seq, last_seq, folded, rows, sum_cost, sum_price, prev_hash, hash
		FROM ingest_batch WHERE node_id = $1 AND boot_id = $2`, node, boot)
	if err != nil {
		return 0, fmt.Errorf("read batches: %w", err)
	}
	byPrev := map[string]*stored{}
	total := 0
	batches, err := pgx.CollectRows(found, func(from pgx.CollectableRow) (*stored, error) {
		s := &stored{batch: batch{node: node, boot: boot}}
		var first, last int64
		err := from.Scan(&s.id, &first, &last, &s.folded, &s.rows, &s.cost, &s.price, &s.prev, &s.hash)
		s.first, s.last = uint64(first), uint64(last)
		return s, err
	})
	if err != nil {
		return 0, fmt.Errorf("read batches: %w", err)
	}
	for _, s := range batches {
		if other := byPrev[string(s.prev)]; other != nil {
			return 0, fmt.Errorf("batches %s and %s both follow the same one", other.id, s.id)
		}
		byPrev[string(s.prev)] = s
		total++
	}
	sound := 0
	for prev := ""; ; sound++ {
		s := byPrev[prev]
		if s == nil {
			break
		}
		rows, err := l.rowsOf(ctx, s.id)
		if err != nil {
			return sound, err
		}
		s.batch.rows = rows
		sortRows(rows)
		if cost, price := s.sums(); len(rows) != s.rows || cost != s.cost || price != s.price {
			return sound, fmt.Errorf("batch %s says %d rows, cost %d, price %d; its rows are %d, %d, %d", s.id, s.rows, s.cost, s.price, len(rows), cost, price)
		}
		if string(s.chain()) != string(s.hash) {
			return sound, fmt.Errorf("batch %s: its hash is not that of its rows and the batch before it", s.id)
		}
		prev = string(s.hash)
	}
	if sound != total {
		return sound, fmt.Errorf("the chain of %s, %s breaks after %d of %d batches", node, boot, sound, total)
	}
	return sound, nil
}

func (l *Ledger) rowsOf(ctx context.Context, batchID string) ([]*row, error) {
	found, err := l.pool.Query(ctx, "SELECT "+l.schema.list+" FROM usage_ledger WHERE batch_id = $1", batchID)
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s: %w", batchID, err)
	}
	rows, err := pgx.CollectRows(found, l.schema.scan)
	if err != nil {
		return nil, fmt.Errorf("read the rows of batch %s: %w", batchID, err)
	}
	return rows, nil
}

// kindName is the metric's word for a kind.
func kindName(k ledgerv1.EntryKind) string {
	switch k {
	case ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT:
		return "settlement"
	case ledgerv1.EntryKind_ENTRY_KIND_HOLD:
		return "hold"
	case ledgerv1.EntryKind_ENTRY_KIND_HOLD_RELEASE:
		return "hold_release"
	case ledgerv1.EntryKind_ENTRY_KIND_FOLDED:
		return "folded"
	case ledgerv1.EntryKind_ENTRY_KIND_REVERSAL:
		return "reversal"
	}
	return "other"
}
