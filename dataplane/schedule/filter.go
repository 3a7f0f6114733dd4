package schedule

import (
	"slices"
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
	StateOwnerMismatch   Reason = "state_owner_mismatch"
	AlreadyFailed        Reason = "already_failed"
	SlotFull             Reason = "slot_full"

	cooldownPrefix = "cooldown_"
)

// static checks what configuration and request alone decide.
func static(q *Query, c *plan.Candidate, now time.Time) Reason {
	switch {
	case !slices.Contains(q.Groups, c.Upstream.GetGroupId()):
		return NotInGroup
	case c.Provider == nil || c.Provider.GetDisabled() || c.Upstream.GetDisabled() || c.Model.GetDisabled():
		return Disabled
	}
	if c.Credential != nil {
		secret := q.View.Secret(c.TenantID, c.Credential.GetId())
		switch {
		case c.Credential.GetDisabled():
			return Disabled
		case c.Credential.GetKind() > configv1.CredentialKind_CREDENTIAL_KIND_API_KEY:
			return AuthInvalid // this node cannot mint tokens
		case secret == nil:
			return AuthInvalid
		case secret.Disabled:
			return Disabled
		case !secret.Expire.IsZero() && !now.Before(secret.Expire):
			return Expired
		}
	}
	switch {
	case c.Capability == nil:
		return ProtocolIncompatible
	case q.Needs.lacking(c) != "":
		return CapabilityMissing
	case c.Model.GetMaxContextTokens() > 0 && q.PromptTokens+1 > c.Model.GetMaxContextTokens():
		return ContextTooLong
	case ownedElsewhere(q, c):
		return StateOwnerMismatch
	}
	return ""
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
	case s.every(ModelUnsupported):
		class, text = fault.ModelUnknown, "no upstream serves the model"
	case s.any(func(r Reason) bool {
		return r == SlotFull || r == cooldownPrefix+"rate_limit" || r == cooldownPrefix+"quota"
	}):
		class, text = fault.CapacityExhausted, who+" is at its limit"
	case s.any(func(r Reason) bool { return r == AlreadyFailed || r == AuthInvalid || r.cooldown() }):
		class, text = fault.NoCandidate, who+" is resting after failures"
	case s.any(func(r Reason) bool {
		return r == ProtocolIncompatible || r == CapabilityMissing || r == ContextTooLong
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
	for i, r := range s.Reasons {
		if r != "" && !s.foreign(i) && f(r) {
			return true
		}
	}
	return false
}

func (r Reason) cooldown() bool {
	return len(r) > len(cooldownPrefix) && r[:len(cooldownPrefix)] == cooldownPrefix
}
