package fakeprovider

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// answer is what is said, whatever the protocol.
type answer struct {
	id        string
	model     string
	created   int64
	reasoning string
	pieces    []string // the text, in deltas; no element is empty
	calls     []ToolCall
	stop      Stop
	stopWord  string
	usage     Usage // disjoint counts
	noUsage   bool

	signature string // opaque state that goes with reasoning and calls
	redacted  string // that of thinking that cannot be read; empty for none

	refusal  []string // what is said instead of an answer, in deltas
	category string   // of the refusal
	blocked  string   // why the prompt is
	citation *Citation
	image    []byte
	mixed    bool // the pieces of calls interleave
}

func (a *answer) text() string { return strings.Join(a.pieces, "") }

func (a *answer) refused() string { return strings.Join(a.refusal, "") }

// saidAndRefused is the text and the refusal in the OpenAI protocols, where a text that
// ends in a refusal is one.
func (a *answer) saidAndRefused() (said, refused []string) {
	if a.stop == StopRefusal && len(a.refusal) == 0 {
		return nil, a.pieces
	}
	return a.pieces, a.refusal
}

// compose decides the answer to a request.
func (c *call) compose() *answer {
	a := &answer{
		model:     c.ask.model,
		created:   c.p.cfg.Now().Unix(),
		reasoning: c.step.Reasoning,
		noUsage:   c.step.OmitUsage,
		stopWord:  c.step.StopSequence,
		refusal:   words(c.step.Refusal),
		category:  c.step.RefusalCategory,
		blocked:   c.step.BlockReason,
		image:     c.step.Image,
		mixed:     c.step.Interleave,
	}
	if c.step.Model != "" {
		a.model = c.step.Model
	}
	a.id = c.answerID()
	c.say(a)
	if len(a.pieces) > 0 {
		a.citation = c.step.Citation
	}
	cut := c.limit(a)
	c.mint(a)
	for i := range a.calls {
		if a.calls[i].ID == "" && (c.protocol != Gemini || thinkingModel(c.ask.model)) { // older models give none
			a.calls[i].ID = c.callID(i)
		}
		if a.calls[i].Arguments == "" {
			a.calls[i].Arguments = "{}"
		}
	}
	switch {
	case c.step.Stop != "":
		a.stop = c.step.Stop
	case a.blocked != "":
		a.stop = StopFiltered
	case len(a.calls) > 0:
		a.stop = StopTools
	case len(a.refusal) > 0:
		a.stop = StopRefusal
	case cut:
		a.stop = StopLength
	default:
		a.stop = StopEnd
	}
	a.usage = c.count(a)
	return a
}

// mint makes the opaque state of an answer, and stores what the request wants stored.
func (c *call) mint(a *answer) {
	nonce := c.ids.hash("state", 0)
	switch c.protocol {
	case Anthropic:
		a.signature = seal(nonce, thinkingScope, a.reasoning)
		if c.step.RedactedThinking {
			a.redacted = seal(nonce, redactedScope, "")
		}
	case Responses:
		a.signature = seal(nonce, reasoningScope(c.key), "")
		if string(c.ask.top["store"]) == "false" {
			return
		}
		for _, id := range []string{a.id, c.ids.hex("rs_", 0), c.ids.hex("msg_", 0), c.ids.hex("ig_", 0)} {
			c.p.stored.add(id)
		}
		for i := range a.calls {
			c.p.stored.add(c.ids.hex("fc_", i))
		}
	case Gemini:
		if thinkingModel(c.ask.model) { // older ones do without
			a.signature = seal(nonce, thoughtScope, "")
		}
	}
}

// say fills in text and calls.
func (c *call) say(a *answer) {
	s := &c.step
	scripted := true
	switch {
	case len(s.Pieces) > 0:
		a.pieces = slices.DeleteFunc(slices.Clone(s.Pieces), func(p string) bool { return p == "" })
	case s.Text != "":
		a.pieces = words(s.Text)
	case s.Chunks > 0 || s.ChunkBytes > 0:
		a.pieces = filler(max(s.Chunks, 1), max(s.ChunkBytes, 1))
	default:
		scripted = false
	}
	if s.BlockReason != "" {
		a.pieces, a.reasoning = nil, ""
		return
	}
	a.calls = slices.Clone(s.ToolCalls)
	if scripted || len(a.calls) > 0 || s.Silent || s.Refusal != "" || len(s.Image) > 0 {
		return
	}
	if c.ask.wantsCall() {
		tools := c.ask.callable()
		n := max(s.ParallelCalls, 1)
		if c.ask.single {
			n = 1
		}
		for i := range n {
			t := tools[i%len(tools)]
			a.calls = append(a.calls, ToolCall{Name: t.name, Arguments: string(appendJSON(nil, sample(t.schema, 0)))})
		}
		return
	}
	if c.ask.json {
		text := string(appendJSON(nil, obj("text", c.greeting())))
		if len(c.ask.schema) > 0 {
			text = string(appendJSON(nil, sample(c.ask.schema, 0)))
		}
		a.pieces = words(text)
		return
	}
	a.pieces = words(c.greeting())
}

// greeting is the default text.
func (c *call) greeting() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Hello from the built-in provider: model %s over %s.", c.ask.model, title(c.protocol))
	switch {
	case c.ask.last == resultTurn && c.ask.lastResult != "":
		fmt.Fprintf(&b, " The tool answered: %s", excerpt(c.ask.lastResult))
	case c.ask.last == resultTurn:
		b.WriteString(" The tool answered with nothing.")
	case c.ask.lastUser != "":
		fmt.Fprintf(&b, " You said: %s", excerpt(c.ask.lastUser))
	}
	return b.String()
}

// title is the protocol's name for people.
func title(p Protocol) string {
	switch p {
	case Chat:
		return "OpenAI Chat Completions"
	case Responses:
		return "OpenAI Responses"
	case Anthropic:
		return "Anthropic Messages"
	}
	return "Gemini generateContent"
}

// excerpt is the beginning of s on one line.
func excerpt(s string) string {
	const most = 80
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}

// words cuts s behind its spaces.
func words(s string) []string {
	return slices.DeleteFunc(strings.SplitAfter(s, " "), func(w string) bool { return w == "" })
}

// filler is n pieces of size bytes each, within MaxFiller. Every piece begins with
// its number as far as that fits, so that a lost one is noticed.
func filler(n, size int) []string {
	size = min(size, MaxFiller)
	n = min(n, MaxFiller/size)
	out := make([]string, n)
	pad := strings.Repeat("x", size)
	for i := range out {
		number := fmt.Sprintf("%d ", i)
		if len(number) >= size {
			number = ""
		}
		out[i] = number + pad[len(number):]
	}
	return out
}

// limit cuts the text at the request's output limit, four bytes a token. Texts that a
// script sets are sent whole: the script means what it says.
func (c *call) limit(a *answer) (cut bool) {
	s := &c.step
	if !c.ask.hasLimit || s.Text != "" || len(s.Pieces) > 0 || s.Chunks > 0 || s.ChunkBytes > 0 || len(a.calls) > 0 {
		return false
	}
	text := a.text()
	if c.ask.limit >= tokens(len(text)) {
		return false
	}
	end := int(c.ask.limit) * bytesPerToken
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	a.pieces = words(text[:end])
	return true
}

const bytesPerToken = 4

func tokens(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

// count makes the token counts of an answer.
func (c *call) count(a *answer) Usage {
	var u Usage
	if c.step.Usage != nil {
		u = *c.step.Usage
	}
	if u.Input == 0 {
		u.Input = tokens(c.ask.prompt)
	}
	if c.step.Usage == nil && c.admission != nil {
		cached := &c.admission.cached
		u.Cached, u.CacheWrite5m, u.CacheWrite1h = cached.read, cached.written5m, cached.written1h
		u.Input -= u.prompt() - u.Input
	}
	if u.Output == 0 {
		n := len(a.text()) + len(a.refused())
		for _, tc := range a.calls {
			n += len(tc.Arguments)
		}
		u.Output = tokens(n)
	}
	if c.step.Usage == nil && a.reasoning != "" {
		u.Reasoning = tokens(len(a.reasoning))
	}
	u.Input, u.Output = max(u.Input, 0), max(u.Output, 0)
	return u
}

// prompt is the whole input in the sense of OpenAI and Gemini.
func (u Usage) prompt() int64 { return u.Input + u.Cached + u.written() }

func (u Usage) written() int64 { return u.CacheWrite5m + u.CacheWrite1h }

// completion is the whole output in the sense of all but Gemini.
func (u Usage) completion() int64 { return u.Output + u.Reasoning }

func (c *call) answerID() string {
	switch c.protocol {
	case Chat:
		return c.ids.short("chatcmpl-", 0, 29)
	case Responses:
		return c.ids.hex("resp_", 0)
	case Anthropic:
		return c.ids.short("msg_01", 0, 22)
	}
	return c.ids.short("", 0, 22)
}

func (c *call) callID(i int) string {
	switch c.protocol {
	case Anthropic:
		return c.ids.short("toolu_01", i, 22)
	case Gemini:
		return c.ids.short("", i+1, 16)
	}
	return c.ids.short("call_", i, 24)
}

// sample makes a value that fits a JSON Schema or the OpenAPI subset of Gemini: every
// property, the first enum value or alternative. References are not
// followed; where it does not know better, the value is a string.
func sample(schema jsontext.Value, depth int) any {
	const deepest = 8
	var s struct {
		Type       jsontext.Value   `json:"type"`
		Enum       []jsontext.Value `json:"enum"`
		Const      jsontext.Value   `json:"const"`
		AnyOf      []jsontext.Value `json:"anyOf"`
		Properties jsontext.Value   `json:"properties"`
		Items      jsontext.Value   `json:"items"`
		Minimum    *float64         `json:"minimum"`
	}
	if len(schema) == 0 || decode(schema, &s) != nil {
		return obj()
	}
	switch {
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0 && depth < deepest:
		return sample(s.AnyOf[0], depth+1)
	}
	switch schemaType(s.Type) {
	case "object":
		o := obj()
		if depth >= deepest {
			return o
		}
		for name, prop := range members(s.Properties) {
			o = o.with(name, sample(prop, depth+1))
		}
		return o
	case "array":
		if depth >= deepest || len(s.Items) == 0 {
			return list{}
		}
		return list{sample(s.Items, depth+1)}
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	if depth == 0 {
		return obj() // arguments and structured answers are objects
	}
	return "example"
}

// schemaType is the first type of a schema, in lower case: Gemini writes OBJECT.
func schemaType(v jsontext.Value) string {
	var one string
	var many []string
	if v.Kind() == jsontext.KindBeginArray {
		if decode(v, &many) == nil && len(many) > 0 {
			one = many[0]
		}
	} else if len(v) > 0 {
		_ = decode(v, &one) // anything but a string has no type
	}
	return strings.ToLower(one)
}
