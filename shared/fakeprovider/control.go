package fakeprovider

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxControlBody bounds a request to the control interface, in bytes.
const maxControlBody = 8 << 20

// controlStep is Step in JSON: times are milliseconds, raw bytes a string. Gates
// have no JSON form.
type controlStep struct {
	Step
	DelayHeadersMS int64           `json:"delay_headers_ms,omitempty"`
	DelayFirstMS   int64           `json:"delay_first_ms,omitempty"`
	DelayBetweenMS int64           `json:"delay_between_ms,omitempty"`
	Raw            *string         `json:"raw,omitempty"`
	Fail           *controlFailure `json:"fail,omitempty"`
	FaultError     *controlFailure `json:"fault_error,omitempty"`
	RateLimit      *controlLimit   `json:"rate_limit,omitempty"`
}

type controlFailure struct {
	Failure
	RetryAfterMS int64   `json:"retry_after_ms,omitempty"`
	Body         *string `json:"body,omitempty"`
}

type controlLimit struct {
	RateLimit
	ResetMS int64 `json:"reset_ms,omitempty"`
}

type controlScript struct {
	Match       Match         `json:"match"`
	Steps       []controlStep `json:"steps"`
	ThenDefault bool          `json:"then_default,omitempty"`
}

func (s controlScript) script() Script {
	out := Script{Match: s.Match, ThenDefault: s.ThenDefault}
	for _, cs := range s.Steps {
		step := cs.Step
		step.DelayHeaders = milliseconds(cs.DelayHeadersMS)
		step.DelayFirst = milliseconds(cs.DelayFirstMS)
		step.DelayBetween = milliseconds(cs.DelayBetweenMS)
		step.Fail, step.FaultError = cs.Fail.failure(), cs.FaultError.failure()
		if cs.Raw != nil {
			step.Raw = []byte(*cs.Raw)
		}
		if cs.RateLimit != nil {
			limit := cs.RateLimit.RateLimit
			limit.Reset = milliseconds(cs.RateLimit.ResetMS)
			step.RateLimit = &limit
		}
		out.Steps = append(out.Steps, step)
	}
	return out
}

func (f *controlFailure) failure() *Failure {
	if f == nil {
		return nil
	}
	out := f.Failure
	out.RetryAfter = milliseconds(f.RetryAfterMS)
	if f.Body != nil {
		out.Body = []byte(*f.Body)
	}
	return &out
}

// check refuses a kind that is none; where names the failure.
func (f *controlFailure) check(where string) error {
	if f != nil && f.Kind != "" && f.Kind != ServerError && kindRows(f.Kind) == kindRows(ServerError) {
		return fmt.Errorf("%s: %q is not an error kind", where, f.Kind)
	}
	return nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// serveControl is the control interface; path stands behind /_control.
//
//	POST   /_control/scripts   {"match":{...},"steps":[...],"then_default":false}
//	GET    /_control/requests  {"stats":{...},"requests":[...]}, bodies as strings
//	POST   /_control/accounts  {"key":"sk-…","cache":true,"ttft_ms":700,"down":{...},…}
//	GET    /_control/accounts  AccountStats by key, {"sk-…":{"requests":…},…}
//	DELETE /_control           forgets scripts, requests, counts and accounts
func (p *Provider) serveControl(w http.ResponseWriter, r *http.Request, path string) {
	switch r.Method + " " + path {
	case "POST /scripts":
		var in controlScript
		err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxControlBody), &in, json.RejectUnknownMembers(true))
		if err == nil {
			err = in.check()
		}
		if err != nil {
			http.Error(w, "read script: "+err.Error(), http.StatusBadRequest)
			return
		}
		p.SetScript(in.script())
		w.WriteHeader(http.StatusNoContent)
	case "GET /requests":
		type recorded struct {
			Request
			Body string `json:"body"`
		}
		out := struct {
			Stats    Stats      `json:"stats"`
			Requests []recorded `json:"requests"`
		}{Stats: p.Stats(), Requests: []recorded{}}
		for _, req := range p.Requests() {
			out.Requests = append(out.Requests, recorded{req, string(req.Body)})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, out, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)) // fails only if the reader left
	case "POST /accounts":
		var in controlAccount
		err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxControlBody), &in, json.RejectUnknownMembers(true))
		if err == nil {
			err = in.check()
		}
		if err != nil {
			http.Error(w, "read account: "+err.Error(), http.StatusBadRequest)
			return
		}
		p.ChangeAccount(in.Key, in.apply)
		w.WriteHeader(http.StatusNoContent)
	case "GET /accounts":
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, p.allStats(), json.Deterministic(true)) // fails only if the reader left
	case "DELETE ", "DELETE /":
		p.Reset()
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, "the control interface has POST /_control/scripts, GET /_control/requests, POST and GET /_control/accounts, and DELETE /_control", http.StatusNotFound)
	}
}

// check refuses words that mean nothing, which would otherwise be default answers.
func (s controlScript) check() error {
	switch s.Match.Protocol {
	case "", Chat, Responses, Anthropic, Gemini:
	default:
		return fmt.Errorf("match.protocol %q: expected %s, %s, %s or %s", s.Match.Protocol, Chat, Responses, Anthropic, Gemini)
	}
	for i, step := range s.Steps {
		switch step.Fault {
		case "", FaultCut, FaultStall, FaultEnd, FaultMalformed, FaultErrorEvent, FaultFailed:
		default:
			return fmt.Errorf("steps[%d].fault %q is not a fault", i, step.Fault)
		}
		switch step.Stop {
		case "", StopEnd, StopTools, StopLength, StopWord, StopRefusal, StopFiltered:
		default:
			return fmt.Errorf("steps[%d].stop %q is not a reason to stop", i, step.Stop)
		}
		for _, f := range []*controlFailure{step.Fail, step.FaultError} {
			if err := f.check(fmt.Sprintf("steps[%d]", i)); err != nil {
				return err
			}
		}
	}
	return nil
}
