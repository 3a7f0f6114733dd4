package endpoint

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Kept is the codec of one call on objects that a provider keeps: stored answers,
// files, batches, cached prompts. Requests and answers are passed on as they are, but
// for ids, and for the model where a request names one. Such calls are not metered.
// It serves one request and is not safe for concurrent use.
type Kept struct {
	protocol.Codec // of the protocol: errors and streams

	target    protocol.Target
	inspector protocol.Inspector
	models    []protocol.Span // where the request names the model
}

var _ protocol.Owned = (*Kept)(nil)

// Inspect reads a request body once, strictly, unless it is a form.
func (k *Kept) Inspect(body []byte, t protocol.Target) (*protocol.Shape, *fault.Error) {
	k.target, k.models = t, nil
	s := &protocol.Shape{Choices: 1}
	if t.Boundary == "" && len(bytes.TrimSpace(body)) > 0 && t.Method != http.MethodGet && t.Method != http.MethodDelete {
		var f *fault.Error
		if s, f = k.inspector.Inspect(body, []string{"model", "requests"}, k.member); f != nil {
			return nil, f
		}
		s.AddRefs(body)
		if f = s.CheckRefs(); f != nil {
			return nil, f
		}
	} else if t.Method == http.MethodPost && t.Op == protocol.OpFile {
		if t.Boundary == "" {
			return nil, fault.New(fault.InvalidRequest, "The body must be multipart/form-data with a boundary in its Content-Type, because it holds a file.")
		}
		if _, f := readParts(body, t.Boundary); f != nil {
			return nil, f
		}
	}
	s.Stream = t.Path == "/responses/*" && t.Method == http.MethodGet && asksForStream(t.RawQuery)
	// The ids in an answer are changed unless it is no JSON of the vendor's.
	s.Store = !k.opaque()
	return s, nil
}

// member reads what a body has beside ids: the model of a cached prompt, and those of
// the requests of a batch.
func (k *Kept) member(r *wirejson.Reader, name string, s *protocol.Shape) *fault.Error {
	switch {
	case name == "model" && k.target.Op == protocol.OpCache:
		return k.model(r, s)
	case name == "requests" && k.target.Op == protocol.OpBatch:
		for ok := r.Enter('['); ok && r.Next(); {
			for in := r.Enter('{'); in && r.Next(); {
				if string(r.Name()) != "params" {
					continue
				}
				for params := r.Enter('{'); params && r.Next(); {
					if string(r.Name()) != "model" {
						continue
					}
					if f := k.model(r, s); f != nil {
						return f
					}
				}
			}
		}
	}
	return nil
}

// model reads the name of a model. All that a request names must be the same, because
// one account gets the request.
func (k *Kept) model(r *wirejson.Reader, s *protocol.Shape) *fault.Error {
	before := s.Model
	at := protocol.Span{From: r.Start()}
	if f := protocol.ReadModel(r, s); f != nil {
		return f
	}
	at.To = r.End()
	if k.target.Protocol == protocol.Gemini {
		s.Model = strings.TrimPrefix(s.Model, "models/")
	}
	if before != "" && before != s.Model {
		return &fault.Error{
			Class: fault.InvalidRequest, Param: "requests",
			Public: "The requests of a batch name several models, and a batch goes to one account. Make a batch for each model.",
		}
	}
	k.models = append(k.models, at)
	return nil
}

func asksForStream(rawQuery string) bool {
	for part := range strings.SplitSeq(rawQuery, "&") {
		if part == "stream=true" {
			return true
		}
	}
	return false
}

// opaque reports answers that are a file's content.
func (k *Kept) opaque() bool {
	return strings.HasSuffix(k.target.Path, "/content") || strings.HasSuffix(k.target.Path, "/results")
}

// Outgoing is the caller's body with the upstream's model in it; nothing for a call
// that has no body.
func (k *Kept) Outgoing(body []byte, _ *protocol.Shape, model string, o protocol.Outgoing) [][]byte {
	if k.target.Method == http.MethodGet || k.target.Method == http.MethodDelete {
		return nil
	}
	edits := o.Edits
	for _, at := range k.models {
		name := model
		if k.target.Protocol == protocol.Gemini {
			name = "models/" + strings.TrimPrefix(model, "models/")
		}
		edits = append(edits, protocol.Edit{At: at, Text: wirejson.AppendString(nil, name)})
	}
	return protocol.Splice(body, edits)
}

// UpstreamURL is what follows an upstream's base URL.
func (k *Kept) UpstreamURL(t protocol.Target, _ string) (path, rawQuery string) {
	path = strings.Replace(t.Path, "*", escapePath(t.Object), 1)
	switch t.Protocol {
	case protocol.Anthropic:
		path = "/v1" + path
	case protocol.Gemini:
		path = "/" + t.Version + path
	}
	return path, protocol.ForwardQuery(t.RawQuery)
}

// ReadAnswer reads an answer to its end. What it tells of a cost was booked when the
// object was made.
func (k *Kept) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	if _, err := io.Copy(io.Discard, src); err != nil {
		return protocol.Answer{}, fault.Wrap(fault.Reset, err)
	}
	return protocol.Answer{}, nil
}

// Classify makes a fault of an upstream's error answer. Not found is the object, never
// a model that should rest because of it.
func (k *Kept) Classify(status int, header http.Header, body []byte, now time.Time) *fault.Error {
	f := k.Codec.Classify(status, header, body, now)
	if f.Class == fault.ModelNotFound && k.target.Model == "" && len(k.models) == 0 {
		f.Class = fault.StateNotFound
	}
	return f
}

// NewRewriter implements protocol.Owned.
func (k *Kept) NewRewriter(stored bool, wrap func(id string) string) protocol.Rewriter {
	single := k.target.Path == "/responses/*" || k.target.Path == "/responses/*/cancel"
	if owned, ok := k.Codec.(protocol.Owned); ok && single {
		return owned.NewRewriter(stored, wrap)
	}
	return &keptRewriter{wrap: wrap, collection: k.target.Protocol == protocol.Gemini}
}
