package schedule

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
)

// Reason says why a candidate is not used; empty if it may be.
type Reason string

// The reasons of the hard filters, in the order in which they are checked.
const (
	NotInGroup           Reason = "not_in_group"
	PolicyDenied         Reason = "policy_denied"
	Disabled             Reason = "disabled"
	Expired              Reason = "expired"
	AuthInvalid          Reason = "auth_invalid"
	ModelUnsupported     Reason = "model_unsupported"
	ProtocolIncompatible Reason = "protocol_incompatible"
	CapabilityMissing    Reason = "capability_missing"
	ContextTooLong       Reason = "context_too_long"
	QualityBelow         Reason = "quality_below"
	CredentialType       Reason = "credential_type"
	StateOwnerMismatch   Reason = "state_owner_mismatch"
	CacheStrict          Reason = "cache_strict"
	AlreadyFailed        Reason = "already_failed"
	BreakerOpen          Reason = "breaker_open"
	BreakerProbeBusy     Reason = "breaker_probe_busy"
	BreakerHalfOpen      Reason = "breaker_half_open"
	SlotFull             Reason = "slot_full"

	// SpilloverClosed is of a candidate that passed the filters, and whose priority is
	// not open yet.
	SpilloverClosed Reason = "spillover_closed"

	// doubtBusy is of a candidate that others told to be out, while an attempt is made
	// against their word.
	doubtBusy Reason = "doubt_busy"

	cooldownPrefix = "cooldown_"
	limitPrefix    = "limit_"
)

var limitReasons = func() (out [endOfDims]Reason) {
	for d := range endOfDims {
		out[d] = limitPrefix + Reason(d.String())
	}
	return out
}()

// cooldown is the reason of a cooldown of that kind.
func cooldown(kind string) Reason {
	switch kind {
	case "rate_limit":
		return "cooldown_rate_limit"
	case "server":
		return "cooldown_server"
	case "network":
		return "cooldown_network"
	case "overload":
		return "cooldown_overload"
	}
	return cooldownPrefix + Reason(kind)
}

// static reports a reason that configuration and request alone give.
func (r Reason) static() bool {
	switch r {
	case NotInGroup, PolicyDenied, Disabled, Expired, AuthInvalid, ModelUnsupported, ProtocolIncompatible, CapabilityMissing,
		ContextTooLong, QualityBelow, CredentialType, StateOwnerMismatch, CacheStrict:
		return true
	}
	return false
}

// full reports a reason that a short wait would end.
func (r Reason) full() bool { return r == SlotFull || r.limit() }

func (r Reason) limit() bool { return strings.HasPrefix(string(r), limitPrefix) }

// static checks what configuration and request alone decide.
func static(q *Query, c *plan.Candidate, h *handle, now time.Time) Reason {
	switch {
	case !slices.Contains(q.Groups, c.Upstream.GetGroupId()):
		return NotInGroup
	case c.Denied:
		return PolicyDenied
	case c.Provider == nil || c.Provider.GetDisabled() || c.Upstream.GetDisabled() || c.Model.GetDisabled():
		return Disabled
	}
	if c.Credential != nil {
		secret := q.View.Secret(c.TenantID, c.Credential.GetId())
		switch {
		case c.Credential.GetDisabled() || secret != nil && secret.Disabled:
			return Disabled
		case secret != nil && !secret.Expire.IsZero() && !now.Before(secret.Expire):
			return Expired
		case secret == nil:
			return AuthInvalid
		}
	}
	switch {
	case h.credential.invalidity(q.own, now) != nil:
		return AuthInvalid
	case c.Model == nil:
		return ModelUnsupported
	case c.Capability == nil:
		return ProtocolIncompatible
	case q.Needs.lacking(c) != "":
		return CapabilityMissing
	case c.Model.GetMaxContextTokens() > 0 && q.PromptTokens+1 > c.Model.GetMaxContextTokens():
		return ContextTooLong
	case q.MinQuality > 0 && quality(c, q.Task) < q.MinQuality:
		return QualityBelow
	case len(q.CredentialTypes) > 0 && !slices.Contains(q.CredentialTypes, credentialType(c)):
		return CredentialType
	case c.Credential.GetKind() > configv1.CredentialKind_CREDENTIAL_KIND_API_KEY:
		return AuthInvalid // this node cannot mint tokens
	case ownedElsewhere(q, c):
		return StateOwnerMismatch
	}
	return ""
}

// credentialType names the type of a candidate's credential; empty without one.
func credentialType(c *plan.Candidate) string {
	switch c.Credential.GetKind() {
	case configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_CLIENT, configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_REFRESH:
		return "oauth"
	case configv1.CredentialKind_CREDENTIAL_KIND_GCP_SERVICE_ACCOUNT:
		return "gcp_service_account"
	case configv1.CredentialKind_CREDENTIAL_KIND_AWS_SIGV4:
		return "aws_sigv4"
	case configv1.CredentialKind_CREDENTIAL_KIND_AZURE_AD:
		return "azure_ad"
	}
	if c.Credential == nil {
		return ""
	}
	return "api_key"
}

// Refusal is the error of a request for which no candidate is usable: the most
// helpful status that the reasons allow, and the earliest time at which a resting
// candidate returns.
func (s *Selection) Refusal(now time.Time) *fault.Error {
	class := fault.NotPermitted
	text := "no upstream that this API key may use serves the model"
	who := "every upstream account for the model"
	if s.pinned() {
		who = "the upstream account that holds what the request refers to"
	}
	switch {
	case s.orphaned():
		text = "the upstream account that holds what the request refers to does not serve the model, or is no more; leave the reference out and send the content itself"
	case s.every(ModelUnsupported): // or there is no candidate at all
		class, text = fault.ModelUnknown, "no upstream serves the model"
	case s.any(func(r Reason) bool {
		return r.full() || r == cooldownPrefix+"rate_limit" || r == cooldownPrefix+"quota"
	}):
		class, text = fault.CapacityExhausted, who+" is at its limit"
	case s.any(func(r Reason) bool { return r == AuthInvalid || !r.static() }):
		class, text = fault.NoCandidate, who+" is resting after failures"
	case s.any(func(r Reason) bool {
		return r == ProtocolIncompatible || r == CapabilityMissing || r == ContextTooLong || r == QualityBelow
	}):
		class, text = fault.RequestNotSupported, s.unsupported()
	}
	f := fault.New(class, text)
	f.Gateway = &fault.Gateway{Pool: s.Pool(), DecisionID: s.DecisionID}
	if class == fault.CapacityExhausted || class == fault.NoCandidate {
		f.RetryAfter = max(s.earliest.Sub(now), time.Second)
	}
	return f
}

func (s *Selection) unsupported() string {
	if s.every(ProtocolIncompatible) || s.any(func(r Reason) bool { return r == ProtocolIncompatible }) &&
		!s.any(func(r Reason) bool { return r == CapabilityMissing || r == ContextTooLong }) {
		return s.protocols()
	}
	if s.any(func(r Reason) bool { return r == ContextTooLong }) {
		return "the prompt is longer than the context of every upstream that serves the model"
	}
	return s.lacking()
}

func (s *Selection) every(r Reason) bool {
	return !s.any(func(x Reason) bool { return x != r })
}

func (s *Selection) any(f func(Reason) bool) bool {
	for i := range s.Rows {
		if r := s.Rows[i].Reason; r != "" && !s.foreign(i) && f(r) {
			return true
		}
	}
	return false
}

func (r Reason) cooldown() bool { return strings.HasPrefix(string(r), cooldownPrefix) }
