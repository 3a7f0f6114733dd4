package protocol

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// fixed are the operations that a path names all by itself.
var fixed = []struct {
	path      string
	protocol  Name
	op        Operation
	multipart bool
}{
	{"/messages/count_tokens", Anthropic, OpCountTokens, false},
	{"/responses/input_tokens", OpenAIResponses, OpCountTokens, false},
	{"/responses/compact", OpenAIResponses, OpCompact, false},
	{"/embeddings", OpenAIChat, OpEmbed, false},
	{"/images/generations", OpenAIChat, OpImage, false},
	{"/images/edits", OpenAIChat, OpImageEdit, true},
	{"/images/variations", OpenAIChat, OpImageVariation, true},
	{"/audio/speech", OpenAIChat, OpSpeech, false},
	{"/audio/transcriptions", OpenAIChat, OpTranscribe, true},
	{"/audio/translations", OpenAIChat, OpTranslate, true},
	{"/moderations", OpenAIChat, OpModerate, false},
	{"/rerank", OpenAIChat, OpRerank, false},
	{"/v2/rerank", OpenAIChat, OpRerank, false}, // Cohere's
}

// actions are the methods of Gemini beside generation.
var actions = []struct {
	name string
	op   Operation
}{
	{"countTokens", OpCountTokens},
	{"embedContent", OpEmbed},
	{"batchEmbedContents", OpEmbedBatch},
	{"predict", OpPredict},
	{"predictLongRunning", OpPredictLong},
}

func actionOf(name string) Operation {
	for _, a := range actions {
		if a.name == name {
			return a.op
		}
	}
	return OpUnknown
}

// ActionName is Gemini's method of an operation; empty if it has none.
func ActionName(o Operation) string {
	for _, a := range actions {
		if a.op == o {
			return a.name
		}
	}
	return ""
}

func methodNames() []string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = a.name
	}
	return names
}

// other finds the operations beside generation and model lists.
func (t Target) other(method, rest string, google bool, h http.Header) (Target, *fault.Error, bool) {
	if google {
		if name, ok := strings.CutPrefix(rest, operationsMark); ok {
			out, f := t.operation("operations/"+name, method)
			return out, f, true
		}
		return t, nil, false
	}
	for _, p := range fixed {
		if rest == p.path {
			t = t.with(p.protocol, p.op)
			if p.multipart {
				t.Boundary = boundary(h)
			}
			out, f := t.allow(method, http.MethodPost)
			return out, f, true
		}
	}
	if tail, ok := strings.CutPrefix(rest, "/videos"); ok && (tail == "" || tail[0] == '/') {
		return t.video(method, tail, h)
	}
	return t, nil, false
}

// boundary is what parts a multipart body; empty for another body.
func boundary(h http.Header) string {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}

// video reads what follows /videos.
func (t Target) video(method, tail string, h http.Header) (Target, *fault.Error, bool) {
	id, action, _ := strings.Cut(strings.TrimPrefix(tail, "/"), "/")
	var op Operation
	want := []string{http.MethodPost}
	switch {
	case id == "" && method != http.MethodGet && method != http.MethodHead:
		op, want = OpVideo, []string{http.MethodGet, http.MethodPost}
		t.Boundary = boundary(h)
	case id == "":
		op, want = OpVideoList, []string{http.MethodGet}
	case id == "edits" || id == "extensions" || id == "characters":
		return t, nil, false // not offered
	case action == "" && method == http.MethodDelete:
		op, want = OpVideoDelete, []string{http.MethodDelete}
	case action == "":
		op, want = OpVideoGet, []string{http.MethodGet, http.MethodDelete}
	case action == "content":
		op, want = OpVideoContent, []string{http.MethodGet}
	case action == "remix":
		op = OpVideoRemix
	default:
		return t, nil, false
	}
	t = t.with(OpenAIChat, op)
	var f *fault.Error
	if t, f = t.allow(method, want...); f != nil {
		return t, f, true
	}
	if method != http.MethodPost {
		t.Method = want[0]
	}
	if id == "" {
		return t, nil, true
	}
	t.Object, f = object(id)
	return t, f, true
}

// operationsMark parts a long-running operation's name from where it runs.
const operationsMark = "/operations/"

// operation is the target of a long-running operation of Gemini by its whole name.
func (t Target) operation(escaped, method string) (Target, *fault.Error) {
	t, f := t.with(Gemini, OpGetOperation).allow(method, http.MethodGet)
	if f != nil {
		return t, f
	}
	t.Method = http.MethodGet
	t.Object, f = object(escaped)
	return t, f
}

// maxObject is the longest id in a path, in bytes. Ids that the gateway wraps are the
// longest ones.
const maxObject = 2048

func object(escaped string) (string, *fault.Error) {
	id, err := url.PathUnescape(escaped)
	if err != nil || id == "" || len(id) > maxObject || strings.Contains(id, "..") || strings.ContainsFunc(id, unfitForPath) {
		return "", &fault.Error{
			Class: fault.InvalidRequest, Param: "id",
			Public: "The id in the path must be 1 to 2048 bytes of letters, digits and the signs . _ - : / alone.",
		}
	}
	return id, nil
}

func unfitForPath(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("._-:/", r)
}
