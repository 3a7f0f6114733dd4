package gemini

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// maxStopSequences is how many the provider takes.
const maxStopSequences = 5

// UpstreamTarget asks for the model in the path and for a stream of events.
func (*Codec) UpstreamTarget(_ *llm.Request, c *protocol.Conversion) (protocol.Target, map[string]string) {
	t := protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpGenerate, Model: c.Model, Stream: c.Stream, Version: "v1beta"}
	if c.From == protocol.Gemini && c.Version != "" {
		t.Version = c.Version
	}
	if c.Stream {
		t.Framing, t.RawQuery = protocol.FramingSSE, "alt=sse"
	}
	return t, nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	r    *llm.Request
	c    *protocol.Conversion
	conv *llm.Conversation
	own  bool // the caller speaks this protocol too
	b    []byte

	config []written // fields of generationConfig that come from extras, in their order
	top    []written // and of the request
	calls  []written // and of toolConfig
	search bool      // a web search of another protocol becomes googleSearch
}

// written is a field with its value.
type written struct {
	name string
	raw  []byte
}

func field(list []written, name string) []byte {
	for _, w := range list {
		if w.name == name {
			return w.raw
		}
	}
	return nil
}

// EncodeRequest writes a generateContent request. The model and the wish for a stream
// are in the path, see UpstreamTarget.
func (*Codec) EncodeRequest(r *llm.Request, c *protocol.Conversion) ([]byte, *fault.Error) {
	e := &requestEncoder{r: r, c: c, own: c.From == protocol.Gemini}
	for _, step := range [...]func() *fault.Error{
		e.extras, e.converse, e.open, e.system, e.tools, e.toolConfig, e.contents, e.generationConfig, e.rest,
	} {
		if f := step(); f != nil {
			return nil, f
		}
	}
	return append(e.b, '}'), nil
}

// open makes room for the texts and begins the body.
func (e *requestEncoder) open() *fault.Error {
	size := 1024
	for i := range e.r.Messages {
		for j := range e.r.Messages[i].Parts {
			p := &e.r.Messages[i].Parts[j]
			size += 64 + len(p.Text) + len(p.Text)/16
			if p.Media != nil {
				size += len(p.Media.Data)
			}
			if p.Call != nil {
				size += len(p.Call.Arguments)
			}
			if p.Result != nil {
				size += len(p.Result.Raw)
				for k := range p.Result.Parts {
					size += 64 + len(p.Result.Parts[k].Text)
				}
			}
		}
	}
	for i := range e.r.Tools {
		size += 128 + len(e.r.Tools[i].Description) + len(e.r.Tools[i].Schema)
	}
	e.b = append(make([]byte, 0, size), '{')
	return nil
}

// converse brings the turns into the strict form that the protocol wants.
func (e *requestEncoder) converse() *fault.Error {
	var lost *fault.Error
	action := protocol.Action(0)
	conv, err := e.r.Converse(func(p llm.Part) llm.Part {
		if action == 0 && lost == nil {
			action, lost = e.c.Lose(llm.FeatureSystemPosition, "messages")
		}
		switch {
		case p.Kind != llm.PartText || p.Text == "":
			return p
		case action == protocol.Drop:
			return llm.Part{}
		}
		return llm.Part{Kind: llm.PartText, Text: "<system>\n" + p.Text + "\n</system>", Cache: p.Cache}
	})
	if lost != nil {
		return lost
	}
	if err != nil {
		return protocol.PairFault(err)
	}
	e.conv = conv
	for i := range e.r.Messages {
		if e.r.Messages[i].Name != "" {
			return e.c.Dropped(llm.FeatureParticipantName, "messages[].name")
		}
	}
	return nil
}

// generationConfig writes what bounds and shapes the answer.
func (e *requestEncoder) generationConfig() *fault.Error {
	start := len(e.b)
	e.b = append(wirejson.AppendMember(e.b, "generationConfig"), '{')
	empty := len(e.b)
	for _, write := range [...]func() *fault.Error{e.limits, e.format, e.thinking} {
		if f := write(); f != nil {
			return f
		}
	}
	for _, w := range e.config {
		e.b = wirejson.AppendRawMember(e.b, w.name, w.raw)
	}
	if len(e.b) == empty {
		e.b = e.b[:start]
		return nil
	}
	e.b = append(e.b, '}')
	return nil
}

func (e *requestEncoder) limits() *fault.Error {
	r := e.r
	for _, s := range [...]struct {
		name    string
		value   llm.Number
		feature llm.Feature
	}{
		{"temperature", r.Temperature, llm.FeatureTemperature},
		{"topP", r.TopP, llm.FeatureTopP},
		{"topK", r.TopK, llm.FeatureTopK},
	} {
		switch {
		case s.value == "":
		case e.c.Compat.GetNoSampling():
			if f := e.c.Dropped(s.feature, string(s.feature)); f != nil {
				return f
			}
		default:
			e.b = append(wirejson.AppendMember(e.b, s.name), s.value...)
		}
	}
	if most := r.MaxOutputTokens; most > 0 {
		if e.c.MaxOutput > 0 && most > e.c.MaxOutput {
			if _, f := e.c.Lose(llm.FeatureMaxTokens, "max_tokens"); f != nil {
				return f
			}
			most = e.c.MaxOutput
		}
		e.b = wirejson.AppendIntMember(e.b, "maxOutputTokens", most)
	}
	stops := r.Stop
	if len(stops) > maxStopSequences {
		if f := e.c.Dropped(llm.FeatureStop, "stop"); f != nil {
			return f
		}
		stops = stops[:maxStopSequences]
	}
	if len(stops) > 0 {
		e.b = append(wirejson.AppendMember(e.b, "stopSequences"), '[')
		for _, s := range stops {
			e.b = wirejson.AppendString(wirejson.AppendElement(e.b), s)
		}
		e.b = append(e.b, ']')
	}
	return nil
}

func (e *requestEncoder) format() *fault.Error {
	form := e.r.Format
	if form.Kind == llm.FormatSchema && e.c.Compat.GetNoJsonSchema() {
		if _, f := e.c.Lose(llm.FeatureJSONSchema, "response_format"); f != nil {
			return f
		}
		form.Schema = nil
	}
	if form.Kind == llm.FormatText {
		return nil
	}
	if field(e.config, "responseMimeType") == nil {
		e.b = wirejson.AppendStringMember(e.b, "responseMimeType", "application/json")
	}
	if form.Kind == llm.FormatSchema && len(form.Schema) > 0 {
		e.b = wirejson.AppendRawMember(e.b, "responseJsonSchema", form.Schema)
	}
	return nil
}

// rest writes what stands beside the prompt.
func (e *requestEncoder) rest() *fault.Error {
	for _, w := range e.top {
		e.b = wirejson.AppendRawMember(e.b, w.name, w.raw)
	}
	return nil
}

// extras decides on all that not every protocol has.
func (e *requestEncoder) extras() *fault.Error {
	q := *e.r
	q.Extras = nil
	for _, x := range e.r.Extras {
		if !e.own || !e.keep(x) {
			q.Extras = append(q.Extras, x)
		}
	}
	for _, x := range [...]struct {
		said    string
		feature llm.Feature
	}{{e.r.User, llm.FeatureUser}, {e.r.CacheKey, llm.FeatureCacheKey}} {
		if x.said != "" {
			if f := e.c.Dropped(x.feature, callerField(e.c.From, x.feature)); f != nil {
				return f
			}
		}
	}
	f := e.c.Extras(&q, e.carry)
	for _, l := range e.c.Losses {
		e.search = e.search || l.Feature == llm.FeatureWebSearch && l.Action == protocol.Substitute
	}
	return f
}

// callerField is where callers of other protocols say who the end user is, and which
// calls share a prompt.
func callerField(from protocol.Name, f llm.Feature) string {
	switch {
	case f == llm.FeatureCacheKey:
		return "prompt_cache_key"
	case from == protocol.Anthropic:
		return "metadata.user_id"
	}
	return "user"
}

// keep takes an extra that came from this protocol. It reports false for what an
// answer in the gateway's terms cannot hold.
func (e *requestEncoder) keep(x llm.Extra) bool {
	switch x.Feature {
	case llm.FeatureChoices, llm.FeatureLogprobs, llm.FeatureStreamOption:
		return false
	}
	parent, name := "", x.Field
	if i := strings.LastIndexByte(x.Field, '.'); i >= 0 {
		parent, name = x.Field[:i], x.Field[i+1:]
	}
	switch {
	case parent == "":
		if name == "store" && e.c.Compat.GetNoStore() {
			return string(x.Raw) == "false"
		}
		e.top = append(e.top, written{name, x.Raw})
	case parent == "generationConfig":
		e.config = append(e.config, written{name, x.Raw})
	case strings.HasPrefix(parent, "toolConfig"):
		e.calls = append(e.calls, written{name, x.Raw})
	default: // of a part, where it stays, or of a result, where it cannot
		return !strings.HasSuffix(parent, "functionResponse")
	}
	return true
}

// carry takes an extra of another protocol that there is a field for.
func (e *requestEncoder) carry(x llm.Extra) *fault.Error {
	number := len(x.Raw) > 0 && (x.Raw[0] == '-' || x.Raw[0] >= '0' && x.Raw[0] <= '9')
	switch x.Feature {
	case llm.FeatureSeed:
		if number {
			e.config = append(e.config, written{"seed", x.Raw})
			return nil
		}
	case llm.FeaturePenalty:
		if number {
			name := "presencePenalty"
			if strings.Contains(strings.ToLower(x.Field), "frequency") {
				name = "frequencyPenalty"
			}
			e.config = append(e.config, written{name, x.Raw})
			return nil
		}
	case llm.FeatureServiceTier:
		if tier, ok := tierOf(x.Raw); ok {
			if tier != "" {
				e.top = append(e.top, written{"serviceTier", wirejson.AppendString(nil, tier)})
			}
			return nil
		}
	case llm.FeatureStore:
		// Nothing is stored here that could be asked for again by an id. Whether requests
		// are logged is another matter, and can be declined.
		if string(x.Raw) == "false" {
			if !e.c.Compat.GetNoStore() {
				e.top = append(e.top, written{"store", x.Raw})
			}
			return nil
		}
	case llm.FeatureLegacyFunctions: // only tells how the caller wants to hear of calls
		return nil
	case llm.FeatureOutputModality:
		if strings.EqualFold(string(x.Raw), `["text"]`) {
			return nil
		}
	case llm.FeatureTruncation:
		if string(x.Raw) == `"disabled"` {
			return nil
		}
	case llm.FeatureBackground:
		if string(x.Raw) == "false" {
			return nil
		}
	}
	return e.c.Dropped(x.Feature, x.Field)
}

// tierOf is the tier with the same meaning; empty for the default.
func tierOf(raw []byte) (tier string, ok bool) {
	switch word := strings.ToLower(strings.Trim(string(raw), `"`)); word {
	case "auto":
		return "", true
	case "default", "standard", "standard_only":
		return "standard", true
	case "flex", "priority":
		return word, true
	}
	return "", false
}
