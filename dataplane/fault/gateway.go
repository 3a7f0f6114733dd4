package fault

import "time"

// Outcomes of a request that a caller is told about.
const (
	// OutcomePossiblyConsumed: the request failed and a provider may have
	// worked for it; repeating it may cost twice.
	OutcomePossiblyConsumed = "possibly_consumed"
	// OutcomeStreamIncomplete: the answer began and broke.
	OutcomeStreamIncomplete = "stream_incomplete"
)

// Gateway is what the gateway adds to a protocol's error object under the member
// "gateway": why it decided so, in words and numbers a program can read. Zero
// fields are left out.
type Gateway struct {
	Outcome    string // OutcomePossiblyConsumed, OutcomeStreamIncomplete or empty
	Pool       string // why no candidate was usable, such as "pool=7 excluded: limit_tpm=2"
	DecisionID string // record of the scheduling decision

	Limit *Limit // the limit that refused, for refusals by a limit

	PolicyID string // the policy that refused
	RuleID   string // its rule, where the policy reveals it
	Stage    string // where in the request it refused, such as "request" or "response"
	Category string // what was found, where the policy reveals it
	Contact  string // whom to ask
}

// Limit is the state of a limit that refused a request. Amounts are in units of
// the dimension.
type Limit struct {
	ID        string
	Scope     string // whose limit it is, such as "api_key"
	Dimension string // what is counted, such as "total_tokens"
	Window    string // over which time, such as "minute"
	Class     string // class of traffic

	// Amounts of a scope that the caller may not see are left out.
	Hidden    bool
	Amount    int64
	Used      int64
	Reserved  int64
	Requested int64

	ResetsAt time.Time // when room comes back; zero if it is not known
	Raise    string    // where to ask for a higher limit
}
