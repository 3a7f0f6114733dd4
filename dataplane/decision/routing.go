package decision

import (
	"slices"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
)

// Routing is what logical routes saw of a request, which is the request as it came,
// before they changed anything about it; and where they led it.
type Routing struct {
	// Root is what shares by weight went by: a hash, or the id of a request that belongs
	// to no conversation. Empty if nothing was shared.
	Root string `json:"root,omitempty"`

	Seen *Seen `json:"seen,omitempty"` // nil for a tenant without logical routes

	// PromptTokens is the estimate before anything was learned of the model, which
	// Features.PromptTokens may follow.
	PromptTokens int64 `json:"prompt_tokens,omitempty"`

	// Effort of reasoning; unstated for a request without one, empty for a word that is
	// none of the known ones.
	Effort string `json:"effort,omitempty"`

	// What the client asked for and the configuration knows.
	Risk  string `json:"risk,omitempty"`
	Label string `json:"label,omitempty"`

	Model    string   `json:"model"`              // whose candidates may serve
	Provider string   `json:"provider,omitempty"` // id of the only one that may
	Chain    []string `json:"chain,omitempty"`    // models that may answer instead, the first ones
}

// Seen are the numbers and flags of a request before it was changed.
type Seen struct {
	MaxOutput        int64 `json:"max_output_tokens,omitempty"`
	Images           int64 `json:"images,omitempty"`
	Tools            int64 `json:"tools,omitempty"`
	Audio            bool  `json:"audio,omitempty"`
	Documents        bool  `json:"documents,omitempty"`
	Thinking         bool  `json:"thinking,omitempty"`
	WebSearch        bool  `json:"web_search,omitempty"`
	StructuredOutput bool  `json:"structured_output,omitempty"`
	Stream           bool  `json:"stream,omitempty"`
	Stored           bool  `json:"stored,omitempty"`
}

// unstated is the effort of a request that states none.
const unstated = "unstated"

// maxChainModels is how many models of a chain are written down.
const maxChainModels = 8

var efforts = []string{
	string(llm.EffortNone), string(llm.EffortMinimal), string(llm.EffortLow), string(llm.EffortMedium),
	string(llm.EffortHigh), string(llm.EffortXHigh), string(llm.EffortMax),
}

func routingOf(r *attempt.Request) *Routing {
	d := &r.Resolved
	s := d.Features
	if s == nil {
		return nil
	}
	out := &Routing{Root: d.Root, Model: Cut(d.Model), Provider: d.Provider}
	for _, to := range d.Chain[:min(len(d.Chain), maxChainModels)] {
		out.Chain = append(out.Chain, Cut(to.Model))
	}
	if s.Protocol == "" {
		out.PromptTokens = r.PromptTokens()
		return out // nothing was read, and nothing changed
	}
	out.PromptTokens = s.PromptTokens
	out.Seen = &Seen{
		MaxOutput: s.MaxOutputTokens, Images: s.Images, Tools: s.Tools,
		Audio: s.Audio, Documents: s.Documents, Thinking: s.Thinking, WebSearch: s.WebSearch,
		StructuredOutput: s.StructuredOutput, Stream: s.Stream, Stored: s.Stored,
	}
	switch {
	case s.ReasoningEffort == "" && s.Unknown&resolve.InputEffort == 0:
		out.Effort = unstated
	case slices.Contains(efforts, s.ReasoningEffort):
		out.Effort = s.ReasoningEffort
	}
	out.Risk, out.Label = s.AskedRisk, s.AskedLabel
	return out
}

// Restore puts what was recorded into the features of a request that is decided again,
// and marks what was not as unknown. It returns the root, empty if there is none. A nil
// Routing is that of a record without one.
func (r *Routing) Restore(f *resolve.Features) (root string) {
	f.Unknown = resolve.InputHeader | resolve.InputBody | resolve.InputTools | resolve.InputEffort | resolve.InputRoot
	if r == nil {
		return ""
	}
	f.PromptTokens = r.PromptTokens
	if r.Root != "" {
		f.Unknown &^= resolve.InputRoot
	}
	if r.Effort != "" {
		f.Unknown &^= resolve.InputEffort
		if f.ReasoningEffort = r.Effort; r.Effort == unstated {
			f.ReasoningEffort = ""
		}
	}
	if s := r.Seen; s != nil {
		f.MaxOutputTokens, f.Images, f.Tools = s.MaxOutput, s.Images, s.Tools
		f.Audio, f.Documents, f.Thinking, f.WebSearch = s.Audio, s.Documents, s.Thinking, s.WebSearch
		f.StructuredOutput, f.Stream, f.Stored = s.StructuredOutput, s.Stream, s.Stored
	}
	return r.Root
}
