package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var _ protocol.Converter = (*Codec)(nil)

// DecodeRequest reads a Responses request. Each item of the input is a message of its
// own. What says the same as nothing, such as truncation:disabled, is left out, and so
// are ids of items that are whole without them.
func (c *Codec) DecodeRequest(body []byte, _ protocol.Target) (*llm.Request, *fault.Error) {
	d := c.decoders.get(body)
	defer c.decoders.put(d)
	if d.r.Kind() != '{' {
		return nil, fault.New(fault.InvalidRequest, "The body must be a JSON object.")
	}
	d.r.Enter('{')
	for d.r.Next() {
		if d.fault == nil {
			d.member()
		}
	}
	d.finish()
	if f := d.done(); f != nil {
		return nil, f
	}
	return d.req, nil
}

// member reads one top-level member.
func (d *requestDecoder) member() {
	q := d.req
	switch name := string(d.r.Name()); name {
	case "model":
		q.Model = d.name(name)
	case "instructions":
		d.instructions = d.text(name)
	case "input":
		d.input()
	case "stream":
		v := d.flag(name)
		q.Stream = v != nil && *v
	case "tools":
		d.each(name, maxTools, d.tool)
	case "tool_choice":
		d.toolChoice()
	case "parallel_tool_calls":
		if v := d.flag(name); v != nil && !*v {
			q.OneCall = true
		}
	case "max_output_tokens":
		q.MaxOutputTokens = d.count(name)
	case "temperature":
		q.Temperature = d.number(name)
	case "top_p":
		q.TopP = d.number(name)
	case "text":
		d.textConfig()
	case "reasoning":
		d.reasoning()
	case "include":
		d.include()
	case "prompt_cache_key":
		q.CacheKey = d.text(name)
	case "prompt_cache_options":
		d.cacheOptions()
	case "user":
		from := d.r.Start()
		d.user = d.text(name)
		d.userRaw = d.span(from)
	case "safety_identifier":
		d.endUser = d.text(name)
	default:
		d.option(name)
	}
}

// option reads a member that not every protocol has.
func (d *requestDecoder) option(name string) {
	switch name {
	case "store":
		d.typed(llm.FeatureStore, name, "true or false", 't', 'f')
	case "background":
		from := d.r.Start()
		if v := d.flag(name); v != nil && *v {
			d.add(llm.FeatureBackground, name, d.span(from))
		}
	case "previous_response_id":
		d.stored = d.stored || d.r.Kind() == '"'
		d.typed(llm.FeatureStoredState, name, "a string", '"')
	case "conversation":
		d.stored = d.stored || d.r.Kind() != 'n'
		d.typed(llm.FeatureStoredState, name, "a string or an object with an id", '"', '{')
	case "prompt":
		d.stored = d.stored || d.r.Kind() == '{'
		d.typed(llm.FeaturePromptTemplate, name, "an object", '{')
	case "context_management":
		d.typed(llm.FeatureContextEdit, name, "a list", '[')
	case "truncation":
		d.unless("disabled", llm.FeatureTruncation, name)
	case "max_tool_calls":
		d.typed(llm.FeatureMaxToolCalls, name, "a number", '0')
	case "top_logprobs":
		from := d.r.Start()
		if n, ok := d.r.Int(); ok && n > 0 {
			d.add(llm.FeatureLogprobs, name, d.span(from))
		}
	case "metadata":
		d.metadata(name)
	case "moderation":
		d.typed(llm.FeatureModeration, name, "an object", '{')
	case "access_programs":
		d.typed(llm.FeatureSafety, name, "an object", '{')
	case "image":
		d.typed(llm.FeatureMediaResolution, name, "an object", '{')
	case "prompt_cache_retention":
		d.typed(llm.FeatureCacheLifetime, name, "a string", '"')
	case "service_tier":
		d.unless("auto", llm.FeatureServiceTier, name)
	case "stream_options":
		d.streamOptions()
	case "client_metadata": // which the vendor's own agent sends
		d.typed(llm.FeatureClientMetadata, name, "an object", '{')
	default:
		d.unknown("")
	}
}

// metadata keeps an object that is not empty.
func (d *requestDecoder) metadata(name string) {
	from := d.r.Start()
	if !d.object(name) {
		return
	}
	n := 0
	for d.r.Next() {
		n++
	}
	if n > 0 {
		d.add(llm.FeatureMetadata, name, d.span(from))
	}
}

// finish settles what several members say together.
func (d *requestDecoder) finish() {
	q := d.req
	if d.instructions != "" {
		q.Messages = append(q.Messages, llm.Message{})
		copy(q.Messages[1:], q.Messages)
		q.Messages[0] = llm.Message{Role: llm.RoleSystem, Parts: []llm.Part{{Kind: llm.PartText, Text: d.instructions}}}
	}
	q.User = d.user
	if d.endUser != "" {
		q.User = d.endUser
		if d.user != "" && d.user != d.endUser {
			q.Extras = append(q.Extras, llm.Extra{Feature: llm.FeatureUser, Field: "user", Raw: d.userRaw})
		}
	}
	if len(q.Messages) == 0 && !d.stored {
		d.refuse("input", "must be a string or a list with at least one item")
	}
}

func (d *requestDecoder) streamOptions() {
	const path = "stream_options"
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		if string(d.r.Name()) == "include_obfuscation" {
			d.typed(llm.FeatureStreamOption, path+".include_obfuscation", "true or false", 't', 'f')
			continue
		}
		d.unknown(path)
	}
}

// include reads what is wanted in the answer beside. Encrypted reasoning has a name of
// its own, as other makers have such state too.
func (d *requestDecoder) include() {
	d.each("include", maxWords, func() {
		from := d.r.Start()
		switch word := d.name("include[]"); word {
		case "":
		case encryptedContent:
			d.req.WantState = true
		case outputLogprobs:
			d.add(llm.FeatureLogprobs, "include[]", d.span(from))
		default:
			d.add(llm.FeatureInclude, "include[]", d.span(from))
		}
	})
}

// Words of include.
const (
	encryptedContent = "reasoning.encrypted_content"
	outputLogprobs   = "message.output_text.logprobs"
)

// cacheOptions reads prompt_cache_options; implicit breakpoints and 30 minutes are
// the defaults.
func (d *requestDecoder) cacheOptions() {
	const path = "prompt_cache_options"
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "mode":
			d.unless("implicit", llm.FeatureCacheMark, path+".mode")
		case "ttl":
			d.unless("30m", llm.FeatureCacheLifetime, path+".ttl")
		case "comparison_response_id":
			d.typed(llm.FeatureDiagnostics, path+".comparison_response_id", "a string", '"')
		case "prewarm": // the prompt is to be cached, and nothing to be answered
			from := d.r.Start()
			if v := d.flag(path + ".prewarm"); v != nil && *v {
				d.add(llm.FeatureCachedContent, path+".prewarm", d.span(from))
			}
		default:
			d.unknown(path)
		}
	}
}

func (d *requestDecoder) reasoning() {
	const path = "reasoning"
	want := &d.req.Reasoning
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "effort":
			switch e := llm.Effort(d.word(path+".effort", "none", "minimal", "low", "medium", "high", "xhigh", "max")); e {
			case "":
			case llm.EffortNone:
				want.Off, want.Effort = true, e
			default:
				want.Effort = e
			}
		case "summary":
			d.summary(path + ".summary")
		case "generate_summary": // its older name
			if want.Summary == "" {
				d.summary(path + ".generate_summary")
			}
		case "mode":
			d.unless("standard", llm.FeatureReasoning, path+".mode")
		case "context":
			d.unless("auto", llm.FeatureContextEdit, path+".context")
		default:
			d.unknown(path)
		}
	}
}

func (d *requestDecoder) summary(path string) {
	// none is no word of the vendor's, and sent by its agent.
	if s := d.word(path, "auto", "concise", "detailed", "none"); s != "" && s != "none" {
		d.req.Reasoning.Show, d.req.Reasoning.Summary = true, s
	}
}

func (d *requestDecoder) textConfig() {
	const path = "text"
	if !d.object(path) {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "format":
			d.req.Format = d.format(path + ".format")
		case "verbosity":
			d.typed(llm.FeatureVerbosity, path+".verbosity", "a string", '"')
		default:
			d.unknown(path)
		}
	}
}

func (d *requestDecoder) format(path string) (f llm.Format) {
	if !d.object(path) {
		return f
	}
	kind := ""
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.word(path+".type", "text", "json_object", "json_schema")
		case "name":
			f.Name = d.name(path + ".name")
		case "description":
			f.Description = d.text(path + ".description")
		case "schema":
			f.Schema = d.schema(path + ".schema")
		case "strict":
			f.Strict = d.flag(path + ".strict")
		default:
			d.unknown(path)
		}
	}
	switch kind {
	case "json_object":
		return llm.Format{Kind: llm.FormatJSON}
	case "json_schema":
		f.Kind = llm.FormatSchema
		if f.Schema == nil {
			d.refuse(path+".schema", "is missing")
		}
		return f
	case "":
		d.wrong(path+".type", "one of text, json_object, json_schema")
	}
	return llm.Format{}
}
