// Package requestlog keeps one row a request, without its content: it takes the rows of
// nodes, finds them again, and drops them a day at a time. It has a pool of its own,
// maybe to a database of its own, so that nothing it does slows the configuration or the
// ledger.
package requestlog

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Config tunes a Store. A zero field takes the default it documents.
type Config struct {
	// Keep is how many days rows are kept. Default 30.
	Keep int
	// Timeout bounds every statement. Default 3 s.
	Timeout time.Duration
}

// The errors that callers tell apart.
var (
	ErrNotFound  = errors.New("no such request is in the log")
	ErrPageToken = errors.New("not a token of an earlier page")
)

// Store is the request log. Safe for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	cfg  Config
	log  zerolog.Logger
}

// New returns a Store over a pool whose database has the schema of this release. It does
// no I/O.
func New(pool *pgxpool.Pool, cfg Config, log zerolog.Logger) (*Store, error) {
	if pool == nil {
		return nil, errors.New("a request log needs a database")
	}
	if cfg.Keep <= 0 {
		cfg.Keep = 30
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 3 * time.Second
	}
	return &Store{pool: pool, cfg: cfg, log: log.With().Str("component", "request_log").Logger()}, nil
}

// Maintain makes partitions ahead and drops those past their time.
func (s *Store) Maintain(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "SELECT aidy_ensure_request_log(clock_timestamp())"); err != nil {
		return fmt.Errorf("make partitions of the request log: %w", err)
	}
	rows, err := s.pool.Query(ctx, "SELECT aidy_drop_request_log(clock_timestamp(), $1)", s.cfg.Keep)
	if err != nil {
		return fmt.Errorf("drop partitions of the request log: %w", err)
	}
	dropped, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("drop partitions of the request log: %w", err)
	}
	if len(dropped) > 0 {
		s.log.Info().Strs("partitions", dropped).Msg("expired partitions dropped")
	}
	if _, err := s.pool.Exec(ctx, "DELETE FROM request_log_gap WHERE hour < clock_timestamp() - make_interval(days => $1)", s.cfg.Keep); err != nil {
		return fmt.Errorf("forget old gaps of the request log: %w", err)
	}
	return nil
}

var columns = []string{
	"day", "request_id", "start_time", "node_id", "tenant_id", "consumer_id", "api_key_id", "route_id", "operation", "model",
	"model_served", "provider_id", "credential_id", "status", "outcome", "code", "attempts", "duration_us", "first_event_us",
	"input_tokens", "cached_tokens", "output_tokens", "cost_nanos", "count", "decision_id", "record", "decision",
}

// Ingest stores rows of a node, apart from those that are there already, and returns how
// many were new. lost is how many rows the node lost since its last batch. Rows whose
// day has no partition, being too old or from the future, are left out and counted as
// lost.
func (s *Store) Ingest(ctx context.Context, node string, records []*ledgerv1.RequestRecord, lost int64) (inserted int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.cfg.Timeout)
	defer cancel()
	now := time.Now().UTC()
	rows := make([][]any, 0, len(records))
	for _, r := range records {
		row, day, err := rowOf(node, r)
		if err != nil || day.Before(now.Add(-48*time.Hour)) || day.After(now.Add(72*time.Hour)) {
			lost++
			continue
		}
		rows = append(rows, row)
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT aidy_ensure_request_log(clock_timestamp())"); err != nil {
			return err
		}
		if len(rows) > 0 {
			if _, err := tx.Exec(ctx, "CREATE TEMPORARY TABLE request_log_in (LIKE request_log) ON COMMIT DROP"); err != nil {
				return err
			}
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{"request_log_in"}, columns, pgx.CopyFromRows(rows)); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, "INSERT INTO request_log SELECT * FROM request_log_in ON CONFLICT DO NOTHING")
			if err != nil {
				return err
			}
			inserted = tag.RowsAffected()
		}
		if lost > 0 {
			_, err := tx.Exec(ctx, `INSERT INTO request_log_gap (hour, node_id, lost) VALUES (date_trunc('hour', clock_timestamp()), $1, $2)
				ON CONFLICT (hour, node_id) DO UPDATE SET lost = request_log_gap.lost + excluded.lost`, node, lost)
			return err
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("store %d rows of the request log: %w", len(rows), err)
	}
	return inserted, nil
}

// rowOf is a record as a row, and its day.
func rowOf(node string, r *ledgerv1.RequestRecord) ([]any, time.Time, error) {
	at, err := ident.Time(r.GetRequestId())
	if err != nil {
		return nil, at, fmt.Errorf("request %q: %w", r.GetRequestId(), err)
	}
	day := at.UTC().Truncate(24 * time.Hour)
	kept := proto.CloneOf(r)
	kept.DecisionJson = ""
	raw, err := proto.Marshal(kept)
	if err != nil {
		return nil, day, fmt.Errorf("encode request %s: %w", r.GetRequestId(), err)
	}
	var decision *string
	if d := clean(r.GetDecisionJson()); d != "" {
		decision = &d
	}
	u := r.GetUnits()
	input := u.GetInput() + u.GetCacheRead() + u.GetCacheWrite_5M() + u.GetCacheWrite_1H() + u.GetAudioIn() + u.GetImageIn()
	output := u.GetOutput() + u.GetReasoning() + u.GetAudioOut() + u.GetImageOut()
	return []any{
		day, r.GetRequestId(), r.GetStartTime().AsTime(), node, clean(r.GetTenantId()), clean(r.GetConsumerId()), clean(r.GetApiKeyId()),
		clean(r.GetRouteId()), clean(r.GetOperation()), clean(r.GetModelRequested()), clean(r.GetModelServed()), clean(r.GetProviderId()),
		clean(r.GetCredentialId()), r.GetStatus(), clean(r.GetOutcome()), clean(r.GetCode()), int32(len(r.GetUpstreamRequests())),
		r.GetDurationUs(), r.GetFirstEventUs(), input, u.GetCacheRead(), output, r.GetCostNanos(), max(r.GetCount(), 1), clean(r.GetDecisionId()),
		raw, decision,
	}, day, nil
}

// clean takes out what a text of the database cannot hold.
func clean(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "?"), "\x00", "?") }

// Filter chooses among rows. Empty fields ask for nothing.
type Filter struct {
	Tenants                               []string // nil takes all
	Consumer, APIKey, Route, Model        string
	Credential, Outcome, Code, DecisionID string
	MinStatus, MaxStatus                  int32
	MinAttempts                           int32
	MinDuration                           time.Duration
	From, To                              time.Time // from inclusive, to exclusive
}

func (f *Filter) where() (string, []any) {
	terms, args := []string{"true"}, []any{}
	add := func(term string, v any) {
		args = append(args, v)
		terms = append(terms, strings.ReplaceAll(term, "?", "$"+strconv.Itoa(len(args))))
	}
	if f.Tenants != nil {
		add("tenant_id = ANY(?)", f.Tenants)
	}
	for _, equal := range [...]struct{ column, v string }{
		{"consumer_id", f.Consumer},
		{"api_key_id", f.APIKey},
		{"route_id", f.Route},
		{"credential_id", f.Credential},
		{"outcome", f.Outcome},
		{"code", f.Code},
		{"decision_id", f.DecisionID},
	} {
		if equal.v != "" {
			add(equal.column+" = ?", equal.v)
		}
	}
	if f.Model != "" {
		add("(model = ? OR model_served = ?)", f.Model)
	}
	if f.MinStatus > 0 {
		add("status >= ?", f.MinStatus)
	}
	if f.MaxStatus > 0 {
		add("status <= ?", f.MaxStatus)
	}
	if f.MinAttempts > 0 {
		add("attempts >= ?", f.MinAttempts)
	}
	if f.MinDuration > 0 {
		add("duration_us >= ?", f.MinDuration.Microseconds())
	}
	if !f.From.IsZero() {
		add("start_time >= ?", f.From)
		add("day >= ?", f.From.UTC().Add(-slack).Truncate(24*time.Hour))
	}
	if !f.To.IsZero() {
		add("start_time < ?", f.To)
		add("day <= ?", f.To.UTC().Add(slack).Truncate(24*time.Hour))
	}
	return strings.Join(terms, " AND "), args
}

// slack is by how much the time in a request's id may differ from its start.
const slack = time.Minute

const listed = `request_id, start_time, node_id, tenant_id, consumer_id, api_key_id, route_id, operation, model, model_served,
	provider_id, credential_id, status, outcome, code, attempts, duration_us, first_event_us, input_tokens, cached_tokens,
	output_tokens, cost_nanos, count`

// List returns rows, the newest first, and the token of the next page; empty for none.
func (s *Store) List(ctx context.Context, f Filter, size int, token string) ([]*adminv1.RequestLog, string, error) {
	where, args := f.where()
	if token != "" {
		at, id, err := readToken(token)
		if err != nil {
			return nil, "", err
		}
		args = append(args, at, id)
		where += fmt.Sprintf(" AND (start_time, request_id) < ($%d, $%d)", len(args)-1, len(args))
	}
	args = append(args, size+1)
	rows, err := s.pool.Query(ctx, fmt.Sprintf("SELECT %s FROM request_log WHERE %s ORDER BY start_time DESC, request_id DESC LIMIT $%d", listed, where, len(args)), args...)
	if err != nil {
		return nil, "", fmt.Errorf("search the request log: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*adminv1.RequestLog, error) {
		m := new(adminv1.RequestLog)
		return m, scan(row, m)
	})
	if err != nil {
		return nil, "", fmt.Errorf("search the request log: %w", err)
	}
	next := ""
	if len(list) > size {
		list = list[:size]
		last := list[size-1]
		next = writeToken(last.GetCreateTime().AsTime(), last.GetRequestId())
	}
	return list, next, nil
}

func scan(row pgx.Row, m *adminv1.RequestLog, more ...any) error {
	var start time.Time
	var duration, first int64
	err := row.Scan(append([]any{
		&m.RequestId, &start, &m.NodeId, &m.TenantId, &m.ConsumerId, &m.ApiKeyId, &m.RouteId, &m.Operation, &m.Model, &m.ModelServed,
		&m.ProviderId, &m.CredentialId, &m.Status, &m.Outcome, &m.Code, &m.Attempts, &duration, &first, &m.InputTokens, &m.CachedTokens,
		&m.OutputTokens, &m.CostNanos, &m.Count,
	}, more...)...)
	m.CreateTime, m.DurationMs, m.FirstEventMs = timestamppb.New(start), duration/1000, first/1000
	return err
}

// Get returns everything of one request. It fails with ErrNotFound if there is none.
func (s *Store) Get(ctx context.Context, requestID string) (*adminv1.RequestLog, error) {
	at, err := ident.Time(requestID)
	if err != nil {
		return nil, ErrNotFound
	}
	return s.one(ctx, "day = $1 AND request_id = $2", at.UTC().Truncate(24*time.Hour), requestID)
}

// Decided returns the request that a decision was made for. It fails with ErrNotFound if
// there is none.
func (s *Store) Decided(ctx context.Context, decisionID string) (*adminv1.RequestLog, error) {
	at, err := ident.Time(decisionID)
	if err != nil {
		return nil, ErrNotFound
	}
	// A decision is made soon after its request came.
	day := at.UTC().Truncate(24 * time.Hour)
	return s.one(ctx, "day BETWEEN $1 AND $2 AND decision_id = $3", day.AddDate(0, 0, -1), day, decisionID)
}

func (s *Store) one(ctx context.Context, where string, args ...any) (*adminv1.RequestLog, error) {
	m := new(adminv1.RequestLog)
	var raw []byte
	var decision *string
	err := scan(s.pool.QueryRow(ctx, "SELECT "+listed+", record, decision FROM request_log WHERE "+where+" LIMIT 1", args...), m, &raw, &decision)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read the request log: %w", err)
	}
	m.Record = new(ledgerv1.RequestRecord)
	if err := proto.Unmarshal(raw, m.Record); err != nil {
		return nil, fmt.Errorf("decode request %s: %w", m.GetRequestId(), err)
	}
	if decision != nil {
		m.Record.DecisionJson = *decision
	}
	return m, nil
}

// scanned is how many rows a scan reads at a time.
const scanned = 1000

// Scan calls fn for the rows that a filter chooses, the oldest first, until fn fails.
// Decisions are left out. Rows that come in meanwhile may be missing.
func (s *Store) Scan(ctx context.Context, f Filter, fn func(*ledgerv1.RequestRecord) error) error {
	where, args := f.where()
	n := len(args)
	at, id := time.Time{}, ""
	for {
		rows, err := s.pool.Query(ctx, fmt.Sprintf(`SELECT start_time, request_id, record FROM request_log
			WHERE %s AND (start_time, request_id) > ($%d, $%d) ORDER BY start_time, request_id LIMIT %d`, where, n+1, n+2, scanned),
			append(args[:n:n], at, id)...)
		if err != nil {
			return fmt.Errorf("read the request log: %w", err)
		}
		page := make([]*ledgerv1.RequestRecord, 0, scanned)
		var raw []byte
		if _, err = pgx.ForEachRow(rows, []any{&at, &id, &raw}, func() error {
			r := new(ledgerv1.RequestRecord)
			page = append(page, r)
			return proto.Unmarshal(raw, r)
		}); err != nil {
			return fmt.Errorf("read the request log: %w", err)
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
		if len(page) < scanned {
			return nil
		}
	}
}

func writeToken(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + "|" + id))
}

func readToken(token string) (time.Time, string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return time.Time{}, "", ErrPageToken
	}
	micros, id, ok := strings.Cut(string(raw), "|")
	n, err := strconv.ParseInt(micros, 10, 64)
	if !ok || err != nil || n < 0 || strings.ContainsRune(id, 0) {
		return time.Time{}, "", ErrPageToken
	}
	return time.UnixMicro(n), id, nil
}
