package resolve

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
)

// words are few, so that comparisons are often true.
var words = []string{"a", "b", "ab", "ba", "aba", "x-team", "batch", "high"}

func literals() *rapid.Generator[*configv1.Literal] {
	word := rapid.SampledFrom(words)
	return rapid.Custom(func(t *rapid.T) *configv1.Literal {
		switch rapid.IntRange(0, 5).Draw(t, "literal") {
		case 0:
			return &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: word.Draw(t, "text")}}
		case 1:
			return &configv1.Literal{Value: &configv1.Literal_IntValue{IntValue: rapid.Int64Range(-1, 3).Draw(t, "int")}}
		case 2:
			return &configv1.Literal{Value: &configv1.Literal_NumberValue{NumberValue: rapid.SampledFrom([]float64{-1, 0, 0.5, 1, 2, math.Inf(1), math.NaN()}).Draw(t, "number")}}
		case 3:
			return &configv1.Literal{Value: &configv1.Literal_BoolValue{BoolValue: rapid.Bool().Draw(t, "bool")}}
		case 4:
			return &configv1.Literal{Value: &configv1.Literal_ListValue{ListValue: &configv1.StringList{Values: rapid.SliceOfNDistinct(word, 0, 3, rapid.ID).Draw(t, "list")}}}
		}
		return nil
	})
}

func comparisons() *rapid.Generator[*configv1.Comparison] {
	return rapid.Custom(func(t *rapid.T) *configv1.Comparison {
		c := &configv1.Comparison{
			Field:    configv1.ConditionField(rapid.IntRange(0, len(configv1.ConditionField_name)).Draw(t, "field")),
			Operator: configv1.ConditionOperator(rapid.IntRange(0, len(configv1.ConditionOperator_name)).Draw(t, "operator")),
			Literal:  literals().Draw(t, "constant"),
		}
		if c.Field == configv1.ConditionField_CONDITION_FIELD_HEADER || c.Field == configv1.ConditionField_CONDITION_FIELD_BODY_FIELD {
			c.Key = rapid.SampledFrom(words).Draw(t, "key")
		}
		return c
	})
}

// trees are conditions of such comparisons up to a depth.
func trees(depth int, leaves *rapid.Generator[*configv1.Comparison]) *rapid.Generator[*configv1.Condition] {
	return rapid.Custom(func(t *rapid.T) *configv1.Condition {
		kind := rapid.IntRange(0, 4).Draw(t, "node")
		if depth <= 1 {
			kind = 3
		}
		fewest := 1
		if depth > configcheck.MaxConditionDepth {
			fewest = 0
		}
		members := func() *configv1.Conditions {
			return &configv1.Conditions{Conditions: rapid.SliceOfN(trees(depth-1, leaves), fewest, 4).Draw(t, "members")}
		}
		switch kind {
		case 0:
			return &configv1.Condition{Node: &configv1.Condition_All{All: members()}}
		case 1:
			return &configv1.Condition{Node: &configv1.Condition_Any{Any: members()}}
		case 2:
			return &configv1.Condition{Node: &configv1.Condition_Not{Not: trees(depth-1, leaves).Draw(t, "not")}}
		}
		return &configv1.Condition{Node: &configv1.Condition_Compare{Compare: leaves.Draw(t, "compare")}}
	})
}

var checker = sync.OnceValues(func() (*configcheck.Checker, error) { return configcheck.New(configcheck.Config{}) })

// accepted reports whether the validator takes a condition.
func accepted(c *configv1.Condition) bool {
	check, err := checker()
	if err != nil {
		panic(err)
	}
	return len(check.CheckResource(&configv1.LogicalRoute{
		TenantId: "ten_1", Name: "r", Condition: c, Targets: []*configv1.RouteTarget{{Model: "m"}},
	})) == 0
}

// meant are comparisons that the validator takes.
func meant() *rapid.Generator[*configv1.Comparison] {
	return comparisons().Filter(func(c *configv1.Comparison) bool {
		return accepted(&configv1.Condition{Node: &configv1.Condition_Compare{Compare: c}})
	})
}

func features() *rapid.Generator[*Features] {
	word := rapid.SampledFrom(append([]string{""}, words...))
	list := rapid.SliceOfN(rapid.SampledFrom(words), 0, 3)
	return rapid.Custom(func(t *rapid.T) *Features {
		text := func() string { return word.Draw(t, "text") }
		number := func() int64 { return rapid.Int64Range(0, 3).Draw(t, "number") }
		yes := func() bool { return rapid.Bool().Draw(t, "bool") }
		return &Features{
			Model: text(), Protocol: text(), Operation: text(), Stream: yes(), PromptTokens: number(), MaxOutputTokens: number(), Images: number(),
			Audio: yes(), Documents: yes(), Tools: number(), ToolNames: list.Draw(t, "tools"), Thinking: yes(), ReasoningEffort: text(), WebSearch: yes(),
			StructuredOutput: yes(), Tenant: list.Draw(t, "tenant"), Project: list.Draw(t, "project"), Consumer: list.Draw(t, "consumer"),
			Groups: list.Draw(t, "groups"), Header: http.Header{"X-Team": list.Draw(t, "header")}, Task: text(), TaskRisk: text(), DataLabel: text(), Class: text(),
		}
	})
}

// interpret says what a condition means, in the plainest way.
func interpret(c *configv1.Condition, f *Features, body map[string]Scalar) bool {
	switch n := c.GetNode().(type) {
	case *configv1.Condition_All:
		for _, m := range n.All.GetConditions() {
			if !interpret(m, f, body) {
				return false
			}
		}
		return true
	case *configv1.Condition_Any:
		for _, m := range n.Any.GetConditions() {
			if interpret(m, f, body) {
				return true
			}
		}
		return false
	case *configv1.Condition_Not:
		return !interpret(n.Not, f, body)
	}
	m := c.GetCompare()
	var values []any
	text := func(s string) {
		values = []any{s}
	}
	list := func(l []string) {
		for _, s := range l {
			values = append(values, s)
		}
	}
	switch strings.TrimPrefix(m.GetField().String(), "CONDITION_FIELD_") {
	case "MODEL":
		text(f.Model)
	case "PROTOCOL":
		text(f.Protocol)
	case "OPERATION":
		text(f.Operation)
	case "REASONING_EFFORT":
		text(f.ReasoningEffort)
	case "TASK":
		text(f.Task)
	case "TASK_RISK":
		text(f.TaskRisk)
	case "DATA_LABEL":
		text(f.DataLabel)
	case "CLASS":
		text(f.Class)
	case "TENANT":
		list(f.Tenant)
	case "PROJECT":
		list(f.Project)
	case "CONSUMER":
		list(f.Consumer)
	case "GROUP":
		list(f.Groups)
	case "TOOL_NAME":
		list(f.ToolNames)
	case "HEADER":
		list(f.Header.Values(m.GetKey()))
	case "BODY_FIELD":
		switch s := body[m.GetKey()]; s.Kind {
		case Text:
			values = []any{s.Text}
		case Number:
			values = []any{s.Number}
		case Bool:
			values = []any{s.Bool}
		case Other:
			values = []any{struct{}{}}
		}
	case "PROMPT_TOKENS":
		values = []any{float64(f.PromptTokens)}
	case "MAX_OUTPUT_TOKENS":
		values = []any{float64(f.MaxOutputTokens)}
	case "IMAGES":
		values = []any{float64(f.Images)}
	case "TOOLS":
		values = []any{float64(f.Tools)}
	case "STREAM":
		values = []any{f.Stream}
	case "HAS_IMAGES":
		values = []any{f.Images > 0}
	case "HAS_AUDIO":
		values = []any{f.Audio}
	case "HAS_DOCUMENTS":
		values = []any{f.Documents}
	case "HAS_TOOLS":
		values = []any{f.Tools > 0}
	case "THINKING":
		values = []any{f.Thinking}
	case "WEB_SEARCH":
		values = []any{f.WebSearch}
	case "STRUCTURED_OUTPUT":
		values = []any{f.StructuredOutput}
	}
	var constant any
	switch v := m.GetLiteral().GetValue().(type) {
	case *configv1.Literal_StringValue:
		constant = v.StringValue
	case *configv1.Literal_IntValue:
		constant = float64(v.IntValue)
	case *configv1.Literal_NumberValue:
		constant = v.NumberValue
	case *configv1.Literal_BoolValue:
		constant = v.BoolValue
	}
	one := func(holds func(v any) bool) bool { return slices.ContainsFunc(values, holds) }
	among := func(v any) bool {
		s, ok := v.(string)
		return ok && slices.Contains(m.GetLiteral().GetListValue().GetValues(), s)
	}
	ordered := func(holds func(sign int) bool) bool {
		return one(func(v any) bool {
			a, ok1 := v.(float64)
			b, ok2 := constant.(float64)
			sign := 0
			if a < b {
				sign = -1
			} else if a > b {
				sign = 1
			}
			return ok1 && ok2 && holds(sign)
		})
	}
	within := func(holds func(v, text string) bool) bool {
		return one(func(v any) bool {
			s, ok := v.(string)
			return ok && holds(s, m.GetLiteral().GetStringValue())
		})
	}
	switch m.GetOperator() {
	case opEqual:
		return one(func(v any) bool { return v == constant })
	case opNotEqual:
		return !one(func(v any) bool { return v == constant })
	case opIn:
		return one(among)
	case opNotIn:
		return !one(among)
	case opLess:
		return ordered(func(sign int) bool { return sign < 0 })
	case opLessEq:
		return ordered(func(sign int) bool { return sign <= 0 })
	case opGreater:
		return ordered(func(sign int) bool { return sign > 0 })
	case opGreatEq:
		return ordered(func(sign int) bool { return sign >= 0 })
	case opPrefix:
		return within(strings.HasPrefix)
	case opSuffix:
		return within(strings.HasSuffix)
	case opContains:
		return within(strings.Contains)
	case opExists:
		there := len(values) > 0 && values[0] != ""
		return there == (constant == nil || constant == true)
	}
	panic("the validator takes an operator that is not known: " + m.String())
}

func TestCompiledConditionsMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := trees(4, meant()).Draw(t, "tree")
		c := compiler{reads: new(reads)}
		when, err := c.compile(tree, 1)
		if err != nil {
			if c.nodes > configcheck.MaxConditionNodes {
				t.Skip("more nodes than are allowed")
			}
			t.Fatalf("the validator takes what does not compile: %v", err)
		}
		for range 8 {
			f := features().Draw(t, "features")
			body := make(map[string]Scalar)
			for _, path := range c.reads.fields {
				s := Scalar{Kind: ScalarKind(rapid.IntRange(0, int(Other)).Draw(t, "kind"))}
				switch s.Kind {
				case Text:
					s.Text = rapid.SampledFrom(words).Draw(t, "value")
				case Number:
					s.Number = rapid.SampledFrom([]float64{-1, 0, 0.5, 1, 2}).Draw(t, "value")
				case Bool:
					s.Bool = rapid.Bool().Draw(t, "value")
				}
				f.Body = append(f.Body, s)
				body[strings.Join(path, ".")] = s
			}
			if got, want := when(f), interpret(tree, f, body); got != want {
				t.Fatalf("%v of %+v is %t, want %t", tree, f, got, want)
			}
		}
	})
}

// What the validator refuses may compile or not, but never to something that fails; what
// is beyond the bounds does not.
func TestConditionsBeyondTheBoundsDoNotCompile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := trees(configcheck.MaxConditionDepth+1, comparisons()).Draw(t, "tree")
		c := compiler{reads: new(reads)}
		when, err := c.compile(tree, 1)
		if err == nil {
			when(new(Features))
			if c.nodes > configcheck.MaxConditionNodes {
				t.Fatalf("%d nodes compile", c.nodes)
			}
		} else if accepted(tree) {
			t.Fatalf("the validator takes %v, which does not compile: %v", tree, err)
		}
	})
	leaf := func() *configv1.Condition {
		return &configv1.Condition{Node: &configv1.Condition_Compare{Compare: &configv1.Comparison{
			Field: configv1.ConditionField_CONDITION_FIELD_STREAM, Operator: opEqual, Literal: &configv1.Literal{Value: &configv1.Literal_BoolValue{BoolValue: true}},
		}}}
	}
	deep := leaf()
	for range configcheck.MaxConditionDepth {
		deep = &configv1.Condition{Node: &configv1.Condition_Not{Not: deep}}
	}
	wide := &configv1.Conditions{}
	for range configcheck.MaxConditionNodes {
		wide.Conditions = append(wide.Conditions, leaf())
	}
	for name, tree := range map[string]*configv1.Condition{"deep": deep, "wide": {Node: &configv1.Condition_All{All: wide}}, "empty": {}, "none": nil} {
		c := compiler{reads: new(reads)}
		if _, err := c.compile(tree, 1); err == nil {
			t.Errorf("%s: compiles", name)
		}
	}
}

func FuzzCondition(f *testing.F) {
	seed, err := proto.Marshal(&configv1.Condition{Node: &configv1.Condition_Not{Not: &configv1.Condition{Node: &configv1.Condition_Compare{Compare: &configv1.Comparison{
		Field: configv1.ConditionField_CONDITION_FIELD_BODY_FIELD, Key: "a.b", Operator: opPrefix, Literal: &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "x"}},
	}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		tree := new(configv1.Condition)
		if proto.Unmarshal(data, tree) != nil {
			return
		}
		c := compiler{reads: new(reads)}
		when, err := c.compile(tree, 1)
		if err != nil {
			if accepted(tree) {
				t.Errorf("the validator takes %v, which does not compile: %v", tree, err)
			}
			return
		}
		when(new(Features))
		when(&Features{Body: make([]Scalar, len(c.reads.fields)), Header: http.Header{"A": {"b"}}, ToolNames: []string{"x"}})
	})
}

func TestConditionAllocatesNothing(t *testing.T) {
	when, f := benchCondition(t)
	if n := testing.AllocsPerRun(100, func() { when(f) }); n != 0 {
		t.Errorf("an evaluation allocates %v times", n)
	}
}

// benchCondition is prompt_tokens > 100000 and not model prefix "gpt-4", which holds.
func benchCondition(t testing.TB) (condition, *Features) {
	t.Helper()
	compare := func(field configv1.ConditionField, op configv1.ConditionOperator, l *configv1.Literal) *configv1.Condition {
		return &configv1.Condition{Node: &configv1.Condition_Compare{Compare: &configv1.Comparison{Field: field, Operator: op, Literal: l}}}
	}
	tree := &configv1.Condition{Node: &configv1.Condition_All{All: &configv1.Conditions{Conditions: []*configv1.Condition{
		compare(configv1.ConditionField_CONDITION_FIELD_PROMPT_TOKENS, opGreater, &configv1.Literal{Value: &configv1.Literal_IntValue{IntValue: 100_000}}),
		{Node: &configv1.Condition_Not{Not: compare(configv1.ConditionField_CONDITION_FIELD_MODEL, opPrefix, &configv1.Literal{Value: &configv1.Literal_StringValue{StringValue: "gpt-4"}})}},
	}}}}
	c := compiler{reads: new(reads)}
	when, err := c.compile(tree, 1)
	if err != nil {
		t.Fatal(err)
	}
	return when, &Features{Model: "gpt-5", PromptTokens: 200_000}
}

func BenchmarkCondition(b *testing.B) {
	when, f := benchCondition(b)
	b.ReportAllocs()
	for b.Loop() {
		if !when(f) {
			b.Fatal("does not hold")
		}
	}
}
