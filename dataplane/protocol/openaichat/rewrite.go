package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

var _ protocol.Owned = (*Codec)(nil)

// NewRewriter implements protocol.Owned. Changed is the id of a completion that the
// provider stores, in the answer or in each of its chunks.
func (*Codec) NewRewriter(stored bool, wrap func(id string) string) protocol.Rewriter {
	return &rewriter{stored: stored, wrap: wrap}
}

type rewriter struct {
	stored bool
	wrap   func(string) string
	r      wirejson.Reader
}

// Frame implements protocol.Rewriter.
func (w *rewriter) Frame(dst []byte, f sse.Frame) []byte {
	if edits := w.edits(f.Data); !f.Tail && len(edits) > 0 {
		return sse.AppendReplaced(dst, f, protocol.Apply(f.Data, edits))
	}
	return append(dst, f.Raw...)
}

// Answer implements protocol.Rewriter.
func (w *rewriter) Answer(body []byte) []byte { return protocol.Apply(body, w.edits(body)) }

// edits are those of an object's id; none if data is no object.
func (w *rewriter) edits(data []byte) (edits []protocol.Edit) {
	if !w.stored || len(data) == 0 || data[0] != '{' {
		return nil
	}
	r := &w.r
	r.ResetLenient(data)
	defer r.Release()
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "id" {
			continue
		}
		at := protocol.Span{From: r.Start()}
		id, ok := r.String(protocol.MaxHint)
		at.To = r.End()
		if ok && id != "" {
			edits = append(edits, protocol.Edit{At: at, Text: wirejson.AppendString(nil, w.wrap(id))})
		}
	}
	if r.Done() != nil {
		return nil
	}
	return edits
}
