package ledger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrPageToken says that a page token is not one that ListEntries returned.
var ErrPageToken = errors.New("malformed page token")

// Filter selects ledger rows. An empty field selects all.
type Filter struct {
	Tenant, Consumer, RequestID string
	// From and To bound when the attempt ended: from From, before To.
	From, To time.Time
}

// Page is a place in a list.
type Page struct {
	// Size is how many rows to return, at most 1000. Default 100.
	Size int
	// Token is what the page before returned; empty for the first.
	Token string
}

const (
	defaultPage = 100
	largestPage = 1000
	longestWork = 48 * time.Hour // between the id of a request and the end of an attempt
)

// place is the key of the last row of a page. The day is that of the request.
type place struct {
	Request string `json:"r"`
	Attempt int32  `json:"a"`
	Kind    int32  `json:"k"`
	Seq     int32  `json:"s"`
}

// ListEntries returns ledger rows, newest request first, and the token of the
// next page, empty at the end. Rows that are written meanwhile neither repeat
// nor hide any other. It fails with ErrPageToken if the token is not sound.
func (l *Ledger) ListEntries(ctx context.Context, f Filter, p Page) (entries []*adminv1.LedgerEntry, next string, err error) {
	size := min(p.Size, largestPage)
	if size <= 0 {
		size = defaultPage
	}
	where, args := f.conditions()
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, condition)
	}
	if p.Token != "" {
		at, day, err := readToken(p.Token)
		if err != nil {
			return nil, "", err
		}
		add("(ledger_day, request_id, attempt, kind, seq) < (?, ?, ?, ?, ?)", day, at.Request, at.Attempt, at.Kind, at.Seq)
		add("ledger_day <= ?", day) // implied, and tells the planner which partitions are done
	}
	query := "SELECT " + l.schema.list + " FROM usage_ledger"
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	query += fmt.Sprintf(" ORDER BY ledger_day DESC, request_id DESC, attempt DESC, kind DESC, seq DESC LIMIT %d", size+1)
	found, err := l.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, "", fmt.Errorf("list ledger entries: %w", err)
	}
	rows, err := pgx.CollectRows(found, l.schema.scan)
	if err != nil {
		return nil, "", fmt.Errorf("list ledger entries: %w", err)
	}
	if len(rows) > size {
		rows = rows[:size]
		last := rows[size-1]
		next = writeToken(place{last.ev.GetRequestId(), last.ev.GetAttempt(), int32(last.kind), last.seq})
	}
	for _, r := range rows {
		entries = append(entries, r.entry())
	}
	return entries, next, nil
}

func (f Filter) conditions() (where []string, args []any) {
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(condition, len(args)))
	}
	if f.Tenant != "" {
		add("tenant = $%d", f.Tenant)
	}
	if f.Consumer != "" {
		add("consumer = $%d", f.Consumer)
	}
	if f.RequestID != "" {
		add("request_id = $%d", f.RequestID)
		if made, err := ident.Time(f.RequestID); err == nil {
			add("ledger_day = $%d", made.Truncate(24*time.Hour))
		}
	}
	// The bounds of the day are implied and spare partitions.
	if !f.From.IsZero() {
		add("occurred_at >= $%d", f.From)
		add("ledger_day >= $%d", f.From.Add(-longestWork).UTC().Truncate(24*time.Hour))
	}
	if !f.To.IsZero() {
		add("occurred_at < $%d", f.To)
		add("ledger_day <= $%d", f.To.Add(longestWork).UTC().Truncate(24*time.Hour))
	}
	return where, args
}

func writeToken(p place) string {
	b, err := json.Marshal(p)
	if err != nil { // strings and integers always marshal
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func readToken(token string) (place, time.Time, error) {
	var p place
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, time.Time{}, fmt.Errorf("%w: use the one of the page before, unchanged", ErrPageToken)
	}
	made, err := ident.Time(p.Request)
	if err != nil {
		return p, time.Time{}, fmt.Errorf("%w: use the one of the page before, unchanged", ErrPageToken)
	}
	return p, made.Truncate(24 * time.Hour), nil
}

// entry returns the row as the admin API shows it.
func (r *row) entry() *adminv1.LedgerEntry {
	return &adminv1.LedgerEntry{
		EntryId: r.entryID, Event: r.ev, ModelBilled: r.rating.ModelBilled(),
		CostVersion: r.rating.Cost.Version, CostNanos: int64(r.rating.Cost.Nano), CostCurrency: r.rating.Cost.Currency,
		PriceVersion: r.rating.Price.Version, PriceNanos: int64(r.rating.Price.Nano), PriceCurrency: r.rating.Price.Currency,
		Unpriced:   r.rating.Cost.Unpriced != Priced || r.rating.Price.Unpriced != Priced,
		RecordedAt: timestamppb.New(r.recorded), RefEntryId: r.refID,
	}
}

// Sum is what the rows of one pair of currencies add up to.
type Sum struct {
	CostCurrency, PriceCurrency string
	Rows, Unpriced              int64
	Cost, Price                 money.Amount
	Input, Output               int64
}

// SumByCurrency adds up the rows that f selects, holds and what takes them back
// included: they move no money. The result is ordered by currencies. A sum that
// does not fit an amount is an error.
func (l *Ledger) SumByCurrency(ctx context.Context, f Filter) ([]Sum, error) {
	where, args := f.conditions()
	query := `SELECT cost_currency, price_currency, count(*), count(*) FILTER (WHERE cost_nano IS NULL OR price_nano IS NULL),
		coalesce(sum(cost_nano), 0)::bigint, coalesce(sum(price_nano), 0)::bigint, sum(input)::bigint, sum(output)::bigint FROM usage_ledger`
	if len(where) > 0 {
		query += " WHERE " + strings.Join(where, " AND ")
	}
	found, err := l.pool.Query(ctx, query+" GROUP BY 1, 2 ORDER BY 1, 2", args...)
	if err != nil {
		return nil, fmt.Errorf("sum ledger entries: %w", err)
	}
	sums, err := pgx.CollectRows(found, func(from pgx.CollectableRow) (Sum, error) {
		var s Sum
		err := from.Scan(&s.CostCurrency, &s.PriceCurrency, &s.Rows, &s.Unpriced, &s.Cost, &s.Price, &s.Input, &s.Output)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("sum ledger entries: %w", err)
	}
	return sums, nil
}
