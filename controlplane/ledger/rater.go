package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
	"github.com/aidy-gateway/aidy-gateway/shared/money"
)

// Reason says why a side of a row has no price.
type Reason string

// The reasons.
const (
	// Priced: the side has its price, or nothing was used.
	Priced Reason = ""
	// NoVersion: no published version covers the model at that time.
	NoVersion Reason = "no_version"
	// PinnedUnknown: the attempt pinned a version that is not published. It is
	// not replaced by another one: the customer was promised the pinned price.
	PinnedUnknown Reason = "pinned_unknown"
	// NoComponent: the version has no price for something that was used.
	NoComponent Reason = "no_component"
	// BadVersion: the version cannot be rated with.
	BadVersion Reason = "bad_version"
)

// Charge is one side of a rated row.
type Charge struct {
	// Nano is the amount; 0 unless Unpriced is Priced.
	Nano money.Amount
	// Currency and Version are of the price version that was found. Both are
	// empty where nothing was used.
	Currency, Version string
	// Model is the name the version stands under: a model, or a family that
	// ends in *.
	Model    string
	Unpriced Reason
}

// Rating is both sides of a row.
type Rating struct {
	Cost, Price Charge
}

// ModelBilled is the name the price was found under: the customer's, else the
// cost's.
func (r Rating) ModelBilled() string {
	if r.Price.Model != "" {
		return r.Price.Model
	}
	return r.Cost.Model
}

// Rater finds prices and rates usage. Safe for concurrent use.
type Rater struct {
	catalog *Catalog
}

// NewRater returns a rater over the catalogue.
func NewRater(catalog *Catalog) *Rater { return &Rater{catalog: catalog} }

// Rate returns what an event costs and what its customer pays.
//
// The cost is looked up by the model served and, where that is empty or a dated
// variant of the model routed to, by the latter too; the price by the model the
// client asked for. A version the attempt pinned is used as it is; otherwise
// the version that held when the request was accepted. The customer's price is
// multiplied by the group's factor. A side without a price comes back with a
// reason, never as a silent 0.
//
// An attempt that was not sent or was refused before output is owed and charged
// nothing, and a hold moves no money. An answer from the response cache, and a
// call the gateway made on its own account (guard, shadow, probe), is charged
// only for charged_units.
//
// The error is money.ErrInvalid or money.ErrOverflow if the event itself cannot
// be rated, ever; any other error means that prices could not be read.
func (r *Rater) Rate(ctx context.Context, ev *ledgerv1.UsageEvent) (Rating, error) {
	owed, charged := dueUnits(ev)
	return r.rate(ctx, ev, owed, charged)
}

func (r *Rater) rate(ctx context.Context, ev *ledgerv1.UsageEvent, owed, charged money.Units) (Rating, error) {
	at, err := acceptedAt(ev)
	if err != nil {
		return Rating{}, fmt.Errorf("rate: %w", err)
	}
	factor := money.Rational{Num: ev.GetPriceMultiplierNum(), Den: ev.GetPriceMultiplierDen()}
	if !factor.Valid() {
		return Rating{}, fmt.Errorf("rate: price multiplier %d/%d: %w: want 0 or more over 1 or more", factor.Num, factor.Den, money.ErrInvalid)
	}
	asked := scope{ev.GetProviderId(), ev.GetRegion(), ev.GetServiceTier()}
	var out Rating
	out.Cost, err = r.charge(ctx, ev.GetCostVersion(), owed, money.One, query{
		side: CostSide, tenant: ev.GetTenantId(), names: costNames(ev.GetModelServed(), ev.GetModelRouted()), scope: asked, at: at,
		generation: ev.GetPolicyGeneration(),
	})
	if err != nil {
		return Rating{}, err
	}
	out.Price, err = r.charge(ctx, ev.GetPriceVersion(), charged, factor, query{
		side: PriceSide, tenant: ev.GetTenantId(), book: ev.GetPriceBook(), names: []string{ev.GetModelRequested()}, scope: asked, at: at,
		generation: ev.GetPolicyGeneration(),
	})
	if err != nil {
		return Rating{}, err
	}
	return out, nil
}

func (r *Rater) charge(ctx context.Context, pinned string, units money.Units, factor money.Rational, q query) (Charge, error) {
	for c, n := range units {
		if n < 0 {
			return Charge{}, fmt.Errorf("rate %s: %d units of %s: %w: want 0 or more", q.side, n, money.Component(c), money.ErrInvalid)
		}
	}
	if units == (money.Units{}) {
		return Charge{}, nil
	}
	v, reason, err := r.version(ctx, pinned, q)
	if err != nil {
		return Charge{}, fmt.Errorf("rate %s: %w", q.side, err)
	}
	if v == nil {
		return Charge{Unpriced: reason}, nil
	}
	out := Charge{Currency: v.currency, Version: v.id, Model: v.model}
	if v.problem != nil {
		return Charge{Version: v.id, Model: v.model, Unpriced: BadVersion}, nil
	}
	out.Nano, err = money.Price(v.items, units, factor)
	switch {
	case errors.Is(err, money.ErrUnpriced):
		return Charge{Currency: v.currency, Version: v.id, Model: v.model, Unpriced: NoComponent}, nil
	case err != nil:
		return Charge{}, fmt.Errorf("rate %s by version %s: %w", q.side, v.id, err)
	}
	return out, nil
}

func (r *Rater) version(ctx context.Context, pinned string, q query) (*version, Reason, error) {
	if pinned == "" {
		x, err := r.catalog.indexAt(ctx, q.generation)
		if err != nil {
			return nil, Priced, err
		}
		return x.find(q), NoVersion, nil
	}
	x, err := r.catalog.indexWith(ctx, q.side, pinned)
	if err != nil {
		return nil, Priced, err
	}
	return x.byID[q.side][pinned], PinnedUnknown, nil
}

// dueUnits returns what the provider is owed for and what the customer is
// charged for, by outcome and purpose.
func dueUnits(ev *ledgerv1.UsageEvent) (owed, charged money.Units) {
	if isHold(ev) {
		return money.Units{}, money.Units{}
	}
	switch ev.GetOutcome() {
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_NOT_SENT, ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED_UPSTREAM:
		return money.Units{}, money.Units{}
	case ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CACHE_HIT:
		return money.Units{}, unitsOf(ev.GetChargedUnits())
	}
	owed = unitsOf(ev.GetUnits())
	switch {
	case ev.GetChargedUnits() != nil:
		charged = unitsOf(ev.GetChargedUnits())
	case !onOwnAccount(ev.GetPurpose()):
		charged = owed
	}
	return owed, charged
}

// isHold reports whether the event is an attempt of unknown outcome: a node
// that found an unfinished attempt in its log may say so by kind or by outcome.
func isHold(ev *ledgerv1.UsageEvent) bool {
	return ev.GetKind() == ledgerv1.EntryKind_ENTRY_KIND_HOLD ||
		ev.GetKind() == ledgerv1.EntryKind_ENTRY_KIND_SETTLEMENT && ev.GetOutcome() == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN
}

func onOwnAccount(p ledgerv1.Purpose) bool {
	return p == ledgerv1.Purpose_PURPOSE_GUARD || p == ledgerv1.Purpose_PURPOSE_SHADOW || p == ledgerv1.Purpose_PURPOSE_PROBE
}

// unitsOf returns the counts of a message in the order of money's components.
func unitsOf(u *ledgerv1.Units) money.Units {
	return money.Units{
		money.Input: u.GetInput(), money.CacheRead: u.GetCacheRead(),
		money.CacheWrite5m: u.GetCacheWrite_5M(), money.CacheWrite1h: u.GetCacheWrite_1H(),
		money.Output: u.GetOutput(), money.Reasoning: u.GetReasoning(),
		money.AudioIn: u.GetAudioIn(), money.AudioOut: u.GetAudioOut(),
		money.ImageIn: u.GetImageIn(), money.ImageOut: u.GetImageOut(), money.ImageUnit: u.GetImageUnit(),
		money.AudioSecond: u.GetAudioSecond(), money.VideoSecond: u.GetVideoSecond(),
		money.WebSearch: u.GetWebSearch(), money.Request: u.GetRequest(),
	}
}

// unitsMessage is the inverse of unitsOf.
func unitsMessage(u money.Units) *ledgerv1.Units {
	return &ledgerv1.Units{
		Input: u[money.Input], CacheRead: u[money.CacheRead],
		CacheWrite_5M: u[money.CacheWrite5m], CacheWrite_1H: u[money.CacheWrite1h],
		Output: u[money.Output], Reasoning: u[money.Reasoning],
		AudioIn: u[money.AudioIn], AudioOut: u[money.AudioOut],
		ImageIn: u[money.ImageIn], ImageOut: u[money.ImageOut], ImageUnit: u[money.ImageUnit],
		AudioSecond: u[money.AudioSecond], VideoSecond: u[money.VideoSecond],
		WebSearch: u[money.WebSearch], Request: u[money.Request],
	}
}

// acceptedAt is the time prices are looked up by: when the request was
// accepted, which its id carries too.
func acceptedAt(ev *ledgerv1.UsageEvent) (time.Time, error) {
	if ts := ev.GetAcceptedAt(); ts != nil {
		if err := ts.CheckValid(); err != nil {
			return time.Time{}, fmt.Errorf("accepted_at: %w: %w", money.ErrInvalid, err)
		}
		return ts.AsTime(), nil
	}
	at, err := ident.Time(ev.GetRequestId())
	if err != nil {
		return time.Time{}, fmt.Errorf("request_id: %w: %w", money.ErrInvalid, err)
	}
	return at, nil
}

// costNames lists the names under which a cost may be found, best first.
func costNames(served, routed string) []string {
	switch {
	case served == "":
		return []string{routed}
	case routed != "" && served != routed && isDatedVariant(served, routed):
		return []string{served, routed}
	}
	return []string{served}
}

// datedSuffix is what providers append to a model for one release of it:
// -2024-08-06, -20241022, @20241022, -05-20, -0613, -2407, -001.
var datedSuffix = regexp.MustCompile(`^[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{2}-\d{2}|\d{2}-\d{4}|\d{3,4})$`)

// isDatedVariant reports whether served is a dated release of routed. A routed
// name that ends in -latest stands for its releases.
func isDatedVariant(served, routed string) bool {
	suffix, ok := strings.CutPrefix(served, strings.TrimSuffix(routed, "-latest"))
	return ok && datedSuffix.MatchString(suffix)
}
