package schedule

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// Stage is the place of an attempt in the order of failover, relative to the first
// candidate that was tried.
type Stage uint8

// The stages, in order.
const (
	First           Stage = iota
	SameCredential        // once more on the same candidate
	SameScope             // another credential that shares the prompt cache
	OtherCredential       // another credential of the provider
	OtherModel            // another model of the provider
	ModelChain            // another model of another provider
	CrossProvider         // another provider
	LastResort            // a candidate that rests, because there is no other
	endOfStages
)

var stageNames = [...]string{
	"primary", "same_credential_retry", "same_provider_same_cache_scope", "same_provider_other_credential",
	"same_provider_other_model", "model_chain", "cross_provider", "last_resort",
}

// String is the name used in headers, records and metrics.
func (s Stage) String() string { return stageNames[s] }

// Query is what a selection needs to know of the request.
type Query struct {
	View       *snapshot.View
	Groups     []string // ids of the groups that may serve
	Protocol   string   // the inbound protocol, for texts
	Needs      Needs
	DecisionID string
	RequestID  string
	Seed       string // for what is drawn by chance
	Policy     Policy

	PromptTokens int64 // estimate
	OutputTokens int64 // estimate
	Images       int64
	Writes       bool   // the request has explicit cache markers
	Guarded      bool   // a replay could repeat an effect
	Task         string // for quality hints
	MinQuality   float64
	Tight        bool  // the tightest budget of the request is over 80% used
	Class        uint8 // of traffic

	// CredentialTypes are those that may serve; empty for all.
	CredentialTypes []string

	// What the request shares with earlier ones.
	Affinity  affinity.Kind
	Root      string // for the home of a conversation; empty for none
	Matches   []affinity.Match
	Prior     int64   // tokens that are expected to be cached at the home of a continued conversation
	PriorConf float64 // that they are; 0 for no such expectation
	// Confidence replaces PriorConf by what came true of such expectations; nil does not.
	Confidence func(provider, model string, def float64) float64

	HeadTokens int64
	HeadRecent int64 // requests of the fleet that share the head and came lately

	// Ratio is what came true of predicted hits at a provider and model; nil is always 1.
	Ratio func(provider, model string) float64

	// Owner is whom the stored objects belong to that the request names; zero if it
	// names none. Nobody else may get the request.
	Owner stateid.Owner

	// Stage is the stage to select for, and In whether a candidate belongs to it; a nil
	// In takes all.
	Stage Stage
	In    func(i int, c *plan.Candidate) bool

	// Skip holds the ids of candidates that this request must not use again.
	Skip map[string]Reason

	// Queued says that the request has a place in the queue for a slot. Those that have
	// none do not overtake the ones that do.
	Queued bool

	// Dry selections change no state.
	Dry bool

	own bool // what other nodes told does not count
}

// need is what an attempt takes of the limits of an account that has so many tokens of
// the prompt cached.
func (q *Query) need(h *handle, hit int64) need {
	input := q.PromptTokens - hit
	if h.countsReads {
		input = q.PromptTokens
	}
	return needOf(max(0, input), q.OutputTokens, q.Images)
}
