package protocol

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// session is the target of a handshake of a WebSocket.
func (t Target) session(method, rest string, h http.Header) (Target, *fault.Error) {
	t = t.with(OpenAIResponses, OpResponses)
	if rest == "/realtime" {
		t = t.with(OpenAIChat, OpRealtime)
	}
	t.Stream, t.Framing = true, FramingMessages
	t, f := t.allow(method, http.MethodGet)
	switch {
	case f != nil:
		return t, f
	case !upgrades(h):
		return t, fault.New(fault.InvalidRequest, "Open this path as a WebSocket (wss://).")
	}
	t.Method = http.MethodGet
	if t.Op == OpResponses {
		return t, nil // whose messages name the model
	}
	if t.Model, _ = queryValue(t.RawQuery, "model"); badModelName(t.Model) {
		return t, &fault.Error{Class: fault.InvalidRequest, Param: "model", Public: "Name the model in the query, as in /v1/realtime?model=NAME: a name of the model list."}
	}
	return t, nil
}

// upgrades reports a request that asks for a WebSocket.
func upgrades(h http.Header) bool {
	for _, v := range h["Upgrade"] {
		for p := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(p), "websocket") {
				return true
			}
		}
	}
	return false
}

// ReplaceQuery gives a parameter of a raw query another value; the others keep their
// order and their bytes.
func ReplaceQuery(rawQuery, name, value string) string {
	parts := strings.Split(rawQuery, "&")
	for i, p := range parts {
		if k, _, _ := strings.Cut(p, "="); k == name {
			parts[i] = name + "=" + url.QueryEscape(value)
		}
	}
	return strings.Join(parts, "&")
}
