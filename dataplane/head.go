package dataplane

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
)

// answerHead sets the headers that tell which account answered, and what was tried
// before it. Routes can hide the ones that name accounts.
func answerHead(h http.Header, r *attempt.Request, res *attempt.Result) {
	c := res.Winner
	values := make([]string, 0, 6) // one array behind all values
	set := func(name, v string) {
		values = append(values, v)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	set("X-Gateway-Scheduled-Provider", string(protocolName(c.Protocol)))
	set("X-Gateway-Scheduled-Model", c.UpstreamModel())
	hidden := r.Route.GetHideAccountHeaders()
	if !hidden {
		set("X-Gateway-Scheduled-Provider-Name", c.Provider.GetName())
		if c.Credential != nil {
			set("X-Gateway-Scheduled-Credential-Id", c.CredentialID())
		}
	}
	set("X-Gateway-Cache-Affinity", string(res.Affinity))
	set("X-Gateway-Decision-Id", r.DecisionID)
	if res.Lossy != nil {
		if lossy := res.Lossy(); lossy != "" {
			h["X-Gateway-Lossy"] = []string{lossy}
		}
	}
	fallbackHead(h, res, hidden)
}

// fallbackHead tells of the attempts before the last one: one entry for each that
// failed, provider-name/credential-id:class:status, or class:status where hidden.
func fallbackHead(h http.Header, res *attempt.Result, hidden bool) {
	if len(res.Failed) == 0 {
		h["X-Gateway-Fallback-Used"] = []string{"false"}
		return
	}
	h["X-Gateway-Fallback-Used"] = []string{strconv.FormatBool(len(res.Stages) > 0)}
	h["X-Gateway-Fallback-Count"] = []string{strconv.Itoa(len(res.Stages))}
	if len(res.Stages) > 0 {
		h["X-Gateway-Fallback-Stages"] = []string{strings.Join(res.Stages, ",")}
	}
	entries := make([]string, len(res.Failed))
	for i, t := range res.Failed {
		entries[i] = t.Class.String() + ":" + strconv.Itoa(t.Status)
		if !hidden {
			entries[i] = t.Candidate.Provider.GetName() + "/" + t.Candidate.CredentialID() + ":" + entries[i]
		}
	}
	h["X-Gateway-Fallback-Failures"] = []string{strings.Join(entries, ",")}
}

// failHead sets the headers of a request that failed.
func failHead(h http.Header, call *inbound.Call, res *attempt.Result) {
	if call.Committed {
		return
	}
	if len(res.Failed) > 0 || len(res.Selections) > 0 {
		fallbackHead(h, res, res.Hidden)
	}
	if g := res.Fault.Gateway; g != nil {
		if g.Outcome != "" {
			h["X-Gateway-Outcome"] = []string{g.Outcome}
		}
		if g.DecisionID != "" {
			h["X-Gateway-Decision-Id"] = []string{g.DecisionID}
		}
	}
	if res.Fault.Class == fault.Draining {
		h["Connection"] = []string{"close"}
	}
}
