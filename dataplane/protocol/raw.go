package protocol

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

// IdentifyRaw is the target of a path that Identify does not know and that stands at or
// below one of the allowed ones. ok is false for all other paths.
//
// The protocol, which decides who is asked and how errors look, is Gemini's for a path
// with v1beta or v1alpha in it or a request with a Google header or ?key=, Anthropic's for
// one with anthropic-version or below /v1/messages, that of Responses below /v1/responses,
// and else OpenAI's.
//
// It fails with InvalidRequest for a path that another server could read as one outside of
// the allowed ones: with empty or dot segments, or with signs, encoded or not, that part
// paths; and with MethodNotAllowed for CONNECT and TRACE, of which the last would show the
// provider's credential.
func IdentifyRaw(method, path, rawQuery string, h http.Header, allowed []string) (t Target, f *fault.Error, ok bool) {
	for _, a := range allowed {
		rest, below := strings.CutPrefix(path, a)
		if ok = below && (rest == "" || rest[0] == '/'); ok {
			break
		}
	}
	if !ok {
		return Target{}, nil, false
	}
	t = Target{Protocol: rawProtocol(path, rawQuery, h), Op: OpRaw, RawQuery: rawQuery, Method: method, Path: path}
	if !cleanPath(path) {
		return t, fault.New(fault.InvalidRequest,
			"The path must be made of segments of letters, digits and the signs - . _ ~ $ & + , : = alone, without \"..\", empty segments, and encoded signs that part paths."), true
	}
	if method == http.MethodConnect || method == http.MethodTrace {
		return t, fault.Newf(fault.MethodNotAllowed, "This path does not take %s.", method), true
	}
	if t.Protocol == OpenAIChat || t.Protocol == OpenAIResponses { // whose base URLs end in the version
		if below, versioned := strings.CutPrefix(path, "/v1"); versioned && below != "" && below[0] == '/' {
			t.Path = below
		}
	}
	return t, nil, true
}

// SafeMethod reports a method that asks for no change (RFC 9110, 9.2.1).
func SafeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func rawProtocol(path, rawQuery string, h http.Header) Name {
	below := strings.TrimPrefix(path, "/v1")
	under := func(prefix string) bool { return below == prefix || strings.HasPrefix(below, prefix+"/") }
	google := strings.Contains(path+"/", "/v1beta/") || strings.Contains(path+"/", "/v1alpha/")
	switch {
	case !google && under("/messages"):
		return Anthropic
	case !google && under("/responses"):
		return OpenAIResponses
	}
	return modelsProtocol(google, rawQuery, h)
}

// cleanPath reports a path that every server reads in the same way.
func cleanPath(path string) bool {
	if path == "" || path[0] != '/' || strings.Contains(path, "//") || strings.Contains(path, "..") ||
		strings.Contains(path, "/./") || strings.HasSuffix(path, "/.") {
		return false
	}
	text, err := url.PathUnescape(path)
	if err != nil || !utf8.ValidString(text) || strings.ContainsFunc(text, isControl) {
		return false
	}
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			// What is encoded must not mean anything to those who decode it, once or twice.
			c = unhex(path[i+1])<<4 | unhex(path[i+2])
			if strings.IndexByte("/\\.%@?#;", c) >= 0 {
				return false
			}
			i += 2
			continue
		}
		if !plainInPath(c) {
			return false
		}
	}
	return true
}

func plainInPath(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		return true
	}
	return strings.IndexByte("/-._~$&+,:=", c) >= 0
}

// unhex is the value of a digit that url.PathUnescape has accepted.
func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
