package endpoint

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// keptRewriter wraps the ids in an answer that describes kept objects, one or a list.
type keptRewriter struct {
	wrap       func(string) string
	collection bool // ids are names, such as files/abc

	r     wirejson.Reader
	edits []protocol.Edit
}

// Frame implements protocol.Rewriter. No such answer is a stream.
func (w *keptRewriter) Frame(dst []byte, f sse.Frame) []byte { return append(dst, f.Raw...) }

// Answer implements protocol.Rewriter.
func (w *keptRewriter) Answer(body []byte) []byte {
	w.edits = w.edits[:0]
	w.r.ResetLenient(body)
	defer w.r.Release()
	w.object()
	if w.r.Done() != nil {
		return body
	}
	return protocol.Apply(body, w.edits)
}

func (w *keptRewriter) object() {
	r := &w.r
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "id", "first_id", "last_id", "input_file_id", "output_file_id", "error_file_id",
			"previous_response_id", "approval_request_id", "container_id", "remixed_from_video_id":
			w.id(w.wrap)
		case "name", "uri":
			if w.collection {
				w.id(w.wrap)
			}
		case "results_url":
			w.id(w.results)
		case "data", "files", "cachedContents":
			for in := r.Enter('['); in && r.Next(); {
				w.object()
			}
		case "file", "conversation":
			w.object()
		}
	}
}

// results is the path of a batch's results. It has no host, so that clients go where
// they went before: to the gateway.
func (w *keptRewriter) results(url string) string {
	const before, after = "/messages/batches/", "/results"
	_, id, found := strings.Cut(url, before)
	id, ends := strings.CutSuffix(id, after)
	if !found || !ends || id == "" {
		return url
	}
	return "/v1" + before + w.wrap(id) + after
}

func (w *keptRewriter) id(change func(string) string) {
	at := protocol.Span{From: w.r.Start()}
	id, ok := w.r.String(protocol.MaxHint)
	at.To = w.r.End()
	if !ok || id == "" {
		return
	}
	if now := change(id); now != id {
		w.edits = append(w.edits, protocol.Edit{At: at, Text: wirejson.AppendString(nil, now)})
	}
}
