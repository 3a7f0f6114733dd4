package fakeprovider

import (
	"net/http"
	"slices"
	"strconv"
)

// Limits told for every model, in tokens.
const (
	inputTokenLimit  = 200_000
	outputTokenLimit = 32_000
)

// modelEpoch is the creation time told for every model: 2026-01-01.
const modelEpoch = 1767225600

// serveModels lists models, or tells one.
func (c *call) serveModels() {
	names := c.p.cfg.Models
	if c.operation == GetModel {
		if !slices.Contains(names, c.ask.model) {
			c.writeFailure(Failure{Kind: ModelNotFound, Param: "model"})
			return
		}
		c.writeJSON(c.modelObject(c.ask.model))
		return
	}
	switch c.protocol {
	case Anthropic:
		c.listAnthropic(names)
	case Gemini:
		c.listGemini(names)
	default:
		c.writeJSON(obj("object", "list", "data", c.modelObjects(names)))
	}
}

func (c *call) modelObjects(names []string) list {
	out := list{}
	for _, name := range names {
		out = append(out, c.modelObject(name))
	}
	return out
}

func (c *call) modelObject(name string) object {
	switch c.protocol {
	case Anthropic:
		return obj("type", "model", "id", name, "display_name", name, "created_at", "2026-01-01T00:00:00Z",
			"max_input_tokens", inputTokenLimit, "max_tokens", outputTokenLimit)
	case Gemini:
		return obj("name", "models/"+name, "version", "1", "displayName", name, "description", "built-in model",
			"inputTokenLimit", inputTokenLimit, "outputTokenLimit", outputTokenLimit,
			"supportedGenerationMethods", list{"generateContent", "streamGenerateContent", "countTokens"})
	}
	return obj("id", name, "object", "model", "created", modelEpoch, "owned_by", "fakeprovider")
}

// listAnthropic pages by model id, forwards and backwards.
func (c *call) listAnthropic(names []string) {
	q := c.r.URL.Query()
	limit := 20
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 1000 {
			c.writeFailure(Failure{Kind: BadRequest, Message: "limit: expected a number from 1 to 1000"})
			return
		}
		limit = n
	}
	var more bool
	if before := q.Get("before_id"); before != "" {
		names = names[:max(slices.Index(names, before), 0)]
		if more = len(names) > limit; more {
			names = names[len(names)-limit:]
		}
	} else {
		if after := q.Get("after_id"); after != "" {
			names = names[slices.Index(names, after)+1:]
		}
		if more = len(names) > limit; more {
			names = names[:limit]
		}
	}
	var first, last any
	if len(names) > 0 {
		first, last = names[0], names[len(names)-1]
	}
	c.writeJSON(obj("data", c.modelObjects(names), "has_more", more, "first_id", first, "last_id", last))
}

// listGemini pages by offset; the vendor's page tokens are opaque.
func (c *call) listGemini(names []string) {
	q := c.r.URL.Query()
	size := 50
	if n, err := strconv.Atoi(q.Get("pageSize")); err == nil && n > 0 {
		size = min(n, 1000)
	}
	from := 0
	if token := q.Get("pageToken"); token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n < 0 || n > len(names) {
			c.writeFailure(Failure{Kind: BadRequest, Message: "pageToken is not one of this list"})
			return
		}
		from = n
	}
	to := min(from+size, len(names))
	o := obj("models", c.modelObjects(names[from:to]))
	if to < len(names) {
		o = o.with("nextPageToken", strconv.Itoa(to))
	}
	c.writeJSON(o)
}

// serveCount tells the input tokens a generation request would cost.
func (c *call) serveCount() {
	n := tokens(c.ask.prompt)
	switch c.protocol {
	case Anthropic:
		c.writeJSON(obj("input_tokens", n))
	case Gemini:
		c.writeJSON(obj("totalTokens", n, "promptTokensDetails", list{obj("modality", "TEXT", "tokenCount", n)}))
	default:
		c.writeJSON(obj("object", "response.input_tokens", "input_tokens", n))
	}
}

// writeJSON answers with a small body.
func (c *call) writeJSON(v any) {
	body := appendJSON(nil, v)
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(http.StatusOK)
	c.outcome = Completed
	if c.r.Method == http.MethodHead {
		return
	}
	if _, err := c.w.Write(body); err != nil {
		c.outcome = Canceled
	}
}
