package affinity

import (
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Match says that a scope is likely to hold a prefix of a prompt.
type Match struct {
	Scope      ScopeID
	Tokens     int64   // estimate of the prefix; 0 if there is nothing but a session binding
	Confidence float64 // that it was cached when it was used last, in [0, 1]
	Age        time.Duration
	TTLMin     time.Duration
	TTLMax     time.Duration
	Session    bool // the session is bound to this scope
}

// Live is the confidence that the prefix is still cached, in [0, 1]: the whole of it up
// to TTLMin, then less and less, and none from TTLMax on.
func (m *Match) Live() float64 {
	switch {
	case m.Age <= m.TTLMin:
		return m.Confidence
	case m.Age >= m.TTLMax:
		return 0
	}
	return m.Confidence * float64(m.TTLMax-m.Age) / float64(m.TTLMax-m.TTLMin)
}

// DefaultTTL is how long a prompt cache lives where nothing is configured: it is sure to
// be there up to least after its last use, and sure to be gone after most.
func DefaultTTL(p configv1.Protocol) (least, most time.Duration) {
	switch p {
	case configv1.Protocol_PROTOCOL_ANTHROPIC_MESSAGES:
		return 5 * time.Minute, 5 * time.Minute
	case configv1.Protocol_PROTOCOL_OPENAI_CHAT, configv1.Protocol_PROTOCOL_OPENAI_RESPONSES:
		return 5 * time.Minute, 10 * time.Minute
	case configv1.Protocol_PROTOCOL_GEMINI_GENERATE_CONTENT:
		return 5 * time.Minute, 60 * time.Minute
	}
	return 10 * time.Minute, 10 * time.Minute
}
