package attempt

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// ours are the members of a body that the gateway itself decides.
var ours = []string{"model", "stream", "stream_options"}

// extra adds what the candidate's provider wants in every body of the model, where the
// body does not have it, just behind the opening brace at open.
func extra(c *plan.Candidate, open int, has func(name string) bool) []protocol.Edit {
	var edits []protocol.Edit
	var added []string
	for _, e := range c.Capability.GetExtra() {
		models := e.GetModels()
		if e.GetExtraBodyJson() == "" || len(models) > 0 && !slices.Contains(models, c.UpstreamModel()) {
			continue
		}
		members(e.GetExtraBodyJson(), func(name string, value []byte) {
			if has(name) || slices.Contains(ours, name) || slices.Contains(added, name) {
				return
			}
			added = append(added, name)
			text, err := jsontext.AppendQuote(nil, name)
			if err != nil {
				return
			}
			text = append(append(append(text, ':'), value...), ',')
			edits = append(edits, protocol.Edit{At: protocol.Span{From: open, To: open}, Text: text})
		})
	}
	return edits
}

// members calls f with each top-level member of a JSON object, up to the first thing in
// it that is none.
func members(object string, f func(name string, value []byte)) {
	d := jsontext.NewDecoder(bytes.NewReader([]byte(object)))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return
		}
		text := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		f(text, bytes.Clone(value))
	}
}

// extraOf is extra for the caller's own body.
func (x *run) extraOf(c *plan.Candidate) []protocol.Edit {
	if len(c.Capability.GetExtra()) == 0 || x.r.Target.Op != protocol.OpGenerate || len(x.r.Shape.Members) == 0 {
		return nil
	}
	return extra(c, x.r.Shape.Open, func(name string) bool {
		_, ok := x.r.Shape.Member(name)
		return ok
	})
}

// extraIn adds what the provider wants to a body that a conversion made.
func extraIn(body []byte, c *plan.Candidate) [][]byte {
	if len(c.Capability.GetExtra()) == 0 || len(body) < 3 || body[0] != '{' {
		return [][]byte{body}
	}
	var names []string
	members(string(body), func(name string, _ []byte) { names = append(names, name) })
	if len(names) == 0 {
		return [][]byte{body}
	}
	return protocol.Splice(body, extra(c, 1, func(name string) bool { return slices.Contains(names, name) }))
}
