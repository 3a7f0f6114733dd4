package anthropic

import (
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// minBudget is the smallest budget of thinking that the vendor takes.
const minBudget = 1024

// The types of thinking that are asked for.
const (
	thinkAdaptive = "adaptive"
	thinkEnabled  = "enabled"
	thinkDisabled = "disabled"
)

// thinking is what is asked of the model's thinking.
type thinking struct {
	kind    string // empty for nothing
	budget  int64  // of thinkEnabled
	soft    bool   // the budget stands for an effort, so that it may be smaller
	display string
	effort  llm.Effort // of output_config
}

func (t *thinking) on() bool { return t.kind == thinkAdaptive || t.kind == thinkEnabled }

// plan decides on thinking and on the output limit, which depend on each other and
// on the conversation.
func (w *requestWriter) plan() *fault.Error {
	for _, step := range [...]func() *fault.Error{w.wanted, w.budgeted, w.thinkable, w.shown, w.bounded} {
		if f := step(); f != nil {
			return f
		}
	}
	return nil
}

// wanted takes over what the caller asks for.
func (w *requestWriter) wanted() *fault.Error {
	want, t := w.r.Reasoning, &w.think
	switch {
	case want.Off, want.Effort == llm.EffortNone:
		t.kind = thinkDisabled
	case want.Budget > 0:
		t.kind, t.budget = thinkEnabled, want.Budget
	case want.On, want.Budget < 0, want.Effort != "" && !w.own:
		t.kind = thinkAdaptive
	}
	if want.Effort == "" || want.Effort == llm.EffortNone {
		return nil
	}
	t.effort = want.Effort
	if w.own {
		return nil
	}
	t.effort = want.Effort.Nearest(llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortXHigh, llm.EffortMax)
	if t.effort != want.Effort {
		return w.c.Dropped(llm.FeatureReasoning, w.at(llm.FeatureReasoning))
	}
	return nil
}

// budgeted gives thinking a budget where the upstream knows no other way.
func (w *requestWriter) budgeted() *fault.Error {
	t := &w.think
	if t.kind == thinkAdaptive && w.c.Compat.GetNoAdaptiveThinking() {
		t.kind, t.soft = thinkEnabled, true
		if t.budget = t.effort.Tokens(); t.budget == 0 {
			t.budget = llm.EffortMedium.Tokens()
		}
		t.effort = "" // as old as the lack of the other way
	}
	if t.kind == thinkEnabled && t.budget < minBudget {
		t.budget = minBudget
		return w.c.Dropped(llm.FeatureReasoningBudget, w.at(llm.FeatureReasoningBudget))
	}
	return nil
}

// thinkable leaves thinking out where the vendor would refuse the request with it: if
// the answer is begun already, if a tool must be called, and, with a budget, if
// results of tools follow a turn that does not begin with its signed thinking.
// Adaptive thinking takes turns that begin with anything. A caller of this protocol
// knows all that, apart from thinking that another vendor did in its place.
func (w *requestWriter) thinkable() *fault.Error {
	if !w.think.on() {
		return nil
	}
	mode := w.r.ToolChoice.Mode
	forced := len(w.r.Tools) > 0 && (mode == llm.ChoiceAny || mode == llm.ChoiceTool)
	answered, begun, signed := w.tail()
	if w.own {
		if !w.unsigned() {
			return nil
		}
		forced, begun = false, false
	}
	if !forced && !begun && (w.think.kind != thinkEnabled || !answered || signed) {
		return nil
	}
	w.think.kind = ""
	return w.c.Dropped(llm.FeatureReasoning, w.at(llm.FeatureReasoning))
}

// unsigned reports whether there is thinking in the conversation that is not the vendor's.
func (w *requestWriter) unsigned() bool {
	for i := range w.turns {
		for _, p := range w.turns[i].parts {
			if (p.Kind == llm.PartReasoning || p.Kind == llm.PartRedacted) && !ownState(p) {
				return true
			}
		}
	}
	return false
}

// tail looks at the end of the conversation as it will be written: whether results of
// tools stand in the last turn, whether that is the assistant's and so a begun answer,
// and whether the assistant's last turn begins with the vendor's own thinking.
func (w *requestWriter) tail() (answered, begun, signed bool) {
	role := ""
	for i := len(w.turns) - 1; i >= 0; i-- {
		t := &w.turns[i]
		first := firstWritten(t)
		if first == nil && len(t.results) == 0 {
			continue
		}
		if role == roleAssistant && t.role != role {
			break
		}
		if role == "" {
			begun = t.role == roleAssistant
		}
		if role = t.role; role == roleAssistant {
			signed = first.Kind == llm.PartReasoning || first.Kind == llm.PartRedacted
		} else {
			answered = answered || len(t.results) > 0
		}
	}
	return answered, begun, signed
}

// firstWritten is the first part of a turn that will be written, apart from results.
func firstWritten(t *turn) *llm.Part {
	for _, p := range t.parts {
		switch p.Kind {
		case llm.PartText, llm.PartRefusal:
			if blank(p.Text) {
				continue
			}
		case llm.PartReasoning, llm.PartRedacted:
			if !ownState(p) {
				continue
			}
		case llm.PartNative:
			continue
		case llm.PartMedia:
			if t.role == roleAssistant || p.Media.Kind == llm.Audio || p.Media.Kind == llm.Video {
				continue
			}
		}
		return p
	}
	return nil
}

// ownState reports whether a part of reasoning can be read by the upstream.
func ownState(p *llm.Part) bool {
	want := llm.AnthropicSignature
	if p.Kind == llm.PartRedacted {
		want = llm.AnthropicRedacted
	}
	return p.State != nil && p.State.Kind == want && !p.State.Foreign && p.State.Data != ""
}

// shown asks for what may be shown of the thinking.
func (w *requestWriter) shown() *fault.Error {
	want := w.r.Reasoning
	switch {
	case w.think.on() && want.Show:
		w.think.display = "summarized"
	case w.think.on() && want.Hide:
		w.think.display = "omitted"
	case want.Show && w.think.kind == "" && !w.own:
		// Whether the model thinks unasked is left to it, and so is what it shows.
		return w.c.Dropped(llm.FeatureReasoningDisplay, w.at(llm.FeatureReasoningDisplay))
	}
	if want.Summary == "concise" || want.Summary == "detailed" {
		return w.c.Dropped(llm.FeatureReasoningDisplay, w.at(llm.FeatureReasoningDisplay))
	}
	return nil
}

// bounded sets the output limit, which is demanded and must be above the budget.
func (w *requestWriter) bounded() *fault.Error {
	t, most := &w.think, w.c.MaxOutput
	w.limit = w.r.MaxOutputTokens
	if w.keptField("max_tokens") != nil {
		return nil // zero: the prompt is only to be cached
	}
	at := w.at(llm.FeatureMaxTokens)
	switch {
	case w.limit == 0 && most > 0:
		w.limit = most
	case w.limit == 0:
		w.limit = defaultMaxTokens
		if f := w.c.Dropped(llm.FeatureMaxTokens, at); f != nil {
			return f
		}
	case most > 0 && w.limit > most: // never reached, and refused
		w.limit = most
		if f := w.c.Dropped(llm.FeatureMaxTokens, at); f != nil {
			return f
		}
	}
	if t.kind != thinkEnabled || t.budget < w.limit || w.own && !t.soft {
		return nil
	}
	if t.soft && w.limit >= 2*minBudget && w.r.MaxOutputTokens > 0 {
		t.budget = w.limit / 2
		return nil
	}
	raised := t.budget + w.limit // the answer keeps what it was given
	if most > 0 {
		raised = min(raised, most)
	}
	if raised <= t.budget {
		return w.tooLarge(raised)
	}
	w.limit = raised
	return w.c.Dropped(llm.FeatureMaxTokens, at)
}

// tooLarge refuses a budget that leaves no room for an answer.
func (w *requestWriter) tooLarge(most int64) *fault.Error {
	at := w.at(llm.FeatureReasoningBudget)
	return &fault.Error{
		Class: fault.InvalidRequest,
		Param: at,
		Public: "The reasoning budget of " + strconv.FormatInt(w.think.budget, 10) + " tokens (field " + at + ") does not fit: this model generates at most " +
			strconv.FormatInt(most, 10) + " tokens, reasoning included. Ask for a smaller budget.",
	}
}

// thinkingMembers writes thinking and output_config.
func (w *requestWriter) thinkingMembers() *fault.Error {
	t := &w.think
	if raw := w.keptField("thinking"); raw != nil && !w.c.Compat.GetNoAdaptiveThinking() {
		w.b = wirejson.AppendRawMember(w.b, "thinking", raw)
	} else if t.kind != "" {
		w.b = wirejson.AppendStringMember(append(wirejson.AppendMember(w.b, "thinking"), '{'), "type", t.kind)
		if t.kind == thinkEnabled {
			w.b = wirejson.AppendIntMember(w.b, "budget_tokens", t.budget)
		}
		if t.display != "" {
			w.b = wirejson.AppendStringMember(w.b, "display", t.display)
		}
		if raw := w.keptField("thinking.block_binding"); raw != nil {
			w.b = wirejson.AppendRawMember(w.b, "block_binding", raw)
		}
		w.b = append(w.b, '}')
	}
	return w.outputConfig()
}

func (w *requestWriter) outputConfig() *fault.Error {
	budget := w.keptField("output_config.task_budget")
	schema, f := w.answerFormat()
	if f != nil || w.think.effort == "" && schema == nil && budget == nil {
		return f
	}
	w.b = append(wirejson.AppendMember(w.b, "output_config"), '{')
	if w.think.effort != "" {
		w.b = wirejson.AppendStringMember(w.b, "effort", string(w.think.effort))
	}
	if schema != nil {
		w.b = append(wirejson.AppendMember(w.b, "format"), `{"type":"json_schema","schema":`...)
		w.b = append(append(w.b, schema...), '}')
	}
	if budget != nil {
		w.b = wirejson.AppendRawMember(w.b, "task_budget", budget)
	}
	w.b = append(w.b, '}')
	return nil
}

// answerFormat decides about the form of the answer: a schema is sent, JSON of any
// form can only be asked for in words.
func (w *requestWriter) answerFormat() ([]byte, *fault.Error) {
	form := &w.r.Format
	switch form.Kind {
	case llm.FormatJSON:
		action, f := w.c.Lose(llm.FeatureJSONObject, w.at(llm.FeatureJSONObject))
		if f == nil && action == protocol.Substitute {
			w.format = "Answer with one JSON object and nothing else."
		}
		return nil, f
	case llm.FormatSchema:
		if w.c.Compat.GetNoJsonSchema() || len(form.Schema) == 0 {
			return nil, w.c.Dropped(llm.FeatureJSONSchema, w.at(llm.FeatureJSONSchema))
		}
		if form.Strict != nil && !*form.Strict { // a schema always binds here
			if f := w.c.Dropped(llm.FeatureSchemaStrict, w.at(llm.FeatureSchemaStrict)); f != nil {
				return nil, f
			}
		}
		return form.Schema, nil
	}
	return nil, nil
}
