package dataplane

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// shape tells whether a body is the protocol's own error body.
func shape(w wire, body []byte) error {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	e, ok := v["error"].(map[string]any)
	if !ok {
		return fmt.Errorf("no error object in %s", body)
	}
	if m, _ := e["message"].(string); m == "" {
		return fmt.Errorf("no message in %s", body)
	}
	switch w.name {
	case "anthropic_messages":
		if v["type"] != "error" || e["type"] == nil || v["request_id"] == nil {
			return fmt.Errorf("not an Anthropic error: %s", body)
		}
	case "gemini_generate_content":
		if e["status"] == nil || e["code"] == nil {
			return fmt.Errorf("not a Gemini error: %s", body)
		}
	default:
		if _, ok := e["type"].(string); !ok {
			return fmt.Errorf("not an OpenAI error: %s", body)
		}
	}
	return nil
}

func TestBadInputGetsTheProtocolsOwnError(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`[`, 200_000)
	for _, w := range wires() {
		gemini := w.name == "gemini_generate_content"
		for _, tc := range []struct {
			name   string
			body   string
			model  string
			key    string
			path   string
			header map[string]string
			want   int
			skip   bool
		}{
			{name: "invalid JSON", body: `{"model":"m",`, want: 400},
			{name: "not JSON", body: `hello`, want: 400},
			{name: "empty", body: " ", want: 400},
			{name: "an array", body: `[]`, want: 400},
			{name: "trailing data", body: `{"model":"m"} {}`, want: 400},
			{name: "duplicate model", body: `{"model":"m","model":"other"}`, want: 400},
			{name: "bad UTF-8", body: "{\"model\":\"m\",\"x\":\"\xff\"}", want: 400},
			{name: "deep nesting", body: `{"model":"m","messages":` + deep, want: 400},
			{name: "missing model", body: `{"messages":[]}`, want: 400, skip: gemini},
			{name: "model of a wrong type", body: `{"model":7,"messages":[]}`, want: 400, skip: gemini},
			{name: "unknown model", model: "nobody-knows", want: 404},
			{name: "bad key", key: "sk-wrong", want: 401},
			{name: "no key", key: "-", want: 401},
			{name: "unknown path", path: "/v1/nothing/here", want: 404},
			{name: "encoded body", header: map[string]string{"Content-Encoding": "gzip"}, want: 415},
			{name: "bad timeout", header: map[string]string{"X-Gateway-Timeout-Ms": "soon"}, want: 400},
		} {
			if tc.skip {
				continue
			}
			t.Run(w.name+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				g := newRig(t)
				model := tc.model
				if model == "" {
					model = "m"
				}
				path := strings.ReplaceAll(w.path, "MODEL", model)
				if tc.path != "" {
					path = tc.path
				}
				body := tc.body
				if body == "" {
					body = w.body(model, false)
				}
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
				key := tc.key
				if key == "" {
					key = testKey
				}
				switch {
				case key == "-":
				case gemini:
					req.Header.Set("X-Goog-Api-Key", key)
				default:
					req.Header.Set("Authorization", "Bearer "+key)
				}
				if w.name == "anthropic_messages" {
					req.Header.Set("Anthropic-Version", "2023-06-01")
				}
				for k, v := range tc.header {
					req.Header.Set(k, v)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				got, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != tc.want {
					t.Errorf("status %d, want %d: %s", resp.StatusCode, tc.want, got)
				}
				if tc.path == "" || w.name == "anthropic_messages" || gemini {
					if err := shape(w, got); err != nil {
						t.Error(err)
					}
				}
				if n := g.provider.Attempts(); n != 0 {
					t.Errorf("%d calls reached the provider", n)
				}
			})
		}
	}
}

func TestBodyOverTheLimitIsRefusedUnread(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for name, chunked := range map[string]bool{"announced": false, "chunked": true} {
		t.Run(name, func(t *testing.T) {
			const size = 100 << 20
			var sent int64
			body := io.LimitReader(zeros{&sent}, size)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/chat/completions", body)
			if !chunked {
				req.ContentLength = size
			}
			req.Header.Set("Authorization", "Bearer "+testKey)
			req.Header.Set("Expect", "100-continue")
			resp, err := http.DefaultTransport.(*http.Transport).Clone().RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d: %s", resp.StatusCode, got)
			}
			if err := shape(wires()[0], got); err != nil {
				t.Error(err)
			}
			if sent > 80<<20 {
				t.Errorf("%d bytes of the body were taken", sent)
			}
		})
	}
	if resp, body := g.call(t, wires()[0], "m", false); resp.StatusCode != http.StatusOK {
		t.Errorf("the node does not serve afterwards: %d %s", resp.StatusCode, body)
	}
}

type zeros struct{ n *int64 }

func (z zeros) Read(p []byte) (int, error) {
	*z.n += int64(len(p))
	return len(p), nil
}

func TestTooManyHeadersAreRefusedInTheProtocol(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/messages", strings.NewReader(`{}`))
	req.Header.Set("Anthropic-Version", "2023-06-01")
	for i := range 10_000 {
		req.Header.Set(fmt.Sprintf("X-Header-%d", i), "value")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d: %s", resp.StatusCode, got)
	}
	if err := shape(wires()[2], got); err != nil {
		t.Error(err)
	}
	if resp, body := g.call(t, wires()[0], "m", false); resp.StatusCode != http.StatusOK {
		t.Errorf("the node does not serve afterwards: %d %s", resp.StatusCode, body)
	}
}

// A client that sends its head byte by byte loses its connection, and others do not
// notice.
func TestSlowHeadersLoseTheirConnection(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	front := httptest.NewUnstartedServer(g.node)
	front.Config = g.node.inferenceServer()
	front.Config.ReadHeaderTimeout = 200 * time.Millisecond
	front.Start()
	defer front.Close()
	var conns []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("POST /v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: ")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	g.url = front.URL
	if resp, body := g.call(t, wires()[0], "m", false); resp.StatusCode != http.StatusOK {
		t.Errorf("others are not served meanwhile: %d %s", resp.StatusCode, body)
	}
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatalf("a slow connection stays open: %v", err)
		}
	}
}

func TestModelListsHaveThreeShapes(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for name, tc := range map[string]struct {
		path   string
		header map[string]string
		list   string
		id     string
	}{
		"openai":    {"/v1/models", nil, "data", "id"},
		"bare":      {"/models", nil, "data", "id"},
		"anthropic": {"/v1/models", map[string]string{"Anthropic-Version": "2023-06-01"}, "data", "id"},
		"gemini":    {"/v1beta/models", nil, "models", "name"},
	} {
		t.Run(name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+tc.path, nil)
			req.Header.Set("Authorization", "Bearer "+testKey)
			for k, v := range tc.header {
				req.Header.Set(k, v)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			raw, _ := io.ReadAll(resp.Body)
			var v map[string]any
			if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&v); err != nil {
				t.Fatal(err)
			}
			list, _ := v[tc.list].([]any)
			if len(list) != 2 {
				t.Fatalf("%d models in %s, want 2", len(list), raw)
			}
			if id := list[0].(map[string]any)[tc.id]; id != "alias" && id != "models/alias" {
				t.Errorf("first model %v, want alias", id)
			}
		})
	}
}

// What a caller sent is told back as far as it helps to find it, and no further.
func TestErrorsDoNotEchoWholeHeaders(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	w := wires()[0]
	for _, name := range []string{"X-Gateway-Timeout-Ms", "Content-Encoding", "X-Gateway-Options"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+w.path, strings.NewReader(w.body("m", false)))
		req.Header.Set("Authorization", "Bearer "+testKey)
		req.Header.Set(name, strings.Repeat("k", 60<<10))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 || resp.StatusCode >= 500 || len(body) > 2<<10 {
			t.Errorf("%s: status %d with %d bytes", name, resp.StatusCode, len(body))
		}
	}
}
