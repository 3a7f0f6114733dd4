package protocol

import (
	"net/http"
	"slices"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// keptPath is a path at which objects are that a provider keeps.
type keptPath struct {
	path     string // * stands for the object's id
	protocol Name   // empty where only headers tell it
	op       Operation
	methods  []string
}

// keptPaths are the vendors' paths of stored answers, files, batches and cached prompts.
var keptPaths = []keptPath{
	{"/responses/*", OpenAIResponses, OpStored, []string{http.MethodGet, http.MethodDelete}},
	{"/responses/*/cancel", OpenAIResponses, OpStored, []string{http.MethodPost}},
	{"/responses/*/input_items", OpenAIResponses, OpStored, []string{http.MethodGet}},
	{"/conversations", OpenAIResponses, OpStored, []string{http.MethodPost}},
	{"/conversations/*", OpenAIResponses, OpStored, []string{http.MethodGet, http.MethodPost, http.MethodDelete}},
	{"/conversations/*/items", OpenAIResponses, OpStored, []string{http.MethodGet, http.MethodPost}},
	{"/chat/completions/*", OpenAIChat, OpStored, []string{http.MethodGet, http.MethodPost, http.MethodDelete}},
	{"/chat/completions/*/messages", OpenAIChat, OpStored, []string{http.MethodGet}},
	{"/files", "", OpFile, []string{http.MethodGet, http.MethodPost}},
	{"/files/*", "", OpFile, []string{http.MethodGet, http.MethodDelete}},
	{"/files/*/content", "", OpFile, []string{http.MethodGet}},
	{"/batches", OpenAIChat, OpBatch, []string{http.MethodGet, http.MethodPost}},
	{"/batches/*", OpenAIChat, OpBatch, []string{http.MethodGet}},
	{"/batches/*/cancel", OpenAIChat, OpBatch, []string{http.MethodPost}},
	{"/messages/batches", Anthropic, OpBatch, []string{http.MethodGet, http.MethodPost}},
	{"/messages/batches/*", Anthropic, OpBatch, []string{http.MethodGet, http.MethodDelete}},
	{"/messages/batches/*/cancel", Anthropic, OpBatch, []string{http.MethodPost}},
	{"/messages/batches/*/results", Anthropic, OpBatch, []string{http.MethodGet}},
	{"/cachedContents", Gemini, OpCache, []string{http.MethodGet, http.MethodPost}},
	{"/cachedContents/*", Gemini, OpCache, []string{http.MethodGet, http.MethodPatch, http.MethodDelete}},
}

// kept finds the operations on objects that a provider keeps. ok is false for a path
// at which there are none.
func (t Target) kept(method, rest string, google bool, h http.Header) (_ Target, _ *fault.Error, ok bool) {
	if rest == "/chat/completions" && !google && (method == http.MethodGet || method == http.MethodHead) {
		t = t.with(OpenAIChat, OpStored)
		t.Path, t.Method = rest, http.MethodGet
		return t, nil, true
	}
	for _, k := range keptPaths {
		id, found := matchKept(k.path, rest)
		if !found || isFixed(rest) || google && k.protocol != "" && k.protocol != Gemini {
			continue
		}
		p := k.protocol
		if p == "" {
			p = modelsProtocol(google, t.RawQuery, h)
		}
		methods := k.methods
		if p == Gemini && k.op == OpFile {
			if strings.HasSuffix(k.path, "/content") {
				continue
			}
			methods = slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return m == http.MethodPost })
		}
		t = t.with(p, k.op)
		t.Path = k.path
		t, f := t.allow(method, methods...)
		if f != nil {
			return t, f, true
		}
		if t.Method = method; method == http.MethodHead {
			t.Method = http.MethodGet
		}
		if method == http.MethodPost {
			t.Boundary = boundary(h)
		}
		if id == "" {
			return t, nil, true
		}
		if p == Gemini { // whose ids begin with the collection
			collection, _, _ := strings.Cut(k.path[1:], "/")
			id, t.Path = collection+"/"+id, "/*"
		}
		t.Object, f = object(id)
		return t, f, true
	}
	return t, nil, false
}

// matchKept reports whether a path has the form of a pattern, and what stands for the *.
func matchKept(pattern, path string) (id string, ok bool) {
	before, after, holds := strings.Cut(pattern, "*")
	if !holds {
		return "", path == pattern
	}
	id, ok = strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// isFixed reports a path that another operation has.
func isFixed(rest string) bool {
	for _, p := range fixed {
		if p.path == rest {
			return true
		}
	}
	return false
}
