package configcheck

import (
	"fmt"
	"math"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// Bounds of a condition tree, and of the logical routes that lead to one another.
const (
	MaxConditionDepth = 8
	MaxConditionNodes = 64
	MaxLogicalDepth   = 8
)

func logicalAlone(l *list, r *configv1.LogicalRoute) {
	who := subjectOf(r)
	finite(l, who, "scheduling", r.GetScheduling())
	if m := r.GetMatch(); m != nil && m.GetModel() == "" && len(m.GetPrefixes())+len(m.GetSuffixes())+len(m.GetAliases()) == 0 {
		l.add(who, "match", "logical.match", "an empty match takes nothing; name a model, prefix, suffix or alias, or unset match to take every model")
	}
	if r.GetCondition() != nil {
		w := conditionWalk{l: l, who: who}
		w.walk("condition", r.GetCondition(), 1)
	}
	for i, rw := range r.GetRewrites() {
		rewrite(l, who, fmt.Sprintf("rewrites[%d]", i), rw)
	}
}

type conditionWalk struct {
	l       *list
	who     subject
	nodes   int
	tooDeep bool
	tooMany bool
}

// walk checks a node and what is below it. It stops at the bounds, so a tree of
// any size costs no more than one of the largest allowed.
func (w *conditionWalk) walk(path string, c *configv1.Condition, depth int) {
	if w.nodes++; w.nodes > MaxConditionNodes {
		if !w.tooMany {
			w.l.add(w.who, "condition", "condition.nodes", "the condition has more than %d nodes; split the logical route", MaxConditionNodes)
		}
		w.tooMany = true
		return
	}
	if depth > MaxConditionDepth {
		if !w.tooDeep {
			w.l.add(w.who, path, "condition.depth", "the condition is more than %d levels deep; flatten it", MaxConditionDepth)
		}
		w.tooDeep = true
		return
	}
	members := func(name string, cs *configv1.Conditions) {
		if len(cs.GetConditions()) == 0 {
			w.l.add(w.who, path+"."+name, "condition.empty", "give at least one condition")
		}
		for i, c := range cs.GetConditions() {
			w.walk(fmt.Sprintf("%s.%s.conditions[%d]", path, name, i), c, depth+1)
			if w.tooMany {
				return
			}
		}
	}
	switch n := c.GetNode().(type) {
	case *configv1.Condition_All:
		members("all", n.All)
	case *configv1.Condition_Any:
		members("any", n.Any)
	case *configv1.Condition_Not:
		w.walk(path+".not", n.Not, depth+1)
	case *configv1.Condition_Compare:
		comparison(w.l, w.who, path+".compare", n.Compare)
	default:
		w.l.add(w.who, path, "condition.node", "give all, any, not or compare")
	}
}

// fieldType is what a condition field holds.
type fieldType uint8

const (
	textField fieldType = iota + 1
	numberField
	boolField
	listField  // several texts: equal and in ask for any of them
	looseField // a JSON scalar of the body
)

// typeOf tells the type of a field, and whether it needs a key.
func typeOf(f configv1.ConditionField) (t fieldType, keyed bool) {
	switch f {
	case configv1.ConditionField_CONDITION_FIELD_STREAM, configv1.ConditionField_CONDITION_FIELD_HAS_IMAGES,
		configv1.ConditionField_CONDITION_FIELD_HAS_AUDIO, configv1.ConditionField_CONDITION_FIELD_HAS_DOCUMENTS,
		configv1.ConditionField_CONDITION_FIELD_HAS_TOOLS, configv1.ConditionField_CONDITION_FIELD_THINKING,
		configv1.ConditionField_CONDITION_FIELD_WEB_SEARCH, configv1.ConditionField_CONDITION_FIELD_STRUCTURED_OUTPUT:
		return boolField, false
	case configv1.ConditionField_CONDITION_FIELD_PROMPT_TOKENS, configv1.ConditionField_CONDITION_FIELD_MAX_OUTPUT_TOKENS,
		configv1.ConditionField_CONDITION_FIELD_IMAGES, configv1.ConditionField_CONDITION_FIELD_TOOLS:
		return numberField, false
	case configv1.ConditionField_CONDITION_FIELD_TOOL_NAME, configv1.ConditionField_CONDITION_FIELD_GROUP:
		return listField, false
	case configv1.ConditionField_CONDITION_FIELD_HEADER:
		return textField, true
	case configv1.ConditionField_CONDITION_FIELD_BODY_FIELD:
		return looseField, true
	case configv1.ConditionField_CONDITION_FIELD_UNSPECIFIED:
		return 0, false
	}
	if _, known := configv1.ConditionField_name[int32(f)]; !known {
		return 0, false
	}
	return textField, false
}

const (
	opEqual    = configv1.ConditionOperator_CONDITION_OPERATOR_EQUAL
	opNotEqual = configv1.ConditionOperator_CONDITION_OPERATOR_NOT_EQUAL
	opLess     = configv1.ConditionOperator_CONDITION_OPERATOR_LESS
	opLessEq   = configv1.ConditionOperator_CONDITION_OPERATOR_LESS_OR_EQUAL
	opGreater  = configv1.ConditionOperator_CONDITION_OPERATOR_GREATER
	opGreatEq  = configv1.ConditionOperator_CONDITION_OPERATOR_GREATER_OR_EQUAL
	opIn       = configv1.ConditionOperator_CONDITION_OPERATOR_IN
	opNotIn    = configv1.ConditionOperator_CONDITION_OPERATOR_NOT_IN
	opPrefix   = configv1.ConditionOperator_CONDITION_OPERATOR_PREFIX
	opSuffix   = configv1.ConditionOperator_CONDITION_OPERATOR_SUFFIX
	opContains = configv1.ConditionOperator_CONDITION_OPERATOR_CONTAINS
	opExists   = configv1.ConditionOperator_CONDITION_OPERATOR_EXISTS
)

var (
	order   = []configv1.ConditionOperator{opLess, opLessEq, opGreater, opGreatEq}
	members = []configv1.ConditionOperator{opIn, opNotIn}
	partial = []configv1.ConditionOperator{opPrefix, opSuffix, opContains}
)

func comparison(l *list, who subject, path string, c *configv1.Comparison) {
	t, keyed := typeOf(c.GetField())
	if t == 0 {
		l.add(who, path+".field", "condition.field", "name a field that this release knows")
		return
	}
	if keyed != (c.GetKey() != "") {
		if keyed {
			l.add(who, path+".key", "condition.key", "name the header or body field")
		} else {
			l.add(who, path+".key", "condition.key", "%s takes no key; clear it", c.GetField())
		}
	}
	if c.GetField() == configv1.ConditionField_CONDITION_FIELD_BODY_FIELD && slices.Contains(strings.Split(c.GetKey(), "."), "") {
		l.add(who, path+".key", "condition.key", "name the members that lead to the value, joined by dots, such as metadata.team")
	}
	if c.GetField() == configv1.ConditionField_CONDITION_FIELD_HEADER {
		if c.GetKey() != "" && !headerName(c.GetKey()) {
			l.add(who, path+".key", "header.name", "%s is no name of a header", quote(c.GetKey()))
		}
		switch strings.ToLower(c.GetKey()) {
		case "authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie":
			l.add(who, path+".key", "condition.secret", "%s carries credentials; conditions must not read it", quote(c.GetKey()))
		}
	}
	op := c.GetOperator()
	allowed := op == opEqual || op == opNotEqual
	switch t {
	case textField:
		allowed = allowed || slices.Contains(members, op) || slices.Contains(partial, op) || op == opExists
	case listField:
		allowed = allowed || slices.Contains(members, op) || slices.Contains(partial, op) || op == opExists
	case numberField:
		allowed = allowed || slices.Contains(order, op)
	case looseField:
		allowed = allowed || slices.Contains(order, op) || slices.Contains(members, op) || slices.Contains(partial, op) || op == opExists
	}
	if !allowed {
		l.add(who, path+".operator", "condition.operator", "%s does not go with %s; use another operator", op, c.GetField())
		return
	}
	literal(l, who, path+".literal", t, op, c.GetLiteral())
	words(l, who, path+".literal", c)
}

// fieldWords are the fields that hold one of a few words.
var fieldWords = map[configv1.ConditionField][]string{
	configv1.ConditionField_CONDITION_FIELD_PROTOCOL:  {"openai_chat", "openai_responses", "anthropic_messages", "gemini_generate_content"},
	configv1.ConditionField_CONDITION_FIELD_CLASS:     {"batch", "interactive", "critical"},
	configv1.ConditionField_CONDITION_FIELD_TASK_RISK: {"low", "medium", "high"},
}

// words checks that a comparison with such a field can be true.
func words(l *list, who subject, path string, c *configv1.Comparison) {
	known := fieldWords[c.GetField()]
	if known == nil || slices.Contains(partial, c.GetOperator()) || c.GetOperator() == opExists {
		return
	}
	values := c.GetLiteral().GetListValue().GetValues()
	if v, ok := c.GetLiteral().GetValue().(*configv1.Literal_StringValue); ok {
		values = []string{v.StringValue}
	}
	for _, v := range values {
		if !slices.Contains(known, v) {
			l.add(who, path, "condition.word", "%s is never %s; it is one of %s", c.GetField(), quote(v), strings.Join(known, ", "))
		}
	}
}

// literal checks that the constant is of the type that the field and the
// operator need.
func literal(l *list, who subject, path string, t fieldType, op configv1.ConditionOperator, lit *configv1.Literal) {
	bad := func(want string) { l.add(who, path, "condition.literal", "give %s", want) }
	v := lit.GetValue()
	_, isString := v.(*configv1.Literal_StringValue)
	_, isBool := v.(*configv1.Literal_BoolValue)
	_, isInt := v.(*configv1.Literal_IntValue)
	f, isFloat := v.(*configv1.Literal_NumberValue)
	_, isList := v.(*configv1.Literal_ListValue)
	isNumber := isInt || isFloat
	if isFloat && (math.IsNaN(f.NumberValue) || math.IsInf(f.NumberValue, 0)) {
		bad("a finite number")
		return
	}
	switch {
	case op == opExists:
		if v != nil && !isBool {
			bad("no literal, or true or false")
		}
	case slices.Contains(members, op):
		if !isList || len(lit.GetListValue().GetValues()) == 0 {
			bad("a list with at least one value")
		}
	case slices.Contains(partial, op):
		if !isString || lit.GetStringValue() == "" {
			bad("a text that is not empty")
		}
	case slices.Contains(order, op), t == numberField:
		if !isNumber {
			bad("a number")
		}
	case t == boolField:
		if !isBool {
			bad("true or false")
		}
	case t == looseField:
		if !isString && !isNumber && !isBool {
			bad("a text, a number, true or false")
		}
	default:
		if !isString {
			bad("a text")
		}
	}
}

// efforts are the words for how much a model reasons.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// unfit says why a value is none that the field could have, if its type is right.
func unfit(f configv1.RewriteField, lit *configv1.Literal) string {
	n, isNumber := 0.0, true
	switch v := lit.GetValue().(type) {
	case *configv1.Literal_IntValue:
		n = float64(v.IntValue)
	case *configv1.Literal_NumberValue:
		n = v.NumberValue
	default:
		isNumber = false
	}
	switch text := lit.GetStringValue(); f {
	case configv1.RewriteField_REWRITE_FIELD_REASONING_EFFORT:
		if text != "" && !slices.Contains(efforts, text) {
			return "give one of " + strings.Join(efforts, ", ")
		}
	case configv1.RewriteField_REWRITE_FIELD_HEADER:
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return "give a value without control characters"
		}
	case configv1.RewriteField_REWRITE_FIELD_TEMPERATURE:
		if isNumber && n > 2 {
			return "give a temperature from 0 to 2"
		}
	case configv1.RewriteField_REWRITE_FIELD_TOP_P:
		if isNumber && n > 1 {
			return "give a share from 0 to 1"
		}
	case configv1.RewriteField_REWRITE_FIELD_REASONING_BUDGET, configv1.RewriteField_REWRITE_FIELD_TOP_K, configv1.RewriteField_REWRITE_FIELD_MAX_OUTPUT_TOKENS:
		if isNumber && (n != math.Trunc(n) || n > math.MaxInt32) {
			return "give a whole number"
		}
		if isNumber && n < 1 && f != configv1.RewriteField_REWRITE_FIELD_REASONING_BUDGET {
			return "give a number of at least 1"
		}
	}
	return ""
}

func rewrite(l *list, who subject, path string, rw *configv1.Rewrite) {
	const (
		set    = configv1.RewriteOperation_REWRITE_OPERATION_SET
		preset = configv1.RewriteOperation_REWRITE_OPERATION_DEFAULT
		clamp  = configv1.RewriteOperation_REWRITE_OPERATION_CLAMP
		remove = configv1.RewriteOperation_REWRITE_OPERATION_REMOVE
	)
	op, f := rw.GetOperation(), rw.GetField()
	number, text, keyed := false, false, false
	switch f {
	case configv1.RewriteField_REWRITE_FIELD_MODEL, configv1.RewriteField_REWRITE_FIELD_REASONING_EFFORT, configv1.RewriteField_REWRITE_FIELD_TOOL_CHOICE:
		text = true
	case configv1.RewriteField_REWRITE_FIELD_REASONING_BUDGET, configv1.RewriteField_REWRITE_FIELD_TEMPERATURE, configv1.RewriteField_REWRITE_FIELD_TOP_P,
		configv1.RewriteField_REWRITE_FIELD_TOP_K, configv1.RewriteField_REWRITE_FIELD_MAX_OUTPUT_TOKENS:
		number = true
	case configv1.RewriteField_REWRITE_FIELD_TOOL:
		keyed = true
	case configv1.RewriteField_REWRITE_FIELD_HEADER:
		keyed, text = true, true
	default:
		l.add(who, path+".field", "rewrite.field", "name a field that this release knows")
		return
	}
	if keyed != (rw.GetKey() != "") {
		if keyed {
			l.add(who, path+".key", "rewrite.key", "name the tool or header")
		} else {
			l.add(who, path+".key", "rewrite.key", "%s takes no key; clear it", f)
		}
	}
	if f == configv1.RewriteField_REWRITE_FIELD_HEADER {
		if rw.GetKey() != "" && !headerName(rw.GetKey()) {
			l.add(who, path+".key", "header.name", "%s is no name of a header", quote(rw.GetKey()))
		}
		if why, no := ForbiddenHeader(rw.GetKey()); no {
			l.add(who, path+".key", "header.forbidden", "rewrite another header than %s: %s", quote(rw.GetKey()), why)
		}
	}
	allowed := false
	switch op {
	case set:
		allowed = text || number
	case preset:
		allowed = f != configv1.RewriteField_REWRITE_FIELD_MODEL && f != configv1.RewriteField_REWRITE_FIELD_HEADER && (text || number)
	case clamp:
		allowed = number
	case remove:
		allowed = f != configv1.RewriteField_REWRITE_FIELD_MODEL
	}
	if !allowed {
		l.add(who, path+".operation", "rewrite.operation", "%s does not go with %s; use another operation", op, f)
		return
	}
	switch op {
	case set, preset:
		if why := unfit(f, rw.GetValue()); why != "" {
			l.add(who, path+".value", "rewrite.value", "%s", why)
			return
		}
		switch v := rw.GetValue().GetValue().(type) {
		case *configv1.Literal_StringValue:
			if !text || v.StringValue == "" {
				l.add(who, path+".value", "rewrite.value", "give a value of the field's type that is not empty")
			}
		case *configv1.Literal_IntValue:
			if !number || v.IntValue < 0 {
				l.add(who, path+".value", "rewrite.value", "give a value of the field's type, not below 0")
			}
		case *configv1.Literal_NumberValue:
			if !number || !(v.NumberValue >= 0) || math.IsInf(v.NumberValue, 0) {
				l.add(who, path+".value", "rewrite.value", "give a value of the field's type, finite and not below 0")
			}
		default:
			l.add(who, path+".value", "rewrite.value", "give the value to set: a text or a number, as the field needs")
		}
	case clamp:
		if rw.Min == nil && rw.Max == nil {
			l.add(who, path+".max", "rewrite.clamp", "give min, max or both")
		}
		if rw.Min != nil && rw.Max != nil && rw.GetMin() > rw.GetMax() {
			l.add(who, path+".min", "rewrite.clamp", "min is above max; exchange them")
		}
		if rw.Min != nil && rw.GetMin() < 0 {
			l.add(who, path+".min", "rewrite.clamp", "give a bound that is not below 0")
		}
		if rw.Max != nil && rw.GetMax() < 0 {
			l.add(who, path+".max", "rewrite.clamp", "give a bound that is not below 0")
		}
	}
}
