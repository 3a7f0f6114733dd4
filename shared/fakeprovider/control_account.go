package fakeprovider

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// controlAccount is Account in JSON: the key, times in milliseconds, and Down as a failure
// of a script. The fields that are given change the account, the others stay; a down of
// null ends an outage.
type controlAccount struct {
	Key                  string         `json:"key"`
	Cache                *bool          `json:"cache"`
	RequestsPerMinute    *int64         `json:"requests_per_minute"`
	InputTokensPerMinute *int64         `json:"input_tokens_per_minute"`
	TTFTMS               *int64         `json:"ttft_ms"`
	PerKilotokenMS       *int64         `json:"per_kilotoken_ms"`
	Slow                 *float64       `json:"slow"`
	Down                 jsontext.Value `json:"down"`

	down *controlFailure
}

// maxWait bounds the waits that the control interface takes, in milliseconds.
const maxWait = 10 * 60 * 1000

func (a *controlAccount) check() error {
	for name, n := range map[string]*int64{"ttft_ms": a.TTFTMS, "per_kilotoken_ms": a.PerKilotokenMS} {
		if n != nil && (*n < 0 || *n > maxWait) {
			return fmt.Errorf("%s: expected 0 to %d", name, maxWait)
		}
	}
	for name, n := range map[string]*int64{"requests_per_minute": a.RequestsPerMinute, "input_tokens_per_minute": a.InputTokensPerMinute} {
		if n != nil && *n < 0 {
			return fmt.Errorf("%s: expected a count, 0 for none", name)
		}
	}
	if a.Slow != nil && (*a.Slow < 0 || *a.Slow > 1000) {
		return errors.New("slow: expected a factor from 0 to 1000")
	}
	if len(a.Down) > 0 {
		if err := json.Unmarshal(a.Down, &a.down, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("down: %w", err)
		}
	}
	return a.down.check("down")
}

func (a *controlAccount) apply(to *Account) {
	change(&to.Cache, a.Cache)
	change(&to.RequestsPerMinute, a.RequestsPerMinute)
	change(&to.InputTokensPerMinute, a.InputTokensPerMinute)
	change(&to.Slow, a.Slow)
	if a.TTFTMS != nil {
		to.TTFT = milliseconds(*a.TTFTMS)
	}
	if a.PerKilotokenMS != nil {
		to.PerKilotoken = milliseconds(*a.PerKilotokenMS)
	}
	if len(a.Down) > 0 {
		to.Down = a.down.failure()
	}
}

func change[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
