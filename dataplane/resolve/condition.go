package resolve

import (
	"errors"
	"fmt"
	"math"
	"net/textproto"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
)

// condition says whether a request is one that is meant. It allocates nothing.
type condition func(*Features) bool

// compiler turns conditions into closures, within the bounds that they are validated
// against.
type compiler struct {
	reads *reads
	nodes int
}

var (
	errTooDeep   = fmt.Errorf("the condition is more than %d levels deep", configcheck.MaxConditionDepth)
	errTooMany   = fmt.Errorf("the condition has more than %d nodes", configcheck.MaxConditionNodes)
	errNoNode    = errors.New("a node of the condition is empty")
	errNoField   = errors.New("the condition compares a field that is not known")
	errOperator  = errors.New("the operator does not go with the field")
	errLiteral   = errors.New("the constant does not go with the operator")
	errFieldName = errors.New("a header or a member of the body has no name")
)

// compile fails for a tree that is not within the bounds, and for a comparison that has
// no meaning.
func (c *compiler) compile(n *configv1.Condition, depth int) (condition, error) {
	if c.nodes++; c.nodes > configcheck.MaxConditionNodes {
		return nil, errTooMany
	}
	if depth > configcheck.MaxConditionDepth {
		return nil, errTooDeep
	}
	switch n := n.GetNode().(type) {
	case *configv1.Condition_All:
		of, err := c.members(n.All, depth)
		return all(of), err
	case *configv1.Condition_Any:
		of, err := c.members(n.Any, depth)
		return either(of), err
	case *configv1.Condition_Not:
		of, err := c.compile(n.Not, depth+1)
		if err != nil {
			return nil, err
		}
		return func(f *Features) bool {
			f.guess.negated = !f.guess.negated
			held := of(f)
			f.guess.negated = !f.guess.negated
			return !held
		}, nil
	case *configv1.Condition_Compare:
		return c.compare(n.Compare)
	}
	return nil, errNoNode
}

func (c *compiler) members(list *configv1.Conditions, depth int) ([]condition, error) {
	if len(list.GetConditions()) == 0 {
		return nil, errNoNode
	}
	out := make([]condition, 0, len(list.GetConditions()))
	for _, m := range list.GetConditions() {
		of, err := c.compile(m, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, of)
	}
	return out, nil
}

func all(of []condition) condition {
	return func(f *Features) bool {
		for _, c := range of {
			if !c(f) {
				return false
			}
		}
		return true
	}
}

func either(of []condition) condition {
	return func(f *Features) bool {
		for _, c := range of {
			if c(f) {
				return true
			}
		}
		return false
	}
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

func (c *compiler) compare(m *configv1.Comparison) (condition, error) {
	if get := textFeature(m.GetField()); get != nil {
		test, err := textTest(m.GetOperator(), m.GetLiteral())
		if err != nil {
			return nil, err
		}
		when := func(f *Features) bool { return test(get(f)) }
		if m.GetField() == configv1.ConditionField_CONDITION_FIELD_REASONING_EFFORT {
			return asksFor(InputEffort, when), nil
		}
		return when, nil
	}
	if get := numberFeature(m.GetField()); get != nil {
		return numberTest(m.GetOperator(), m.GetLiteral(), get)
	}
	if get := boolFeature(m.GetField()); get != nil {
		return boolTest(m.GetOperator(), m.GetLiteral(), get)
	}
	switch m.GetField() {
	case configv1.ConditionField_CONDITION_FIELD_HEADER:
		name := textproto.CanonicalMIMEHeaderKey(m.GetKey())
		if name == "" {
			return nil, errFieldName
		}
		when, err := listTest(m, func(f *Features) []string { return f.Header[name] })
		return asksFor(InputHeader, when), err
	case configv1.ConditionField_CONDITION_FIELD_BODY_FIELD:
		if m.GetKey() == "" {
			return nil, errFieldName
		}
		test, err := scalarTest(m.GetOperator(), m.GetLiteral())
		if err != nil {
			return nil, err
		}
		at := c.reads.field(m.GetKey())
		return asksFor(InputBody, func(f *Features) bool {
			if at >= len(f.Body) {
				return test(&absent)
			}
			return test(&f.Body[at])
		}), nil
	}
	get := listFeature(m.GetField())
	if get == nil {
		return nil, errNoField
	}
	switch m.GetField() {
	case configv1.ConditionField_CONDITION_FIELD_TOOL_NAME:
		c.reads.tools = true
		when, err := listTest(m, get)
		return asksFor(InputTools, when), err
	case configv1.ConditionField_CONDITION_FIELD_GROUP:
		c.reads.groups = true
	}
	return listTest(m, get)
}

var absent Scalar

func textFeature(f configv1.ConditionField) func(*Features) string {
	switch f {
	case configv1.ConditionField_CONDITION_FIELD_MODEL:
		return func(f *Features) string { return f.Model }
	case configv1.ConditionField_CONDITION_FIELD_PROTOCOL:
		return func(f *Features) string { return f.Protocol }
	case configv1.ConditionField_CONDITION_FIELD_OPERATION:
		return func(f *Features) string { return f.Operation }
	case configv1.ConditionField_CONDITION_FIELD_REASONING_EFFORT:
		return func(f *Features) string { return f.ReasoningEffort }
	case configv1.ConditionField_CONDITION_FIELD_TASK:
		return func(f *Features) string { return f.Task }
	case configv1.ConditionField_CONDITION_FIELD_TASK_RISK:
		return func(f *Features) string { return f.TaskRisk }
	case configv1.ConditionField_CONDITION_FIELD_DATA_LABEL:
		return func(f *Features) string { return f.DataLabel }
	case configv1.ConditionField_CONDITION_FIELD_CLASS:
		return func(f *Features) string { return f.Class }
	}
	return nil
}

func listFeature(f configv1.ConditionField) func(*Features) []string {
	switch f {
	case configv1.ConditionField_CONDITION_FIELD_TOOL_NAME:
		return func(f *Features) []string { return f.ToolNames }
	case configv1.ConditionField_CONDITION_FIELD_GROUP:
		return func(f *Features) []string { return f.Groups }
	case configv1.ConditionField_CONDITION_FIELD_TENANT:
		return func(f *Features) []string { return f.Tenant }
	case configv1.ConditionField_CONDITION_FIELD_PROJECT:
		return func(f *Features) []string { return f.Project }
	case configv1.ConditionField_CONDITION_FIELD_CONSUMER:
		return func(f *Features) []string { return f.Consumer }
	}
	return nil
}

func numberFeature(f configv1.ConditionField) func(*Features) int64 {
	switch f {
	case configv1.ConditionField_CONDITION_FIELD_PROMPT_TOKENS:
		return func(f *Features) int64 { return f.PromptTokens }
	case configv1.ConditionField_CONDITION_FIELD_MAX_OUTPUT_TOKENS:
		return func(f *Features) int64 { return f.MaxOutputTokens }
	case configv1.ConditionField_CONDITION_FIELD_IMAGES:
		return func(f *Features) int64 { return f.Images }
	case configv1.ConditionField_CONDITION_FIELD_TOOLS:
		return func(f *Features) int64 { return f.Tools }
	}
	return nil
}

func boolFeature(f configv1.ConditionField) func(*Features) bool {
	switch f {
	case configv1.ConditionField_CONDITION_FIELD_STREAM:
		return func(f *Features) bool { return f.Stream }
	case configv1.ConditionField_CONDITION_FIELD_HAS_IMAGES:
		return func(f *Features) bool { return f.Images > 0 }
	case configv1.ConditionField_CONDITION_FIELD_HAS_AUDIO:
		return func(f *Features) bool { return f.Audio }
	case configv1.ConditionField_CONDITION_FIELD_HAS_DOCUMENTS:
		return func(f *Features) bool { return f.Documents }
	case configv1.ConditionField_CONDITION_FIELD_HAS_TOOLS:
		return func(f *Features) bool { return f.Tools > 0 }
	case configv1.ConditionField_CONDITION_FIELD_THINKING:
		return func(f *Features) bool { return f.Thinking }
	case configv1.ConditionField_CONDITION_FIELD_WEB_SEARCH:
		return func(f *Features) bool { return f.WebSearch }
	case configv1.ConditionField_CONDITION_FIELD_STRUCTURED_OUTPUT:
		return func(f *Features) bool { return f.StructuredOutput }
	}
	return nil
}

// textTest compares a text with the constant. exists asks whether there is one.
func textTest(op configv1.ConditionOperator, lit *configv1.Literal) (func(string) bool, error) {
	s, isString := lit.GetValue().(*configv1.Literal_StringValue)
	text := lit.GetStringValue()
	switch op {
	case opIn, opNotIn:
		list := lit.GetListValue().GetValues()
		if len(list) == 0 {
			return nil, errLiteral
		}
		in := op == opIn
		return func(v string) bool { return slices.Contains(list, v) == in }, nil
	case opExists:
		want, err := existence(lit)
		return func(v string) bool { return (v != "") == want }, err
	case opEqual, opNotEqual:
		if !isString {
			return nil, errLiteral
		}
		equal := op == opEqual
		return func(v string) bool { return (v == text) == equal }, nil
	}
	test := partial(op, text)
	switch {
	case test == nil:
		return nil, errOperator
	case !isString || s.StringValue == "":
		return nil, errLiteral
	}
	return test, nil
}

// partial looks for the text in another one; nil if the operator is none of those.
func partial(op configv1.ConditionOperator, text string) func(string) bool {
	switch op {
	case opPrefix:
		return func(v string) bool { return strings.HasPrefix(v, text) }
	case opSuffix:
		return func(v string) bool { return strings.HasSuffix(v, text) }
	case opContains:
		return func(v string) bool { return strings.Contains(v, text) }
	}
	return nil
}

// existence is what exists is asked for: true unless the constant says otherwise.
func existence(lit *configv1.Literal) (bool, error) {
	switch v := lit.GetValue().(type) {
	case nil:
		return true, nil
	case *configv1.Literal_BoolValue:
		return v.BoolValue, nil
	}
	return false, errLiteral
}

// listTest asks whether one of several texts compares so; not_equal and not_in whether
// none is equal.
func listTest(m *configv1.Comparison, get func(*Features) []string) (condition, error) {
	op, want := m.GetOperator(), true
	switch op {
	case opExists:
		want, err := existence(m.GetLiteral())
		return func(f *Features) bool { return (len(get(f)) > 0) == want }, err
	case opNotEqual:
		op, want = opEqual, false
	case opNotIn:
		op, want = opIn, false
	}
	test, err := textTest(op, m.GetLiteral())
	if err != nil {
		return nil, err
	}
	return func(f *Features) bool {
		for _, v := range get(f) {
			if test(v) {
				return want
			}
		}
		return !want
	}, nil
}

func numberTest(op configv1.ConditionOperator, lit *configv1.Literal, get func(*Features) int64) (condition, error) {
	switch v := lit.GetValue().(type) {
	case *configv1.Literal_IntValue:
		n := v.IntValue
		switch op {
		case opEqual:
			return func(f *Features) bool { return get(f) == n }, nil
		case opNotEqual:
			return func(f *Features) bool { return get(f) != n }, nil
		case opLess:
			return func(f *Features) bool { return get(f) < n }, nil
		case opLessEq:
			return func(f *Features) bool { return get(f) <= n }, nil
		case opGreater:
			return func(f *Features) bool { return get(f) > n }, nil
		case opGreatEq:
			return func(f *Features) bool { return get(f) >= n }, nil
		}
		return nil, errOperator
	case *configv1.Literal_NumberValue:
		test, err := floatTest(op, v.NumberValue)
		if err != nil {
			return nil, err
		}
		return func(f *Features) bool { return test(float64(get(f))) }, nil
	}
	return nil, errLiteral
}

func floatTest(op configv1.ConditionOperator, n float64) (func(float64) bool, error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, errLiteral
	}
	switch op {
	case opEqual:
		return func(v float64) bool { return v == n }, nil
	case opNotEqual:
		return func(v float64) bool { return v != n }, nil
	case opLess:
		return func(v float64) bool { return v < n }, nil
	case opLessEq:
		return func(v float64) bool { return v <= n }, nil
	case opGreater:
		return func(v float64) bool { return v > n }, nil
	case opGreatEq:
		return func(v float64) bool { return v >= n }, nil
	}
	return nil, errOperator
}

func boolTest(op configv1.ConditionOperator, lit *configv1.Literal, get func(*Features) bool) (condition, error) {
	v, ok := lit.GetValue().(*configv1.Literal_BoolValue)
	if op != opEqual && op != opNotEqual {
		return nil, errOperator
	}
	if !ok {
		return nil, errLiteral
	}
	want := v.BoolValue == (op == opEqual)
	return func(f *Features) bool { return get(f) == want }, nil
}

// scalarTest compares a member of the body with a constant. A value of another type than
// the constant's is neither equal to it, nor less, nor greater.
func scalarTest(op configv1.ConditionOperator, lit *configv1.Literal) (func(*Scalar) bool, error) {
	if op == opExists {
		want, err := existence(lit)
		return func(v *Scalar) bool { return (v.Kind != Absent) == want }, err
	}
	equal := true
	switch op {
	case opNotEqual:
		op, equal = opEqual, false
	case opNotIn:
		op, equal = opIn, false
	}
	switch l := lit.GetValue().(type) {
	case *configv1.Literal_StringValue, *configv1.Literal_ListValue:
		test, err := textTest(op, lit)
		return func(v *Scalar) bool { return (v.Kind == Text && test(v.Text)) == equal }, err
	case *configv1.Literal_BoolValue:
		if op != opEqual {
			return nil, errLiteral
		}
		return func(v *Scalar) bool { return (v.Kind == Bool && v.Bool == l.BoolValue) == equal }, nil
	case *configv1.Literal_IntValue:
		test, err := floatTest(op, float64(l.IntValue))
		return func(v *Scalar) bool { return (v.Kind == Number && test(v.Number)) == equal }, err
	case *configv1.Literal_NumberValue:
		test, err := floatTest(op, l.NumberValue)
		return func(v *Scalar) bool { return (v.Kind == Number && test(v.Number)) == equal }, err
	}
	return nil, errLiteral
}
