// Package rewrite changes requests as logical routes say: a closed list of settings in
// the body, in the words of the caller's protocol, and headers. It splices; of what it
// does not change every byte stays.
package rewrite

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

const (
	set    = configv1.RewriteOperation_REWRITE_OPERATION_SET
	preset = configv1.RewriteOperation_REWRITE_OPERATION_DEFAULT
	clamp  = configv1.RewriteOperation_REWRITE_OPERATION_CLAMP
	remove = configv1.RewriteOperation_REWRITE_OPERATION_REMOVE
)

// settings are the fields that are a member of the body.
var settings = map[configv1.RewriteField]protocol.Setting{
	configv1.RewriteField_REWRITE_FIELD_REASONING_EFFORT:  protocol.ReasoningEffort,
	configv1.RewriteField_REWRITE_FIELD_REASONING_BUDGET:  protocol.ReasoningBudget,
	configv1.RewriteField_REWRITE_FIELD_TOOL_CHOICE:       protocol.ToolChoice,
	configv1.RewriteField_REWRITE_FIELD_TEMPERATURE:       protocol.Temperature,
	configv1.RewriteField_REWRITE_FIELD_TOP_P:             protocol.TopP,
	configv1.RewriteField_REWRITE_FIELD_TOP_K:             protocol.TopK,
	configv1.RewriteField_REWRITE_FIELD_MAX_OUTPUT_TOKENS: protocol.MaxOutputTokens,
}

// Edits are what logical routes change in a body of the protocol, one rewrite after the
// other, each on what the ones before it left. They do not overlap. skipped names the
// rewrites that the protocol, or this very request, has no place for, such as "set
// top_k". What a rewrite would leave as it is makes no edit.
//
// A body that is not of a generation has no place for any of them: s is then nil.
func Edits(routes []*configv1.LogicalRoute, body []byte, s *protocol.Shape, p protocol.Name) (edits []protocol.Edit, skipped []string) {
	var t *tree
	for _, r := range routes {
		for _, rw := range r.GetRewrites() {
			f := rw.GetField()
			if f == configv1.RewriteField_REWRITE_FIELD_HEADER || f == configv1.RewriteField_REWRITE_FIELD_MODEL {
				continue
			}
			if t == nil && s != nil && len(body) > 0 {
				t = newTree(body, s, p)
			}
			if t == nil || !t.apply(rw) {
				skipped = append(skipped, nameOf(rw))
			}
		}
	}
	if t == nil {
		return nil, skipped
	}
	t.reconcile()
	return t.edits(), skipped
}

// Changes reports whether logical routes change anything in bodies.
func Changes(routes []*configv1.LogicalRoute) bool {
	return slices.ContainsFunc(routes, func(r *configv1.LogicalRoute) bool {
		return slices.ContainsFunc(r.GetRewrites(), func(rw *configv1.Rewrite) bool {
			f := rw.GetField()
			return f != configv1.RewriteField_REWRITE_FIELD_HEADER && f != configv1.RewriteField_REWRITE_FIELD_MODEL
		})
	})
}

// nameOf names a rewrite in records.
func nameOf(rw *configv1.Rewrite) string {
	word := func(s, prefix string) string { return strings.ToLower(strings.TrimPrefix(s, prefix)) }
	name := word(rw.GetOperation().String(), "REWRITE_OPERATION_") + " " + word(rw.GetField().String(), "REWRITE_FIELD_")
	if rw.GetKey() != "" {
		name += " " + rw.GetKey()
	}
	return name
}

// Headers are what logical routes change in the headers of upstream calls. Those that
// configuration must not touch are not among them.
func Headers(routes []*configv1.LogicalRoute) []*configv1.HeaderOverride {
	var out []*configv1.HeaderOverride
	for _, r := range routes {
		for _, rw := range r.GetRewrites() {
			if rw.GetField() != configv1.RewriteField_REWRITE_FIELD_HEADER {
				continue
			}
			if _, no := configcheck.ForbiddenHeader(rw.GetKey()); no {
				continue
			}
			h := &configv1.HeaderOverride{Name: http.CanonicalHeaderKey(rw.GetKey())}
			switch rw.GetOperation() {
			case set:
				h.Action, h.Value = configv1.HeaderAction_HEADER_ACTION_SET, rw.GetValue().GetStringValue()
			case remove:
				h.Action = configv1.HeaderAction_HEADER_ACTION_REMOVE
			default:
				continue
			}
			out = append(out, h)
		}
	}
	return out
}

// apply reports false if there is no place for the rewrite.
func (t *tree) apply(rw *configv1.Rewrite) bool {
	field := rw.GetField()
	if field == configv1.RewriteField_REWRITE_FIELD_TOOL {
		if rw.GetOperation() != remove {
			return false
		}
		t.removeTool(rw.GetKey())
		return true
	}
	setting, ok := settings[field]
	paths := setting.Paths(t.p)
	if !ok || len(paths) == 0 {
		return false
	}
	switch setting {
	case protocol.ToolChoice:
		return t.toolChoice(rw)
	case protocol.ReasoningEffort:
		return t.effort(rw, paths[0])
	case protocol.ReasoningBudget:
		return t.budget(rw, paths[0])
	case protocol.MaxOutputTokens:
		if rw.GetOperation() == remove && t.p == protocol.Anthropic {
			return false // its vendor demands one
		}
	}
	return t.plain(rw, paths)
}

// plain changes a setting that is a number of its own.
func (t *tree) plain(rw *configv1.Rewrite, paths []protocol.Path) bool {
	var found []*item
	for _, path := range paths {
		found = append(found, t.find(path...)...)
	}
	switch rw.GetOperation() {
	case clamp:
		for _, i := range found {
			t.clampItem(i, rw)
		}
		return true
	case remove:
		for _, path := range paths {
			t.cut(path...)
		}
		return true
	case preset:
		if len(found) > 0 {
			return true
		}
	}
	value := number(rw.GetValue())
	if value == nil {
		return false
	}
	for _, i := range found {
		t.replace(i, value)
	}
	if len(found) == 0 {
		t.set(value, paths[0]...)
	}
	return true
}

// replace puts a scalar in the place of a value, if it is another one.
func (t *tree) replace(i *item, value *node) {
	if string(t.bytes(i.node)) != string(value.scalar) {
		i.node = value
	}
}

// clampItem brings a number within bounds. Another value is left to the upstream.
func (t *tree) clampItem(i *item, rw *configv1.Rewrite) {
	v, err := strconv.ParseFloat(string(t.bytes(i.node)), 64)
	switch {
	case err != nil:
	case rw.Min != nil && v < float64(rw.GetMin()):
		i.node = integer(rw.GetMin())
	case rw.Max != nil && v > float64(rw.GetMax()):
		i.node = integer(rw.GetMax())
	}
}

func integer(n int64) *node { return &node{scalar: strconv.AppendInt(nil, n, 10)} }

// number is a constant as JSON; nil if it is none.
func number(lit *configv1.Literal) *node {
	switch v := lit.GetValue().(type) {
	case *configv1.Literal_IntValue:
		return integer(v.IntValue)
	case *configv1.Literal_NumberValue:
		return &node{scalar: strconv.AppendFloat(nil, v.NumberValue, 'g', -1, 64)}
	}
	return nil
}

// intOf is a value that is a whole number.
func (t *tree) intOf(items []*item) (int64, bool) {
	if len(items) == 0 {
		return 0, false
	}
	r := new(wirejson.Reader)
	r.ResetLenient(t.bytes(items[0].node))
	return r.Int()
}
