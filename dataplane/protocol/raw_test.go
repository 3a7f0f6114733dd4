package protocol_test

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func TestRawPathsKnowTheirProtocolAndTheirPathUpstream(t *testing.T) {
	t.Parallel()
	allowed := []string{"/v1/fine_tuning", "/upload/v1beta/files", "/v1/skills", "/v1/responses", "/v1beta/tunedModels", "/v1/messages"}
	for _, tc := range []struct {
		path, query string
		h           http.Header
		want        protocol.Name
		upstream    string
	}{
		{"/v1/fine_tuning", "", nil, protocol.OpenAIChat, "/fine_tuning"},
		{"/v1/fine_tuning/jobs/ftjob-1/events", "", header("x-api-key", "k"), protocol.OpenAIChat, "/fine_tuning/jobs/ftjob-1/events"},
		{"/v1/fine_tuning/a%20b/", "", nil, protocol.OpenAIChat, "/fine_tuning/a%20b/"},
		{"/v1/skills/s", "", header("anthropic-version", "2023-06-01"), protocol.Anthropic, "/v1/skills/s"},
		{"/v1/messages/x", "", nil, protocol.Anthropic, "/v1/messages/x"},
		{"/v1/responses/x/y", "", nil, protocol.OpenAIResponses, "/responses/x/y"},
		{"/upload/v1beta/files", "", nil, protocol.Gemini, "/upload/v1beta/files"},
		{"/v1beta/tunedModels/x:transferOwnership", "", nil, protocol.Gemini, "/v1beta/tunedModels/x:transferOwnership"},
		{"/v1/skills", "key=k", nil, protocol.Gemini, "/v1/skills"},
	} {
		got, f, ok := protocol.IdentifyRaw(http.MethodPatch, tc.path, tc.query, tc.h, allowed)
		if !ok || f != nil || got.Protocol != tc.want || got.Path != tc.upstream || got.Op != protocol.OpRaw || got.Method != http.MethodPatch {
			t.Errorf("%s: %+v, %v, %v; want %s at %s", tc.path, got, f, ok, tc.want, tc.upstream)
		}
	}
	for _, other := range []string{"/v1/fine_tuning2", "/v1/fine_tunin", "/fine_tuning", "/v1", "", "/v1/fine%5Ftuning/x"} {
		if _, _, ok := protocol.IdentifyRaw(http.MethodGet, other, "", nil, allowed); ok {
			t.Errorf("%q is passed on and stands below no allowed path", other)
		}
	}
}

func TestUncleanRawPathsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tail := range []string{
		"/../x", "/..", "/a/../../x", "//x", "/a//b", "/./x", "/.", "/%2e%2e/x", "/%2E/x", "/a%2fb", "/a%2Fb", "/a%5cb", `/a\b`,
		"/%252e%252e/x", "/a@b", "/a%40b", "/a%0d%0ab", "/a%00", "/a%7f", "/a%ff", "/a%", "/a%zz", "/a;x", "/..;/x", "/a%3fb", "/a%23b",
		"/a b", "/a\u00e9", "/a|b", "/http:%2f%2fevil",
	} {
		_, f, ok := protocol.IdentifyRaw(http.MethodGet, "/v1/fine_tuning"+tail, "", nil, []string{"/v1/fine_tuning"})
		if !ok || f == nil || f.Class != fault.InvalidRequest {
			t.Errorf("%q: %v, %v; want it refused", tail, f, ok)
		}
	}
	for _, method := range []string{http.MethodConnect, http.MethodTrace} {
		if _, f, ok := protocol.IdentifyRaw(method, "/v1/fine_tuning", "", nil, []string{"/v1/fine_tuning"}); !ok || f == nil || f.Class != fault.MethodNotAllowed {
			t.Errorf("%s: %v, %v; want it refused", method, f, ok)
		}
	}
}

// Whatever passes stays below an allowed path however often a server decodes it and
// resolves its dots.
func FuzzRawPathStaysBelowWhatIsAllowed(f *testing.F) {
	for _, seed := range []string{"/v1/x/../y", "/v1/x/%2e%2e/y", "/v1/x/a:b", "/v1/x//y", "/v1/x/%25%32%65", "/v1/x/é", "/v1/x/..;/y"} {
		f.Add(seed)
	}
	allowed := []string{"/v1/x"}
	f.Fuzz(func(t *testing.T, p string) {
		_, bad, ok := protocol.IdentifyRaw(http.MethodGet, p, "", nil, allowed)
		if !ok || bad != nil {
			return
		}
		for range 3 {
			if strings.ContainsAny(p, "\r\n\\@?#") {
				t.Fatalf("%q means more than a path", p)
			}
			if c := path.Clean(p); c != allowed[0] && !strings.HasPrefix(c, allowed[0]+"/") {
				t.Fatalf("%q leads to %q", p, c)
			}
			u := url.URL{Path: p}
			if _, err := url.ParseRequestURI(u.String()); err != nil {
				t.Fatalf("%q is no path of a request: %v", p, err)
			}
			next, err := url.PathUnescape(p)
			if err != nil {
				return
			}
			if strings.Count(next, "/") != strings.Count(p, "/") {
				t.Fatalf("%q has other segments when it is decoded: %q", p, next)
			}
			p = next
		}
	})
}
