package protocol

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Ref is the id of a stored object in a request, one that looks wrapped.
type Ref struct {
	ID    string
	Param string // where it stands, for people
	At    Span   // the string, quotes included

	// Pins says that the provider must look the object up. An id that stands beside
	// the content it names may go to any account.
	Pins bool
}

// MaxRefs is how many wrapped ids a request may have.
const MaxRefs = 4096

// refMark is in every wrapped id.
var refMark = []byte("gw1_")

// AddRef reads a string and notes it if it is a wrapped id. at is the Ref it became
// as an index into Refs, or -1. index says which element of the list param is in,
// where it is in one: a negative one stands for none.
func (s *Shape) AddRef(r *wirejson.Reader, list string, index int, param string, pins bool) (at int) {
	span := Span{From: r.Start()}
	raw, ok := r.Bytes()
	span.To = r.End()
	if !ok || len(raw) > stateid.MaxWrapped || !bytes.Contains(raw, refMark) {
		return -1
	}
	id := string(raw)
	if bytes.IndexByte(raw, '\\') >= 0 {
		quoted := append(append([]byte{'"'}, raw...), '"')
		text, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return -1
		}
		id = string(text)
	}
	if !stateid.IsWrapped(id) {
		return -1
	}
	if index >= 0 {
		param = fmt.Sprintf("%s[%d].%s", list, index, param)
	}
	s.Refs = append(s.Refs, Ref{ID: id, Param: param, At: span, Pins: pins})
	return len(s.Refs) - 1
}

// HintRef reads a top-level string that names a stored object: it is noted as
// AddRef does, and returned as Hint does.
func (s *Shape) HintRef(r *wirejson.Reader, param string) string {
	span := Span{From: r.Start()}
	id, ok := r.String(stateid.MaxWrapped)
	span.To = r.End()
	if ok && stateid.IsWrapped(id) {
		s.Refs = append(s.Refs, Ref{ID: id, Param: param, At: span, Pins: true})
	}
	return hint(id)
}

// CheckRefs fails if there are more than MaxRefs.
func (s *Shape) CheckRefs() *fault.Error {
	if len(s.Refs) <= MaxRefs {
		return nil
	}
	return fault.Newf(fault.InvalidRequest, "The body refers to more than %d stored objects. Send the content itself in place of references.", MaxRefs)
}

// Resolve returns who owns the stored objects that the request names, zero if it
// names none that the gateway knows, and the edits that put the provider's ids in
// place of the wrapped ones. An id that key does not open is passed on as it is and
// pins nothing: the gateway did not make it. It fails with InvalidRequest if the
// objects belong to two owners, since no account has both.
func (s *Shape) Resolve(key *stateid.Key) (stateid.Owner, []Edit, *fault.Error) {
	var owner stateid.Owner
	var edits []Edit
	pin := -1
	for i := range s.Refs {
		ref := &s.Refs[i]
		id, o, ok := key.Unwrap(ref.ID)
		if !ok {
			continue
		}
		edits = append(edits, Edit{At: ref.At, Text: wirejson.AppendString(nil, id)})
		switch {
		case !ref.Pins:
		case pin < 0:
			pin, owner = i, o
		case o.Scope != owner.Scope:
			return stateid.Owner{}, nil, &fault.Error{
				Class: fault.InvalidRequest, Param: ref.Param,
				Public: fmt.Sprintf("%s and %s name objects that two different upstream accounts store, and no account has both. Send the content of one of them in place of its id.",
					s.Refs[pin].Param, ref.Param),
			}
		}
	}
	return owner, edits, nil
}

// Owned is a Codec of a protocol whose answers name objects that the provider stores.
type Owned interface {
	// NewRewriter returns what puts wrap(id) in the place of every id in one answer
	// that a client can use to name a stored object. stored says that the provider
	// keeps the answer; otherwise only what it tells back of the request's is changed.
	NewRewriter(stored bool, wrap func(id string) string) Rewriter
}

// Rewriter changes the ids in one answer and nothing else. Not safe for concurrent use.
type Rewriter interface {
	// Frame appends a frame of a stream to dst, its ids changed. A frame that cannot
	// be read is appended as it is.
	Frame(dst []byte, f sse.Frame) []byte

	// Answer returns a whole answer, its ids changed; body itself if it has none.
	Answer(body []byte) []byte
}

// RewriteEvents appends events of the gateway's own, such as the error that ends a
// stream, to dst, the ids in them changed.
func RewriteEvents(dst, events []byte, w Rewriter) []byte {
	var p sse.Parser
	p.Feed(events)
	p.Finish()
	for {
		f, ok := p.Next()
		if !ok {
			return dst
		}
		dst = w.Frame(dst, f)
	}
}

// Apply returns body with the edits applied, in one piece; body itself if there
// are none.
func Apply(body []byte, edits []Edit) []byte {
	if len(edits) == 0 {
		return body
	}
	return bytes.Join(Splice(body, edits), nil)
}
