package rewrite

import (
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Anthropic's bounds of a budget for thinking: at least leastBudget, and less than the
// limit of the output.
const leastBudget = 1024

var (
	anthropicEfforts = []llm.Effort{llm.EffortLow, llm.EffortMedium, llm.EffortHigh, llm.EffortXHigh, llm.EffortMax}
	geminiEfforts    = []llm.Effort{llm.EffortMinimal, llm.EffortLow, llm.EffortMedium, llm.EffortHigh}
)

// effort changes how much the model reasons, in words. A word that the protocol does not
// have has no place.
func (t *tree) effort(rw *configv1.Rewrite, path protocol.Path) bool {
	budget := protocol.ReasoningBudget.Paths(t.p)
	if rw.GetOperation() == remove {
		t.cut(path...)
		return true
	}
	want := llm.Effort(rw.GetValue().GetStringValue())
	if rw.GetOperation() == preset {
		if len(t.find(path...)) > 0 {
			return true
		}
		if t.p == protocol.Gemini && len(t.find(budget[0]...)) > 0 {
			return true // which says as much
		}
	}
	text := string(want)
	switch t.p {
	case protocol.Anthropic:
		if want == llm.EffortNone {
			if rw.GetOperation() == preset && len(t.find("thinking")) > 0 {
				return true
			}
			t.cut(path...)
			t.noThinking()
			return true
		}
		if !slices.Contains(anthropicEfforts, want) {
			return false
		}
	case protocol.Gemini:
		if !slices.Contains(geminiEfforts, want) {
			return false
		}
		t.cut(budget[0]...) // the vendor refuses both
		text = strings.ToUpper(text)
	}
	t.put(word(text), path)
	return true
}

// put is set for a scalar, where nothing changes if it is there already.
func (t *tree) put(value *node, path protocol.Path) {
	if found := t.find(path...); len(found) == 1 {
		t.replace(found[0], value)
		return
	}
	t.set(value, path...)
}

// noThinking switches Anthropic's thinking off.
func (t *tree) noThinking() {
	t.set(object(member("type", word("disabled"))), "thinking")
}

// budget changes how much the model reasons, in tokens.
func (t *tree) budget(rw *configv1.Rewrite, path protocol.Path) bool {
	found := t.find(path...)
	switch rw.GetOperation() {
	case clamp:
		for _, i := range found {
			t.clampItem(i, rw)
		}
		if n, ok := t.intOf(t.find(path...)); ok && n == 0 && t.p == protocol.Anthropic {
			t.noThinking()
		}
		return true
	case remove:
		if t.p == protocol.Anthropic {
			path = path[:1] // thinking without a budget means another thing
		}
		t.cut(path...)
		return true
	case preset:
		if len(t.find(path[:len(path)-1]...)) > 0 {
			return true
		}
	}
	value := number(rw.GetValue())
	switch {
	case value == nil:
		return false
	case t.p == protocol.Gemini:
		t.cut(protocol.ReasoningEffort.Paths(t.p)[0]...) // the vendor refuses both
		t.put(value, path)
		return true
	case string(value.scalar) == "0":
		t.noThinking()
		return true
	}
	if limit, ok := t.outputLimit(); ok && limit <= leastBudget {
		return false // there is no room for it
	}
	t.put(word("enabled"), protocol.Path{"thinking", "type"})
	t.put(value, path)
	return true
}

func (t *tree) outputLimit() (int64, bool) {
	return t.intOf(t.find(protocol.MaxOutputTokens.Paths(t.p)[0]...))
}

// reconcile keeps what was changed within what the vendor takes: Anthropic's budget for
// thinking is less than the limit of the output.
func (t *tree) reconcile() {
	if t.p != protocol.Anthropic {
		return
	}
	path := protocol.ReasoningBudget.Paths(t.p)[0]
	limits := t.find(protocol.MaxOutputTokens.Paths(t.p)[0]...)
	budgets := t.find(path...)
	if len(limits) == 0 || len(budgets) == 0 || !changed(limits[0]) && !changed(budgets[0]) {
		return
	}
	limit, ok1 := t.intOf(limits)
	budget, ok2 := t.intOf(budgets)
	switch {
	case !ok1 || !ok2 || budget < limit:
	case limit <= leastBudget:
		t.noThinking()
	default:
		budgets[0].node = integer(limit - 1)
	}
}

func changed(i *item) bool { return i.node.at != i.value || i.value.IsZero() }
