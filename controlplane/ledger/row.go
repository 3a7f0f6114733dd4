package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// row is one line of usage_ledger. What the event says of units, kind, seq and
// price versions is superseded by the fields beside it.
type row struct {
	ev *ledgerv1.UsageEvent

	day      time.Time // UTC midnight
	kind     ledgerv1.EntryKind
	seq      int32
	entryID  string
	refID    string // the row this one corrects or closes; "" for none
	batchID  string
	units    money.Units // negative where the row takes back another
	rating   Rating
	saved    money.Amount
	recorded time.Time
}

// newRow lays an event out as a row; owed is what the provider is owed for.
func newRow(ev *ledgerv1.UsageEvent, owed money.Units, rating Rating, now time.Time) (*row, error) {
	made, err := ident.Time(ev.GetRequestId())
	if err != nil {
		return nil, fmt.Errorf("ledger day: %w", err)
	}
	return &row{
		ev: ev, day: made.Truncate(24 * time.Hour), kind: ev.GetKind(), seq: ev.GetSeq(),
		entryID: ident.New(ident.LedgerEntry), units: owed, rating: rating, recorded: micros(now),
	}, nil
}

// micros cuts a time to what PostgreSQL keeps, so that a row reads back as it
// was written.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// occurred is when the attempt ended, or the closest to it that is known.
func (r *row) occurred() time.Time {
	if ts := r.ev.GetOccurredAt(); ts != nil {
		return micros(ts.AsTime())
	}
	if ts := r.ev.GetAcceptedAt(); ts != nil {
		return micros(ts.AsTime())
	}
	made, _ := ident.Time(r.ev.GetRequestId()) // checked before the row was made
	return made
}

// negated returns the row that takes r back.
func (r *row) negated(kind ledgerv1.EntryKind, seq int32, now time.Time) *row {
	out := *r
	out.kind, out.seq = kind, seq
	out.entryID, out.refID, out.batchID = ident.New(ident.LedgerEntry), r.entryID, ""
	for c := range out.units {
		out.units[c] = -out.units[c]
	}
	out.rating.Cost.Nano, out.rating.Price.Nano, out.saved = -r.rating.Cost.Nano, -r.rating.Price.Nano, -r.saved
	out.recorded = micros(now)
	return &out
}

// column carries one column of usage_ledger to and from a row.
type column struct {
	name  string
	value func(*row) any
	// dest returns where a scan puts the value, and what then sets the row.
	dest func(*row) (any, func())
}

// text makes a column of a string that the row holds.
func text(name string, at func(*row) *string) column {
	return column{name, func(r *row) any { return *at(r) }, func(r *row) (any, func()) { return at(r), nil }}
}

// optional makes a column that is null for the empty string.
func optional(name string, at func(*row) *string) column {
	return column{
		name,
		func(r *row) any {
			if s := *at(r); s != "" {
				return s
			}
			return nil
		},
		func(r *row) (any, func()) {
			var s *string
			return &s, func() {
				if s != nil {
					*at(r) = *s
				}
			}
		},
	}
}

// number makes a column of any kind of integer.
func number[T ~int32 | ~int64 | ~uint64](name string, at func(*row) *T) column {
	return column{
		name,
		func(r *row) any { return int64(*at(r)) },
		func(r *row) (any, func()) {
			var n int64
			return &n, func() { *at(r) = T(n) }
		},
	}
}

// amount makes the column of one side's amount, which is null if unpriced.
func amount(name string, at func(*row) *Charge) column {
	return column{
		name,
		func(r *row) any {
			if c := at(r); c.Unpriced == Priced {
				return int64(c.Nano)
			}
			return nil
		},
		func(r *row) (any, func()) {
			var n *int64
			return &n, func() {
				if n == nil {
					at(r).Unpriced = NoVersion // the row does not keep which
					return
				}
				at(r).Nano = money.Amount(*n)
			}
		},
	}
}

// columns lists usage_ledger, the key first.
func columns() []column {
	out := []column{
		{"ledger_day", func(r *row) any { return r.day }, func(r *row) (any, func()) { return &r.day, nil }},
		text("request_id", func(r *row) *string { return &r.ev.RequestId }),
		number("attempt", func(r *row) *int32 { return &r.ev.Attempt }),
		number("kind", func(r *row) *ledgerv1.EntryKind { return &r.kind }),
		number("seq", func(r *row) *int32 { return &r.seq }),
		text("entry_id", func(r *row) *string { return &r.entryID }),
		optional("ref_entry_id", func(r *row) *string { return &r.refID }),
		optional("batch_id", func(r *row) *string { return &r.batchID }),
		text("tenant", func(r *row) *string { return &r.ev.TenantId }),
		text("project", func(r *row) *string { return &r.ev.ProjectId }),
		text("consumer", func(r *row) *string { return &r.ev.ConsumerId }),
		text("api_key", func(r *row) *string { return &r.ev.ApiKeyId }),
		{"end_user_hmac", func(r *row) any { return r.ev.EndUserHmac }, func(r *row) (any, func()) { return &r.ev.EndUserHmac, nil }},
		{"labels", func(r *row) any { return pairs(r.ev.GetLabels()) }, func(r *row) (any, func()) {
			var list []string
			return &list, func() { r.ev.Labels = labelsOf(list) }
		}},
		text("parent_request_id", func(r *row) *string { return &r.ev.ParentRequestId }),
		text("decision_id", func(r *row) *string { return &r.ev.DecisionId }),
		text("route", func(r *row) *string { return &r.ev.RouteId }),
		text("provider", func(r *row) *string { return &r.ev.ProviderId }),
		text("upstream", func(r *row) *string { return &r.ev.UpstreamId }),
		text("credential", func(r *row) *string { return &r.ev.CredentialId }),
		text("region", func(r *row) *string { return &r.ev.Region }),
		text("model_requested", func(r *row) *string { return &r.ev.ModelRequested }),
		text("model_routed", func(r *row) *string { return &r.ev.ModelRouted }),
		text("model_served", func(r *row) *string { return &r.ev.ModelServed }),
		{"model_billed", func(r *row) any { return r.rating.ModelBilled() }, func(r *row) (any, func()) { return &r.rating.Price.Model, nil }},
		text("service_tier", func(r *row) *string { return &r.ev.ServiceTier }),
		text("class", func(r *row) *string { return &r.ev.Class }),
		number("purpose", func(r *row) *ledgerv1.Purpose { return &r.ev.Purpose }),
		number("policy_generation", func(r *row) *uint64 { return &r.ev.PolicyGeneration }),
		number("identity_generation", func(r *row) *uint64 { return &r.ev.IdentityGeneration }),
		number("usage_source", func(r *row) *ledgerv1.UsageSource { return &r.ev.UsageSource }),
		number("outcome", func(r *row) *ledgerv1.AttemptOutcome { return &r.ev.Outcome }),
		text("error_class", func(r *row) *string { return &r.ev.ErrorClass }),
		number("upstream_status", func(r *row) *int32 { return &r.ev.UpstreamStatus }),
		text("protocol", func(r *row) *string { return &r.ev.Protocol }),
		{"stream", func(r *row) any { return r.ev.Stream }, func(r *row) (any, func()) { return &r.ev.Stream, nil }},
		text("provider_request_id", func(r *row) *string { return &r.ev.ProviderRequestId }),
		text("price_book", func(r *row) *string { return &r.ev.PriceBook }),
		number("price_mult_num", func(r *row) *int64 { return &r.ev.PriceMultiplierNum }),
		number("price_mult_den", func(r *row) *int64 { return &r.ev.PriceMultiplierDen }),
		{"charged_units", chargedUnits, func(r *row) (any, func()) {
			var b []byte
			return &b, func() { r.ev.ChargedUnits = readUnits(b) }
		}},
		text("cost_version", func(r *row) *string { return &r.rating.Cost.Version }),
		amount("cost_nano", func(r *row) *Charge { return &r.rating.Cost }),
		text("cost_currency", func(r *row) *string { return &r.rating.Cost.Currency }),
		text("price_version", func(r *row) *string { return &r.rating.Price.Version }),
		amount("price_nano", func(r *row) *Charge { return &r.rating.Price }),
		text("price_currency", func(r *row) *string { return &r.rating.Price.Currency }),
		number("saved_nano", func(r *row) *money.Amount { return &r.saved }),
		{"accepted_at", func(r *row) any {
			if ts := r.ev.GetAcceptedAt(); ts != nil {
				return micros(ts.AsTime())
			}
			return nil
		}, func(r *row) (any, func()) {
			var at *time.Time
			return &at, func() {
				if at != nil {
					r.ev.AcceptedAt = timestamppb.New(*at)
				}
			}
		}},
		{"occurred_at", func(r *row) any { return r.occurred() }, func(r *row) (any, func()) {
			var at time.Time
			return &at, func() { r.ev.OccurredAt = timestamppb.New(at) }
		}},
		{"recorded_at", func(r *row) any { return r.recorded }, func(r *row) (any, func()) { return &r.recorded, nil }},
	}
	for c := range money.Component(money.NumComponents) {
		out = append(out, number(c.String(), func(r *row) *int64 { return &r.units[c] }))
	}
	return out
}

// schema is the columns with what is derived from them once.
type schema struct {
	columns []column
	names   []string
	list    string // the names, with commas
}

func newSchema() *schema {
	s := &schema{columns: columns()}
	for _, c := range s.columns {
		s.names = append(s.names, c.name)
	}
	s.list = strings.Join(s.names, ", ")
	return s
}

func (s *schema) values(r *row) []any {
	out := make([]any, len(s.columns))
	for i, c := range s.columns {
		out[i] = c.value(r)
	}
	return out
}

// scan reads a row whose columns are those of list.
func (s *schema) scan(from pgx.CollectableRow) (*row, error) {
	r := &row{ev: &ledgerv1.UsageEvent{}}
	dests, sets := make([]any, len(s.columns)), make([]func(), len(s.columns))
	for i, c := range s.columns {
		dests[i], sets[i] = c.dest(r)
	}
	if err := from.Scan(dests...); err != nil {
		return nil, err
	}
	for _, set := range sets {
		if set != nil {
			set()
		}
	}
	r.ev.Kind, r.ev.Seq, r.ev.Units = r.kind, r.seq, unitsMessage(r.units)
	r.recorded, r.day = r.recorded.UTC(), r.day.UTC()
	return r, nil
}

func chargedUnits(r *row) any {
	u := r.ev.GetChargedUnits()
	if u == nil {
		return nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(u)
	if err != nil { // integers always marshal
		return nil
	}
	if b == nil {
		b = []byte{} // present and all zero
	}
	return b
}

func readUnits(b []byte) *ledgerv1.Units {
	if b == nil {
		return nil
	}
	u := &ledgerv1.Units{}
	if err := proto.Unmarshal(b, u); err != nil {
		return nil
	}
	return u
}

func pairs(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return out
}

func labelsOf(pairs []string) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	out := make(map[string]string, len(pairs))
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		out[k] = v
	}
	return out
}
