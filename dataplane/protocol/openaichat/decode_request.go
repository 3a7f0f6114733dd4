package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// DecodeRequest reads a Chat Completions request. What says the same as nothing, such
// as n:1 or a penalty of 0, is left out.
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
	case "messages":
		d.each(name, maxMessages, d.message)
	case "stream":
		v := d.flag(name)
		q.Stream = v != nil && *v
	case "stream_options":
		d.streamOptions()
	case "tools":
		d.each(name, maxTools, d.tool)
	case "functions":
		d.functions()
	case "tool_choice":
		q.ToolChoice = d.toolChoice()
	case "function_call":
		d.functionChoice()
	case "parallel_tool_calls":
		if v := d.flag(name); v != nil && !*v {
			q.OneCall = true
		}
	case "response_format":
		q.Format = d.format()
	case "max_completion_tokens":
		d.limit = d.count(name)
	case "max_tokens":
		d.oldLimit = d.count(name)
	case "temperature":
		q.Temperature = d.number(name)
	case "top_p":
		q.TopP = d.number(name)
	case "stop":
		d.stop()
	case "reasoning_effort":
		d.effort()
	case "prompt_cache_key":
		q.CacheKey = d.text(name)
	case "user":
		from := d.r.Start()
		d.user = d.text(name)
		d.userRaw = d.since(from)
	case "safety_identifier":
		d.endUser = d.text(name)
	default:
		d.option(name)
	}
}

// option reads a member that not every protocol has.
func (d *requestDecoder) option(name string) {
	switch name {
	case "n":
		from := d.r.Start()
		if n := d.count(name); n > 1 {
			d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeatureChoices, Field: name, Raw: d.since(from)})
		}
	case "frequency_penalty", "presence_penalty":
		d.penalty(name)
	case "seed":
		d.numeric(llm.FeatureSeed, name)
	case "logit_bias":
		d.bag(llm.FeatureLogitBias, name)
	case "logprobs":
		if v := d.flag(name); v != nil && *v {
			d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeatureLogprobs, Field: name, Raw: []byte("true")})
		}
	case "top_logprobs":
		d.numeric(llm.FeatureLogprobs, name)
	case "metadata":
		d.bag(llm.FeatureMetadata, name)
	case "store":
		d.typed(llm.FeatureStore, name, "true or false", 't', 'f')
	case "service_tier":
		if string(d.peek()) == `"auto"` { // the default
			d.r.Skip()
			return
		}
		d.typed(llm.FeatureServiceTier, name, "a string", '"')
	case "verbosity":
		d.typed(llm.FeatureVerbosity, name, "a string", '"')
	case "modalities":
		d.modalities()
	case "audio":
		d.typed(llm.FeatureOutputModality, name, "an object", '{')
	case "prediction":
		d.typed(llm.FeaturePrediction, name, "an object", '{')
	case "web_search_options":
		d.typed(llm.FeatureWebSearch, name, "an object", '{')
	case "moderation":
		d.typed(llm.FeatureModeration, name, "an object", '{')
	case "prompt_cache_retention":
		d.typed(llm.FeatureCacheLifetime, name, "a string", '"')
	case "prompt_cache_options":
		d.cacheOptions()
	default:
		d.unknown("")
	}
}

// finish settles what several members say together.
func (d *requestDecoder) finish() {
	q := d.req
	// The newer name wins, as upstreams that know both refuse the older one.
	q.MaxOutputTokens = d.limit
	if q.MaxOutputTokens == 0 {
		q.MaxOutputTokens = d.oldLimit
	}
	q.User = d.user
	if d.endUser != "" {
		q.User = d.endUser
		if d.user != "" && d.user != d.endUser {
			q.Extras = append(q.Extras, llm.Extra{Feature: llm.FeatureUser, Field: "user", Raw: d.userRaw})
		}
	}
	if len(q.Messages) == 0 {
		d.refuse("messages", "must be a list with at least one message")
	}
}

// peek is the value at hand, unread, if it is a short scalar.
func (d *requestDecoder) peek() []byte {
	rest := d.body[min(d.r.Start(), len(d.body)):]
	for i, b := range rest[:min(len(rest), 64)] {
		if i > 0 && b == '"' {
			return rest[:i+1]
		}
	}
	return nil
}

// typed keeps a value that has to be of one of some kinds.
func (d *requestDecoder) typed(f llm.Feature, name, want string, kinds ...byte) {
	k := byte(d.r.Kind())
	if k == 'n' {
		d.r.Skip()
		return
	}
	for _, want := range kinds {
		if k == want {
			d.extra(f, name)
			return
		}
	}
	d.wrong(name, want)
	d.r.Skip()
}

func (d *requestDecoder) numeric(f llm.Feature, name string) {
	d.typed(f, name, "a number", '0')
}

// bag keeps an object that is not empty.
func (d *requestDecoder) bag(f llm.Feature, name string) {
	if d.r.Kind() == '{' && emptyObject(d.body[d.r.Start():]) {
		d.r.Skip()
		return
	}
	d.typed(f, name, "an object", '{')
}

// penalty keeps one that is not 0.
func (d *requestDecoder) penalty(name string) {
	from := d.r.Start()
	n := d.number(name)
	for _, b := range []byte(n) {
		if b >= '1' && b <= '9' {
			d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeaturePenalty, Field: name, Raw: d.since(from)})
			return
		}
		if b == 'e' || b == 'E' {
			return // 0e1
		}
	}
}

func (d *requestDecoder) streamOptions() {
	if !d.object("stream_options") {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "include_usage":
			v := d.flag("stream_options.include_usage")
			d.req.IncludeUsage = v != nil && *v
		case "include_obfuscation":
			d.typed(llm.FeatureStreamOption, "stream_options.include_obfuscation", "true or false", 't', 'f')
		default:
			d.unknown("stream_options")
		}
	}
}

func (d *requestDecoder) stop() {
	if d.r.Kind() == '[' {
		d.each("stop", maxStops, func() {
			if s := d.text("stop[]"); s != "" {
				d.req.Stop = append(d.req.Stop, s)
			}
		})
		return
	}
	if d.r.Kind() != '"' && d.r.Kind() != 'n' {
		d.wrong("stop", "a string or a list of strings")
		return
	}
	if s := d.text("stop"); s != "" {
		d.req.Stop = append(d.req.Stop, s)
	}
}

func (d *requestDecoder) effort() {
	switch e := llm.Effort(d.word("reasoning_effort", "none", "minimal", "low", "medium", "high", "xhigh", "max")); e {
	case "":
	case llm.EffortNone:
		d.req.Reasoning.Off, d.req.Reasoning.Effort = true, e
	default:
		d.req.Reasoning.Effort = e
	}
}

// modalities keeps a list that has more than text.
func (d *requestDecoder) modalities() {
	from := d.r.Start()
	more := false
	d.each("modalities", maxStops, func() {
		more = d.name("modalities[]") != "text" || more
	})
	if more && d.fault == nil {
		d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeatureOutputModality, Field: "modalities", Raw: d.since(from)})
	}
}

// cacheOptions reads prompt_cache_options; implicit breakpoints and 30 minutes are
// the defaults.
func (d *requestDecoder) cacheOptions() {
	if !d.object("prompt_cache_options") {
		return
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "mode":
			if string(d.peek()) != `"implicit"` {
				d.typed(llm.FeatureCacheMark, "prompt_cache_options.mode", "a string", '"')
			}
		case "ttl":
			if string(d.peek()) != `"30m"` {
				d.typed(llm.FeatureCacheLifetime, "prompt_cache_options.ttl", "a string", '"')
			}
		default:
			d.unknown("prompt_cache_options")
		}
	}
}

func (d *requestDecoder) format() (f llm.Format) {
	if !d.object("response_format") {
		return f
	}
	kind := ""
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.word("response_format.type", "text", "json_object", "json_schema")
		case "json_schema":
			f = d.jsonSchema()
		default:
			d.unknown("response_format")
		}
	}
	switch kind {
	case "json_object":
		return llm.Format{Kind: llm.FormatJSON}
	case "json_schema":
		f.Kind = llm.FormatSchema
		return f
	case "":
		d.wrong("response_format.type", "one of text, json_object, json_schema")
	}
	return llm.Format{}
}

func (d *requestDecoder) jsonSchema() (f llm.Format) {
	const path = "response_format.json_schema"
	if !d.object(path) {
		return f
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
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
	return f
}
