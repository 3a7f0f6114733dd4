package openairesponses

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// assistant writes what the model said: text and refusals as messages, all else as items
// of their own, in the order in which they were made.
func (e *requestEncoder) assistant(m *llm.Message) *fault.Error {
	talking := false
	hush := func() {
		if talking {
			e.b = append(e.b, ']')
			if m.Phase != "" && e.own {
				e.b = wirejson.AppendStringMember(e.b, "phase", m.Phase)
			}
			e.b, talking = append(e.b, '}'), false
		}
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case llm.PartText, llm.PartRefusal:
			if p.Text == "" {
				continue
			}
			if !talking {
				e.open(itemMessage)
				e.b = append(wirejson.AppendStringMember(e.b, "role", "assistant"), `,"content":[`...)
				talking = true
			}
			if f := e.said(p); f != nil {
				return f
			}
			continue
		}
		hush()
		if f := e.made(p); f != nil {
			return f
		}
	}
	hush()
	return nil
}

// said writes a text or a refusal of the model.
func (e *requestEncoder) said(p *llm.Part) *fault.Error {
	if p.State != nil {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, ""); f != nil {
			return f
		}
	}
	e.b = append(wirejson.AppendElement(e.b), '{')
	if p.Kind == llm.PartRefusal {
		e.b = wirejson.AppendStringMember(e.b, "type", "refusal")
		e.b = append(wirejson.AppendStringMember(e.b, "refusal", p.Text), '}')
		return nil
	}
	e.writeText("output_text", p.Text)
	f := e.sources(p.Citations)
	e.b = append(e.b, '}')
	return f
}

// sources writes the sources of an earlier answer.
func (e *requestEncoder) sources(all []llm.Citation) *fault.Error {
	begun := false
	for i := range all {
		c := &all[i]
		if c.URL == "" && (!e.own || c.Raw == nil) {
			if f := e.c.Dropped(llm.FeatureCitationHistory, ""); f != nil {
				return f
			}
			continue
		}
		if !begun {
			e.b, begun = append(wirejson.AppendMember(e.b, "annotations"), '['), true
		}
		e.b = wirejson.AppendElement(e.b)
		if c.URL == "" {
			e.b = append(e.b, c.Raw...)
		} else {
			e.b = appendAnnotation(e.b, c)
		}
	}
	if begun {
		e.b = append(e.b, ']')
	}
	return nil
}

// writeText writes the members of a text.
func (e *requestEncoder) writeText(kind, s string) {
	e.b = wirejson.AppendStringMember(e.b, "type", kind)
	e.b = wirejson.AppendStringMember(e.b, "text", s)
}

// made writes what the model made beside text.
func (e *requestEncoder) made(p *llm.Part) *fault.Error {
	switch p.Kind {
	case llm.PartReasoning, llm.PartRedacted:
		return e.reasoning(p)
	case llm.PartCall:
		return e.call(p)
	case llm.PartMedia:
		if p.Media.Kind != llm.Image || p.Media.Data == "" {
			return e.misplaced(p.Media, "assistant")
		}
		e.open(itemImage)
		sum := sha256.Sum256([]byte(p.Media.Data))
		e.b = wirejson.AppendStringMember(e.b, "id", "ig_"+hex.EncodeToString(sum[:16]))
		e.b = wirejson.AppendStringMember(e.b, "status", "completed")
		e.b = append(wirejson.AppendStringMember(e.b, "result", p.Media.Data), '}')
	case llm.PartNative:
		return e.native(p.Native)
	}
	return nil
}

// reasoning writes reasoning that the provider can read, without the id of the item,
// which names nothing where nothing is stored.
func (e *requestEncoder) reasoning(p *llm.Part) *fault.Error {
	s := p.State
	reference := e.own && s != nil && s.Data == "" && p.Text == "" && s.ID != ""
	readable := s != nil && s.Kind == llm.OpenAIEncrypted && !s.Foreign && s.Data != ""
	if s != nil && !readable && !reference {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if !readable && !reference && (!e.own || s != nil) {
		if p.Text == "" {
			return nil
		}
		_, f := e.c.Lose(llm.FeatureReasoningText, "")
		return f
	}
	e.open(itemReasoning)
	if reference {
		e.b = wirejson.AppendStringMember(e.b, "id", s.ID)
	}
	e.b = append(wirejson.AppendMember(e.b, "summary"), '[')
	if p.Text != "" {
		e.b = append(e.b, '{')
		e.writeText("summary_text", p.Text)
		e.b = append(e.b, '}')
	}
	e.b = append(e.b, ']')
	if readable {
		e.b = wirejson.AppendStringMember(e.b, "encrypted_content", s.Data)
	}
	e.b = append(e.b, '}')
	return nil
}

func (e *requestEncoder) call(p *llm.Part) *fault.Error {
	if p.State != nil {
		if _, f := e.c.Lose(llm.FeatureReasoningState, ""); f != nil {
			return f
		}
	}
	if p.Cache != llm.NoCache {
		if f := e.c.Dropped(llm.FeatureCacheMark, ""); f != nil {
			return f
		}
	}
	c, s := p.Call, e.calls[p.Call.ID]
	s.sent++
	kind, input, arguments := itemCall, "arguments", c.Arguments
	switch {
	case c.Custom:
		kind, input = itemCustom, "input"
	case arguments == "":
		arguments = "{}"
	}
	e.open(kind)
	e.b = wirejson.AppendStringMember(e.b, "call_id", callID(c.ID, s.sent))
	if c.Namespace != "" {
		e.b = wirejson.AppendStringMember(e.b, "namespace", c.Namespace)
	}
	e.b = wirejson.AppendStringMember(e.b, "name", e.c.ToolName("", c.Name))
	e.b = append(wirejson.AppendStringMember(e.b, input, arguments), '}')
	return nil
}

// maxCallID is the longest id of a call that the vendor's service takes, in bytes.
const maxCallID = 64

// callID is the id of the n-th call that has it: ids are taken once in a conversation,
// and have a longest length.
func callID(id string, n int) string {
	if n > 1 {
		id += "_" + strconv.Itoa(n)
	}
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}
