package gemini

import (
	"slices"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// joinThoughts makes one part of the pieces of each signed thought. In a stream the
// signature comes after the text, and the vendor's SDKs send every chunk back as a
// content of its own. What another vendor signed is valid for the whole text alone.
func joinThoughts(messages []llm.Message) []llm.Message {
	var pieces []*llm.Part // of the thought that is being read
	joined := false
	for m := range messages {
		if messages[m].Role != llm.RoleAssistant {
			pieces = pieces[:0]
			continue
		}
		for i := range messages[m].Parts {
			p := &messages[m].Parts[i]
			switch {
			case p.Kind != llm.PartReasoning:
				pieces = pieces[:0]
			case p.State == nil:
				pieces = append(pieces, p)
			case len(pieces) > 0:
				p.Text = join(pieces, p.Text)
				pieces, joined = pieces[:0], true
			}
		}
	}
	if !joined {
		return messages
	}
	for i := range messages {
		messages[i].Parts = said(messages[i].Parts)
	}
	return slices.DeleteFunc(messages, func(m llm.Message) bool { return m.Role == llm.RoleAssistant && len(m.Parts) == 0 })
}

// join takes the texts of pieces and puts them before last.
func join(pieces []*llm.Part, last string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
		p.Text = ""
	}
	b.WriteString(last)
	return b.String()
}
