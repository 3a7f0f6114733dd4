package protocol

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// MaxModelName is the longest model name, in bytes.
const MaxModelName = 512

// Identify tells protocol and operation of a request from its method, the escaped
// path below the route's prefix, the raw query, and its headers.
//
// Paths are the vendors', with their version segment or without: /v1/messages and
// /messages are the same. The two vendors that list models at the same path are
// told apart by anthropic-version; a Google API key or client header means Gemini.
//
// It fails with UnknownPath or MethodNotAllowed. The Target then still has the
// protocol the client most likely speaks, so that it can read the error.
func Identify(method, path, rawQuery string, h http.Header) (Target, *fault.Error) {
	t := Target{RawQuery: rawQuery}
	path = "/" + strings.TrimLeft(path, "/")
	rest := path
	for _, v := range [...]string{"v1", "v1beta", "v1alpha"} {
		if after, ok := strings.CutPrefix(path, "/"+v); ok && (after == "" || after[0] == '/') {
			t.Version, rest = v, after
		}
	}
	if trimmed := strings.TrimSuffix(rest, "/"); trimmed != "" {
		rest = trimmed
	}
	google := t.Version == "v1beta" || t.Version == "v1alpha"

	if kept, f, ok := t.kept(method, rest, google, h); ok {
		return kept, f
	}
	switch {
	case rest == "/chat/completions" && !google:
		return t.with(OpenAIChat, OpGenerate).allow(method, http.MethodPost)
	case (rest == "/realtime" || rest == "/responses" && upgrades(h)) && !google:
		return t.session(method, rest, h)
	case rest == "/responses" && !google:
		return t.with(OpenAIResponses, OpGenerate).allow(method, http.MethodPost)
	case rest == "/messages" && !google:
		return t.with(Anthropic, OpGenerate).allow(method, http.MethodPost)
	case rest == "/models":
		return t.with(modelsProtocol(google, rawQuery, h), OpListModels).allow(method, http.MethodGet)
	case strings.HasPrefix(rest, "/models/"):
		return t.model(strings.TrimPrefix(rest, "/models/"), "", method, modelsProtocol(google, rawQuery, h))
	case strings.HasPrefix(rest, "/tunedModels/") && t.Version != "":
		return t.model(strings.TrimPrefix(rest, "/tunedModels/"), "tunedModels/", method, Gemini)
	}
	if other, f, ok := t.other(method, rest, google, h); ok {
		return other, f
	}
	t.Protocol = guess(rest, google, h)
	return t, fault.Newf(fault.UnknownPath,
		"There is nothing at the path %q. Offered are chat/completions, responses, messages, realtime, embeddings, images, audio, videos, moderations, rerank, files, batches, models and models/{model}:generateContent, each also below /v1 (Gemini: /v1beta).",
		clip(path, 200))
}

func (t Target) with(p Name, op Operation) Target {
	t.Protocol, t.Op = p, op
	if p != Gemini {
		t.Version = ""
	} else if t.Version == "" {
		t.Version = "v1beta"
	}
	return t
}

// allow demands one of some methods; HEAD goes where GET does.
func (t Target) allow(method string, want ...string) (Target, *fault.Error) {
	if slices.Contains(want, method) || method == http.MethodHead && slices.Contains(want, http.MethodGet) {
		return t, nil
	}
	f := fault.Newf(fault.MethodNotAllowed, "This path takes %s, not %s.", strings.Join(want, " and "), clip(method, 20))
	f.Allow = strings.Join(want, ", ")
	return t, f
}

// model reads what follows models/: a name, and an action upon it.
func (t Target) model(escaped, collection, method string, lists Name) (Target, *fault.Error) {
	name, action, _ := cutLast(escaped, ':')
	switch action {
	case "generateContent":
		t = t.with(Gemini, OpGenerate)
	case "streamGenerateContent":
		t = t.with(Gemini, OpGenerate)
		t.Stream, t.Framing = true, FramingArray
		if alt, _ := queryValue(t.RawQuery, "alt"); alt == "sse" {
			t.Framing = FramingSSE
		}
	case "batchGenerateContent", "asyncBatchEmbedContent":
		t = t.with(Gemini, OpUnknown)
		return t, fault.Newf(fault.UnknownPath, "The method %s is not offered. Offered are generateContent, streamGenerateContent, %s.",
			action, strings.Join(methodNames(), ", "))
	default:
		if op := actionOf(action); op != OpUnknown {
			t = t.with(Gemini, op)
			break
		}
		name = escaped // a colon may be part of the name
		if strings.Contains(name, operationsMark) && lists == Gemini {
			return t.operation(collection+"models/"+name, method)
		}
		t = t.with(lists, OpGetModel)
	}
	model, err := url.PathUnescape(name)
	if err != nil || badModelName(model) {
		return t, &fault.Error{
			Class: fault.InvalidRequest, Param: "model",
			Public: "The model in the path must be 1 to 512 bytes of UTF-8 without control characters.",
		}
	}
	t.Model = collection + model
	if t.Op == OpGetModel {
		return t.allow(method, http.MethodGet)
	}
	return t.allow(method, http.MethodPost)
}

func badModelName(name string) bool {
	return name == "" || len(name) > MaxModelName || !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) ||
		strings.HasPrefix(name, "/") || strings.Contains(name, "..")
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

// modelsProtocol tells who is asking for a list of models.
func modelsProtocol(google bool, rawQuery string, h http.Header) Name {
	switch {
	case google, h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "":
		return Gemini
	case h.Get("Anthropic-Version") != "":
		return Anthropic
	}
	if _, ok := queryValue(rawQuery, "key"); ok {
		return Gemini
	}
	return OpenAIChat
}

// guess is the protocol a client speaks that asks for a path we do not have.
func guess(rest string, google bool, h http.Header) Name {
	switch {
	case google, h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "":
		return Gemini
	case h.Get("Anthropic-Version") != "", h.Get("X-Api-Key") != "", rest == "/messages", strings.HasPrefix(rest, "/messages/"):
		return Anthropic
	case rest == "/responses", strings.HasPrefix(rest, "/responses/"):
		return OpenAIResponses
	}
	return OpenAIChat
}

// credentialParams are query parameters that carry a credential of the client.
var credentialParams = [...]string{"key", "api_key", "api-key", "apikey", "access_token", "oauth_token", "bearer_token"}

// ForwardQuery is the client's query without the parameters that carry its
// credential. All others keep their order and their bytes.
func ForwardQuery(rawQuery string) string {
	if rawQuery == "" {
		return ""
	}
	var kept []string
	for part := range strings.SplitSeq(rawQuery, "&") {
		name, _, _ := strings.Cut(part, "=")
		if name, err := url.QueryUnescape(name); err == nil && !isCredentialParam(name) && part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

func isCredentialParam(name string) bool {
	for _, c := range credentialParams {
		if strings.EqualFold(name, c) {
			return true
		}
	}
	return false
}

// queryValue is the first value of a parameter in a raw query.
func queryValue(rawQuery, name string) (string, bool) {
	for part := range strings.SplitSeq(rawQuery, "&") {
		k, v, _ := strings.Cut(part, "=")
		if k, err := url.QueryUnescape(k); err == nil && k == name {
			v, err := url.QueryUnescape(v)
			return v, err == nil
		}
	}
	return "", false
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// clip cuts s to at most n bytes, at a character, for texts that people read.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
