package gemini

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// thinking writes thinkingConfig: a level for current models, a budget for those that
// know no level. A budget that a caller of this protocol states stays one.
func (e *requestEncoder) thinking() *fault.Error {
	want := e.r.Reasoning
	if !want.Stated() {
		return nil
	}
	level, budget, stated := "", int64(0), false
	switch {
	case e.c.Compat.GetNoThinkingLevel():
		budget, stated = budgetOf(want)
	case e.own && want.Effort == "" && (want.Budget != 0 || want.Off):
		budget, stated = want.Budget, true
	default:
		var feature llm.Feature
		if level, feature = levelOf(want); feature != llm.Core {
			if _, f := e.c.Lose(feature, string(feature)); f != nil {
				return f
			}
		}
	}
	show := want.Show || want.Summary != ""
	if level == "" && !stated && !show && !want.Hide {
		return nil
	}
	e.b = append(wirejson.AppendMember(e.b, "thinkingConfig"), '{')
	if show || want.Hide {
		e.b = wirejson.AppendBoolMember(e.b, "includeThoughts", show)
	}
	if level != "" {
		e.b = wirejson.AppendStringMember(e.b, "thinkingLevel", level)
	}
	if stated {
		e.b = wirejson.AppendIntMember(e.b, "thinkingBudget", budget)
	}
	e.b = append(e.b, '}')
	return nil
}

// levelOf is the level for a wish; empty leaves it to the model. The feature says what
// of the wish the level only comes near to.
func levelOf(want llm.Reasoning) (level string, near llm.Feature) {
	effort := want.Effort
	switch {
	case want.Off || effort == llm.EffortNone:
		return "MINIMAL", llm.FeatureReasoning // it cannot be switched off
	case effort == "" && want.Budget > 0:
		effort, near = llm.EffortOf(want.Budget), llm.FeatureReasoningBudget
	case effort == "":
		return "", llm.Core
	}
	nearest := effort.Nearest(llm.EffortMinimal, llm.EffortLow, llm.EffortMedium, llm.EffortHigh)
	if nearest != effort && near == llm.Core {
		near = llm.FeatureReasoning
	}
	return strings.ToUpper(string(nearest)), near
}

// budgetOf is the budget for a wish; -1 is the model's choice.
func budgetOf(want llm.Reasoning) (budget int64, stated bool) {
	switch {
	case want.Off || want.Effort == llm.EffortNone && want.Budget == 0:
		return 0, true
	case want.Budget != 0:
		return want.Budget, true
	case want.Effort != "":
		return want.Effort.Tokens(), true
	}
	return -1, want.On
}
