package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// answer writes the results of calls in the order of the calls. Messages of tools
// hold text alone: their media follow in a message of the user.
func (e *requestEncoder) answer(calls []*llm.Call) *fault.Error {
	type moved struct {
		id    string
		media []*llm.Part
	}
	var media []moved
	for _, call := range calls {
		waiting := e.results[call.ID]
		if len(waiting) == 0 {
			return protocol.PairFault(&llm.PairError{CallID: call.ID})
		}
		e.results[call.ID] = waiting[1:]
		left, f := e.result(waiting[0])
		if f != nil {
			return f
		}
		if len(left) > 0 {
			media = append(media, moved{callID(call.ID), left})
		}
	}
	if len(media) == 0 {
		return nil
	}
	var parts []*llm.Part
	for _, m := range media {
		if len(calls) > 1 { // else it is clear whose they are
			parts = append(parts, &llm.Part{Kind: llm.PartText, Text: "From the result of the tool call " + m.id + ":"})
		}
		parts = append(parts, m.media...)
	}
	e.begin("user", "")
	return e.close(e.content(parts))
}

// result writes one result and returns the media that it cannot hold.
func (e *requestEncoder) result(whole *llm.Part) (media []*llm.Part, f *fault.Error) {
	r := whole.Result
	e.said = e.said[:0]
	if r.Error {
		a, f := e.c.Lose(llm.FeatureResultError, "")
		if f != nil {
			return nil, f
		}
		if a == protocol.Substitute {
			e.said = append(e.said, &llm.Part{Kind: llm.PartText, Text: "The tool failed:"})
		}
	}
	if r.Raw != "" {
		e.said = append(e.said, &llm.Part{Kind: llm.PartText, Text: r.Raw})
	}
	for i := range r.Parts {
		switch p := &r.Parts[i]; p.Kind {
		case llm.PartMedia:
			if p.Media.Text != "" { // a text that is called a document
				if p.Media.Cite {
					if f := e.c.Dropped(llm.FeatureCitations, ""); f != nil {
						return nil, f
					}
				}
				e.said = append(e.said, p)
				continue
			}
			a, f := e.c.Lose(llm.FeatureResultMedia, "")
			if f != nil {
				return nil, f
			}
			if a == protocol.Substitute {
				media = append(media, p)
			}
		case llm.PartNative:
			if f := e.native(p.Native); f != nil {
				return nil, f
			}
		default:
			if f := e.unsourced(p); f != nil {
				return nil, f
			}
			if p.Text != "" {
				e.said = append(e.said, p)
			}
		}
	}
	if len(media) > 0 && len(e.said) == 0 {
		e.said = append(e.said, &llm.Part{Kind: llm.PartText, Text: "The result is in the next message."})
	}
	if r.Error && len(e.said) > 1 {
		e.said = append(e.said[:0], &llm.Part{Kind: llm.PartText, Text: joinedBy(e.said, "\n")})
	}
	if n := len(e.said); whole.Cache != llm.NoCache && n > 0 {
		last := *e.said[n-1]
		last.Cache = whole.Cache
		e.said[n-1] = &last
	}
	e.b = wirejson.AppendStringMember(append(wirejson.AppendElement(e.b), '{'), "role", "tool")
	e.b = wirejson.AppendStringMember(e.b, "tool_call_id", callID(r.CallID))
	return media, e.close(e.content(e.said))
}

// native loses a piece that only its own protocol has.
func (e *requestEncoder) native(n *llm.Native) *fault.Error {
	feature := llm.FeatureServerTool
	switch {
	case strings.Contains(n.Type, "search_result") && !strings.Contains(n.Type, "web_search"):
		feature = llm.FeatureSearchResult
	case strings.Contains(n.Type, "mcp"):
		feature = llm.FeatureMCP
	case strings.Contains(n.Type, "container"):
		feature = llm.FeatureContainer
	case strings.Contains(n.Type, "compaction"):
		feature = llm.FeatureCompaction
	case n.Type == "item_reference":
		feature = llm.FeatureStoredState
	}
	return e.c.Dropped(feature, "")
}

// misplaced loses media in a message of a role that Chat lets say nothing but text.
func (e *requestEncoder) misplaced(m *llm.Media, role string) *fault.Error {
	feature := [...]llm.Feature{llm.FeatureImage, llm.FeatureDocument, llm.FeatureAudioInput, llm.FeatureVideoInput}[m.Kind]
	f := e.c.Dropped(feature, "")
	if f == nil {
		return nil
	}
	told := *f
	told.Public = "This model is served in the protocol " + string(e.c.To) + ", in which a message of the " + role + " cannot hold " + m.Kind.String() +
		" content: to leave it out, declare it with the header x-gateway-options: " + string(e.c.From) + "." + string(feature) + "=drop."
	return &told
}

func joined(parts []*llm.Part) string { return joinedBy(parts, "\n\n") }

func joinedBy(parts []*llm.Part, sep string) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(p.Text)
	}
	return b.String()
}
