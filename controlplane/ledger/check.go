package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Why an event is in quarantine. These are stored and are values of a metric.
const (
	reasonID       = "invalid_id"
	reasonClock    = "clock_off"
	reasonKind     = "invalid_kind"
	reasonField    = "invalid_field"
	reasonUnits    = "invalid_units"
	reasonOverflow = "amount_out_of_range"
	reasonConflict = "conflicts_with_stored_row"
)

// gatewaySeq and above are the seq of rows that the ledger writes beside those
// of a node: the estimated settlement of an unknown attempt, and its reversal.
const gatewaySeq = 1_000_000

// Bounds of what an event may hold, as the contract states them.
const (
	maxID      = 63
	maxModel   = 512
	maxForeign = 256 // a provider's own request id
	maxLabels  = 8
	maxLabel   = 128
	maxHMAC    = 64
)

// refused says that an event cannot be a row, and why.
type refused struct {
	reason string
	err    error
}

func (r *refused) Error() string { return r.reason + ": " + r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

func refuse(reason, format string, args ...any) *refused {
	return &refused{reason, fmt.Errorf(format, args...)}
}

// refusedByRate turns an error of Rate that will not pass into a refusal, and
// returns nil for one that may.
func refusedByRate(err error) *refused {
	switch {
	case errors.Is(err, money.ErrOverflow):
		return &refused{reasonOverflow, err}
	case errors.Is(err, money.ErrInvalid):
		return &refused{reasonUnits, err}
	}
	return nil
}

// checkEvent reports why ev cannot be a ledger row, or nil. Its clock may be
// ahead of now by at most ahead and behind by at most behind.
func checkEvent(ev *ledgerv1.UsageEvent, now time.Time, ahead, behind time.Duration) *refused {
	if !ident.Valid(ident.Request, ev.GetRequestId()) {
		return refuse(reasonID, "request_id %s: want an id that the gateway made, beginning with %s_", shown(ev.GetRequestId()), ident.Request)
	}
	made, err := ident.Time(ev.GetRequestId())
	if err != nil {
		return &refused{reasonID, err}
	}
	if r := checkTime("time of request_id", made, now, ahead, behind); r != nil {
		return r
	}
	for name, ts := range map[string]*timestamppb.Timestamp{"accepted_at": ev.GetAcceptedAt(), "occurred_at": ev.GetOccurredAt()} {
		if ts == nil {
			continue
		}
		if err := ts.CheckValid(); err != nil {
			return refuse(reasonClock, "%s: %w", name, err)
		}
		if r := checkTime(name, ts.AsTime(), now, ahead, behind); r != nil {
			return r
		}
	}
	switch ev.GetKind() {
	case ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT, ledgerv1.EntryKind_ENTRY_KIND_HOLD, ledgerv1.EntryKind_ENTRY_KIND_FOLDED:
	default:
		return refuse(reasonKind, "kind %s: a node writes settlement, hold and folded; the others are the control plane's", ev.GetKind())
	}
	if ev.GetAttempt() < 0 || ev.GetSeq() < 0 || ev.GetSeq() >= gatewaySeq {
		return refuse(reasonField, "attempt %d, seq %d: want 0 or more, seq below %d", ev.GetAttempt(), ev.GetSeq(), gatewaySeq)
	}
	if ev.GetUpstreamStatus() < 0 || ev.GetUpstreamStatus() > 999 {
		return refuse(reasonField, "upstream_status %d: want 0 to 999", ev.GetUpstreamStatus())
	}
	if r := checkEnums(ev); r != nil {
		return r
	}
	if r := checkTexts(ev); r != nil {
		return r
	}
	for _, u := range []*ledgerv1.Units{ev.GetUnits(), ev.GetChargedUnits()} {
		for c, n := range unitsOf(u) {
			if n < 0 {
				return refuse(reasonUnits, "%d units of %s: want 0 or more", n, money.Component(c))
			}
		}
	}
	return nil
}

func checkTime(name string, t, now time.Time, ahead, behind time.Duration) *refused {
	switch {
	case t.After(now.Add(ahead)):
		return refuse(reasonClock, "%s is %s, more than %s ahead of %s", name, t.Format(time.RFC3339), ahead, now.Format(time.RFC3339))
	case t.Before(now.Add(-behind)):
		return refuse(reasonClock, "%s is %s, more than %s behind %s", name, t.Format(time.RFC3339), behind, now.Format(time.RFC3339))
	}
	return nil
}

// checkEnums refuses values that a later release of a node may know: stored by
// this one they could not be read back.
func checkEnums(ev *ledgerv1.UsageEvent) *refused {
	if _, ok := ledgerv1.UsageSource_name[int32(ev.GetUsageSource())]; !ok {
		return refuse(reasonField, "usage_source %d is not known to this release", ev.GetUsageSource())
	}
	if _, ok := ledgerv1.AttemptOutcome_name[int32(ev.GetOutcome())]; !ok {
		return refuse(reasonField, "outcome %d is not known to this release", ev.GetOutcome())
	}
	if _, ok := ledgerv1.Purpose_name[int32(ev.GetPurpose())]; !ok {
		return refuse(reasonField, "purpose %d is not known to this release", ev.GetPurpose())
	}
	return nil
}

func checkTexts(ev *ledgerv1.UsageEvent) *refused {
	for _, f := range [...]struct {
		name, value string
		most        int
	}{
		{"tenant_id", ev.GetTenantId(), maxID},
		{"project_id", ev.GetProjectId(), maxID},
		{"consumer_id", ev.GetConsumerId(), maxID},
		{"api_key_id", ev.GetApiKeyId(), maxID},
		{"parent_request_id", ev.GetParentRequestId(), maxID},
		{"decision_id", ev.GetDecisionId(), maxID},
		{"route_id", ev.GetRouteId(), maxID},
		{"provider_id", ev.GetProviderId(), maxID},
		{"upstream_id", ev.GetUpstreamId(), maxID},
		{"credential_id", ev.GetCredentialId(), maxID},
		{"region", ev.GetRegion(), maxID},
		{"service_tier", ev.GetServiceTier(), maxID},
		{"class", ev.GetClass(), maxID},
		{"error_class", ev.GetErrorClass(), maxID},
		{"cost_version", ev.GetCostVersion(), maxID},
		{"price_version", ev.GetPriceVersion(), maxID},
		{"price_book", ev.GetPriceBook(), maxID},
		{"protocol", ev.GetProtocol(), maxID},
		{"model_requested", ev.GetModelRequested(), maxModel},
		{"model_routed", ev.GetModelRouted(), maxModel},
		{"model_served", ev.GetModelServed(), maxModel},
		{"provider_request_id", ev.GetProviderRequestId(), maxForeign},
	} {
		if r := checkText(f.name, f.value, f.most); r != nil {
			return r
		}
	}
	if len(ev.GetEndUserHmac()) > maxHMAC {
		return refuse(reasonField, "end_user_hmac of %d bytes: want at most %d", len(ev.GetEndUserHmac()), maxHMAC)
	}
	if len(ev.GetLabels()) > maxLabels {
		return refuse(reasonField, "%d labels: want at most %d", len(ev.GetLabels()), maxLabels)
	}
	for k, v := range ev.GetLabels() {
		if r := checkText("label name", k, maxID); r != nil {
			return r
		}
		if strings.Contains(k, "=") {
			return refuse(reasonField, "label name %s holds an equals sign", shown(k))
		}
		if r := checkText("label "+k, v, maxLabel); r != nil {
			return r
		}
	}
	return nil
}

// checkText refuses what PostgreSQL does not take as text, and what the
// contract does not allow.
func checkText(name, value string, most int) *refused {
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return refuse(reasonField, "%s holds a zero byte", name)
	case !utf8.ValidString(value):
		return refuse(reasonField, "%s is not UTF-8", name)
	case utf8.RuneCountInString(value) > most:
		return refuse(reasonField, "%s has %d characters: want at most %d", name, utf8.RuneCountInString(value), most)
	}
	return nil
}

// shown quotes a value for an error, cut to a length that fits a log line.
func shown(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q (cut)", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
