package fakeprovider

import (
	"net/http"
	"strings"
)

// target is what the address of a request says.
type target struct {
	protocol  Protocol
	operation Operation
	// model is set where the path names it.
	model string
	// streams is set for Gemini's streaming method; asList when it was asked for a
	// JSON array.
	streams, asList bool
}

// locate reads protocol and operation from path and headers. A path that means
// nothing is Unknown, in the protocol that is the likeliest.
func locate(r *http.Request) target {
	path, version := r.URL.Path, ""
	for _, v := range []string{"/v1beta/", "/v1alpha/", "/v1/"} {
		if rest, ok := strings.CutPrefix(path, v); ok {
			path, version = "/"+rest, v
			break
		}
	}
	if path == "/chat/completions" && r.Method == http.MethodGet {
		return target{protocol: Chat, operation: KeptObject}
	}
	socket := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	switch path {
	case "/realtime":
		return target{protocol: Chat, operation: Session, model: r.URL.Query().Get("model")}
	case "/chat/completions":
		return target{protocol: Chat, operation: Generate}
	case "/responses":
		if socket {
			return target{protocol: Responses, operation: Session}
		}
		return target{protocol: Responses, operation: Generate}
	case "/responses/input_tokens":
		return target{protocol: Responses, operation: CountTokens}
	case "/messages":
		return target{protocol: Anthropic, operation: Generate}
	case "/messages/count_tokens":
		return target{protocol: Anthropic, operation: CountTokens}
	}

	if t, ok := locateKept(r, path, version); ok {
		return t
	}
	if t, ok := locateEndpoint(r, path); ok {
		return t
	}
	rest, ok := strings.CutPrefix(path, "/models")
	if !ok || rest != "" && rest[0] != '/' {
		return target{protocol: dialect(r, version), operation: Unknown}
	}
	name := strings.TrimPrefix(rest, "/")
	if name == "" {
		return target{protocol: dialect(r, version), operation: ListModels}
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 {
		t := target{protocol: Gemini, model: name[:i]}
		switch name[i+1:] {
		case "generateContent":
			t.operation = Generate
			return t
		case "streamGenerateContent":
			t.operation, t.streams = Generate, true
			t.asList = r.URL.Query().Get("alt") != "sse"
			return t
		case "countTokens":
			t.operation = CountTokens
			return t
		}
	}
	return target{protocol: dialect(r, version), operation: GetModel, model: name}
}

// dialect tells the vendors apart on the paths they share: Anthropic's clients
// always send their version, Gemini's use its own path version or key.
func dialect(r *http.Request, version string) Protocol {
	switch {
	case r.Header.Get("Anthropic-Version") != "":
		return Anthropic
	case version == "/v1beta/" || version == "/v1alpha/" ||
		r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Get("key") != "":
		return Gemini
	}
	return Chat
}
