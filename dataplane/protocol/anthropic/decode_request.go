package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

var _ protocol.Converter = (*Codec)(nil)

// topExtras are the members of a request that have no name in llm.Request, with what
// they mean. They go back to an upstream of this protocol as they are.
var topExtras = map[string]llm.Feature{
	"billing_policy":        llm.FeatureServiceTier,
	"cache_control":         llm.FeatureCacheMark,
	"compaction":            llm.FeatureCompaction,
	"container":             llm.FeatureContainer,
	"context_management":    llm.FeatureContextEdit,
	"diagnostics":           llm.FeatureDiagnostics,
	"fallback_credit_token": llm.FeatureUnknown,
	"fallbacks":             llm.FeatureUnknown,
	"inference_geo":         llm.FeatureResidency,
	"mcp_servers":           llm.FeatureMCP,
	"service_tier":          llm.FeatureServiceTier,
	"speed":                 llm.FeatureSpeed,
	"thread":                llm.FeatureStoredState,
}

// DecodeRequest reads a Messages request.
func (c *Codec) DecodeRequest(body []byte, _ protocol.Target) (*llm.Request, *fault.Error) {
	d := c.requests.get(body)
	defer c.requests.put(d)
	if !d.r.Enter('{') {
		return nil, fault.New(fault.InvalidRequest, "The request body must be a JSON object.")
	}
	for d.r.Next() {
		d.member(string(d.r.Name()))
	}
	if err := d.r.Done(); err != nil {
		return nil, &fault.Error{Class: fault.InvalidRequest, Public: "The request body is not valid JSON.", Err: err}
	}
	if d.fault != nil {
		return nil, d.fault
	}
	return d.req, nil
}

func (d *requestReader) member(name string) {
	q, r := d.req, &d.r
	switch name {
	case "model":
		q.Model = d.word(r, name)
	case "stream":
		if b := d.flag(r, name); b != nil {
			q.Stream = *b
		}
	case "max_tokens":
		d.maxTokens()
	case "system":
		d.system()
	case "messages":
		d.each(r, name, maxMessages, d.message)
	case "tools":
		d.each(r, name, maxTools, d.tool)
	case "tool_choice":
		d.toolChoice()
	case "temperature":
		q.Temperature = d.number(r, name)
	case "top_p":
		q.TopP = d.number(r, name)
	case "top_k":
		q.TopK = d.number(r, name)
	case "stop_sequences":
		d.each(r, name, maxStops, func() { q.Stop = append(q.Stop, d.text(r, "stop_sequences[]")) })
	case "thinking":
		d.thinking()
	case "output_config":
		d.outputConfig()
	case "output_format": // where betas had output_config.format
		d.format(name)
	case "metadata":
		if d.object(r, name) {
			for r.Next() {
				if string(r.Name()) == "user_id" {
					q.User = d.text(r, "metadata.user_id")
				} else {
					d.unknown(name, string(r.Name()))
				}
			}
		}
	default:
		if f, ok := topExtras[name]; ok {
			d.extra(f, name, r.Value())
		} else {
			d.unknown("", name)
		}
	}
}

// maxTokens reads the output limit. Zero asks for no answer at all, only for the
// prompt to be cached, which is no limit.
func (d *requestReader) maxTokens() {
	from := d.r.Start()
	stated := d.r.Kind() == '0'
	d.req.MaxOutputTokens = d.integer(&d.r, "max_tokens")
	if stated && d.req.MaxOutputTokens == 0 && d.fault == nil {
		d.extra(llm.FeatureCachedContent, "max_tokens", d.body[from:d.r.End()])
	}
}

func (d *requestReader) system() {
	if d.r.Null() {
		return
	}
	parts := d.content(&d.r, d.body, &inSystem)
	for i := range parts {
		if parts[i].Kind != llm.PartText {
			d.refuse("system", "may have blocks of type text alone")
		}
	}
	if len(parts) > 0 {
		// Ahead of the messages, wherever it stands in the body.
		d.req.Messages = append([]llm.Message{{Role: llm.RoleSystem, Parts: parts}}, d.req.Messages...)
	}
}

func (d *requestReader) thinking() {
	r, want, from := &d.r, &d.req.Reasoning, d.r.Start()
	if !d.object(r, "thinking") {
		return
	}
	kind, budget := "", int64(0)
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			kind = d.word(r, "thinking.type")
		case "budget_tokens":
			budget = d.integer(r, "thinking.budget_tokens")
		case "display":
			switch d.word(r, "thinking.display") {
			case "":
			case "summarized":
				want.Show = true
			case "omitted":
				want.Hide = true
			default:
				d.wrong("thinking.display", `"summarized" or "omitted"`)
			}
		case "block_binding":
			d.extra(llm.FeatureReasoningState, "thinking.block_binding", r.Value())
		default:
			d.unknown("thinking", string(r.Name()))
		}
	}
	switch kind {
	case "adaptive":
		want.On = true
	case "enabled":
		if want.Budget = budget; budget == 0 {
			d.refuse("thinking.budget_tokens", "must be stated if thinking is enabled")
		}
	case "disabled":
		want.Off = true
	case "between_tools": // thinks, but not at the start of a turn
		want.On = true
		d.extra(llm.FeatureReasoningDisplay, "thinking", d.body[from:r.End()])
	default:
		d.wrong("thinking.type", `"adaptive", "enabled", "disabled" or "between_tools"`)
	}
}

func (d *requestReader) outputConfig() {
	const path = "output_config"
	r := &d.r
	if !d.object(r, path) {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "effort":
			d.req.Reasoning.Effort = llm.Effort(d.word(r, path+".effort"))
		case "format":
			d.format(path + ".format")
		case "task_budget":
			d.extra(llm.FeatureTaskBudget, path+".task_budget", r.Value())
		default:
			d.unknown(path, string(r.Name()))
		}
	}
}

func (d *requestReader) format(path string) {
	r := &d.r
	if !d.object(r, path) {
		return
	}
	f := llm.Format{Kind: llm.FormatSchema}
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			if word := d.word(r, path+".type"); word != "json_schema" {
				d.wrong(path+".type", `"json_schema"`)
			}
		case "schema":
			f.Schema = d.schema(r, path+".schema")
		default:
			d.unknown(path, string(r.Name()))
		}
	}
	if f.Schema == nil {
		d.refuse(path+".schema", "is missing")
	}
	d.req.Format = f
}
