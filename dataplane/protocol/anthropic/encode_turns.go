package anthropic

import (
	"errors"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// The roles of messages on the wire.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// maxMarks is how many marks of the prompt cache the vendor takes.
const maxMarks = 4

// opening stands in the place of the user's turn with which a conversation has to
// begin, where the assistant speaks first.
const opening = "(The assistant opens the conversation.)"

// turn is a message as it will be written.
type turn struct {
	role    string
	results []*llm.Result
	parts   []*llm.Part
}

var errNoMessages = errors.New("no message has content")

// arrange brings the conversation into the order that the protocol demands. A caller
// of this protocol keeps its own order, system messages between turns included: what
// is wrong with it is for the upstream to tell.
func (w *requestWriter) arrange() *fault.Error {
	w.countMarks()
	for i := range w.r.Messages {
		if w.r.Messages[i].Name != "" {
			if f := w.c.Dropped(llm.FeatureParticipantName, w.at(llm.FeatureParticipantName)); f != nil {
				return f
			}
			break
		}
	}
	w.last = -1
	if w.own {
		w.keepTurns()
		return nil
	}
	late, f := w.late()
	if f != nil {
		return f
	}
	conv, err := w.r.Converse(late)
	if err != nil {
		return protocol.PairFault(err)
	}
	w.system = conv.System
	for i := range conv.Turns {
		t := turn{role: roleUser, results: conv.Turns[i].Results, parts: conv.Turns[i].Parts}
		if conv.Turns[i].Assistant {
			t.role = roleAssistant
		}
		if len(t.results) > 0 || spoken(t.parts) {
			w.turns = append(w.turns, t)
		}
	}
	if f := w.open(); f != nil {
		return f
	}
	for i := range w.turns {
		if len(w.turns[i].results) > 0 || firstWritten(&w.turns[i]) != nil {
			w.last = i
		}
	}
	return nil
}

// open sees to it that the user has the first turn.
func (w *requestWriter) open() *fault.Error {
	switch {
	case len(w.turns) == 0 && spoken(w.system):
		// Instructions alone, which other protocols answer.
		w.turns, w.system = []turn{{role: roleUser, parts: w.system}}, nil
		return w.c.Dropped(llm.FeatureSystemPosition, w.at(llm.FeatureSystemPosition))
	case len(w.turns) == 0:
		return &fault.Error{
			Class: fault.InvalidRequest, Param: w.at(llm.Core), Err: errNoMessages,
			Public: "The request has no message with content; send at least one message of the user.",
		}
	case w.turns[0].role == roleAssistant:
		first := turn{role: roleUser, parts: []*llm.Part{{Text: opening}}}
		w.turns = append([]turn{first}, w.turns...)
	}
	return nil
}

// spoken reports whether anything of parts may be written.
func spoken(parts []*llm.Part) bool {
	for _, p := range parts {
		if p.Kind != llm.PartText && p.Kind != llm.PartRefusal || !blank(p.Text) {
			return true
		}
	}
	return false
}

// late returns what makes a user's words of a system message between turns.
func (w *requestWriter) late() (func(llm.Part) llm.Part, *fault.Error) {
	spoken, action := false, protocol.Substitute
	for i := range w.r.Messages {
		if w.r.Messages[i].Role != llm.RoleSystem {
			spoken = true
			continue
		}
		if spoken {
			var f *fault.Error
			if action, f = w.c.Lose(llm.FeatureSystemPosition, w.at(llm.FeatureSystemPosition)); f != nil {
				return nil, f
			}
			break
		}
	}
	return func(p llm.Part) llm.Part {
		switch {
		case action == protocol.Drop:
			return llm.Part{}
		case p.Kind == llm.PartText && !blank(p.Text):
			p.Text = "<system>\n" + p.Text + "\n</system>"
		}
		return p
	}, nil
}

func (w *requestWriter) keepTurns() {
	for i := range w.r.Messages {
		m := &w.r.Messages[i]
		role := roleUser
		switch m.Role {
		case llm.RoleSystem:
			role = roleSystem
		case llm.RoleAssistant:
			role = roleAssistant
		}
		for j := range m.Parts {
			p := &m.Parts[j]
			n := len(w.turns)
			switch {
			case p.Kind == llm.PartText && p.Text == "":
				continue // would be refused
			case role == roleSystem && n == 0 && p.Kind == llm.PartText:
				w.system = append(w.system, p)
				continue
			case n == 0 || w.turns[n-1].role != role:
				w.turns = append(w.turns, turn{role: role})
				n++
			}
			t := &w.turns[n-1]
			if p.Kind == llm.PartResult {
				t.results = append(t.results, p.Result)
			} else {
				t.parts = append(t.parts, p)
			}
		}
	}
}

// countMarks finds how many marks of the prompt cache there are, and keeps those of
// results, which lose their parts on the way.
func (w *requestWriter) countMarks() {
	for i := range w.r.Tools {
		if w.r.Tools[i].Cache != llm.NoCache {
			w.marks++
		}
	}
	for i := range w.r.Messages {
		parts := w.r.Messages[i].Parts
		for j := range parts {
			p := &parts[j]
			if p.Cache != llm.NoCache {
				w.marks++
			}
			if p.Kind != llm.PartResult {
				continue
			}
			if p.Cache != llm.NoCache {
				if w.results == nil {
					w.results = make(map[*llm.Result]llm.Cache)
				}
				w.results[p.Result] = p.Cache
			}
			for k := range p.Result.Parts {
				if p.Result.Parts[k].Cache != llm.NoCache {
					w.marks++
				}
			}
		}
	}
	if w.keptField("cache_control") != nil {
		w.marks++
	}
}
