package fakeprovider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// say asks in Chat and returns the text, or the status of an error.
func say(t *testing.T, url, key, model string) string {
	t.Helper()
	r, err := vendorsdk.Of(fakeprovider.Chat).Ask(t.Context(), url, vendorsdk.Question{Key: key, Model: model, Text: "x"})
	if err != nil {
		return fmt.Sprint(vendorsdk.Of(fakeprovider.Chat).Status(err))
	}
	return r.Text
}

func text(s string) fakeprovider.Step { return fakeprovider.Step{Text: s} }

func TestStepsAreTakenInOrderAndTheLastRepeats(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Fail(fakeprovider.RateLimited),
		fakeprovider.Step{Text: "two", Times: 2}, text("last"))
	var got []string
	for range 5 {
		got = append(got, say(t, url, "k", "m"))
	}
	if diff := cmp.Diff([]string{"429", "two", "two", "last", "last"}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if p.Attempts() != 5 {
		t.Errorf("%d attempts, want 5", p.Attempts())
	}
}

func TestMoreSpecificScriptsWinAndEndedOnesStepAside(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, text("any"))
	p.Script(fakeprovider.Match{Protocol: fakeprovider.Chat, Model: "m"}, text("model"))
	p.SetScript(fakeprovider.Script{Match: fakeprovider.Match{Key: "a"}, Steps: []fakeprovider.Step{text("key")}, ThenDefault: true})
	for _, tc := range []struct{ key, model, want string }{
		{"b", "n", "any"}, {"b", "m", "model"}, {"a", "m", "key"}, {"a", "m", "model"}, {"a", "n", "any"},
	} {
		if got := say(t, url, tc.key, tc.model); got != tc.want {
			t.Errorf("key %s, model %s: %q, want %q", tc.key, tc.model, got, tc.want)
		}
	}
	p.Script(fakeprovider.Match{})
	if got := say(t, url, "b", "n"); !strings.HasPrefix(got, "Hello") {
		t.Errorf("after the script was removed: %q, want the default answer", got)
	}
}

func TestEqualRequestsGetEqualBytes(t *testing.T) {
	t.Parallel()
	for _, proto := range []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini} {
		for _, stream := range []bool{false, true} {
			path, body := simple(proto, stream)
			var first []byte
			for range 2 { // two providers: nothing may depend on what was asked before
				_, url := serve(t, fakeprovider.Config{Now: func() time.Time { return time.Unix(1, 0) }})
				for range 2 {
					_, data, err := fetch(t, url+path, body)
					if err != nil {
						t.Fatal(err)
					}
					if first == nil {
						first = data
					}
					if !bytes.Equal(first, data) {
						t.Errorf("%s stream=%v:\n%s\n%s", proto, stream, first, data)
					}
				}
			}
		}
	}
}

func TestUsageChunkComesOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	path, body := simple(fakeprovider.Chat, true)
	_, data, _ := fetch(t, url+path, body)
	if bytes.Contains(data, []byte(`"usage"`)) {
		t.Errorf("usage without being asked for: %s", data)
	}
	_, data, _ = fetch(t, url+path, strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1))
	events := bytes.Split(bytes.TrimSpace(data), []byte("\n\n"))
	for i, ev := range events[:len(events)-2] {
		if !bytes.Contains(ev, []byte(`"usage":null`)) {
			t.Errorf("event %d has no usage:null: %s", i, ev)
		}
	}
	if u := events[len(events)-2]; !bytes.Contains(u, []byte(`"choices":[],"usage":{"prompt_tokens":1,`)) {
		t.Errorf("usage chunk %s", u)
	}
	if bytes.Contains(data, []byte(`"error"`)) {
		t.Error("a healthy chunk has the key error, which the SDK takes for a failure")
	}
}

func TestGeminiStreamsHaveOnlyDataLinesWithCRLF(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{KeepAlives: 5, Text: "some words here"})
	path, body := simple(fakeprovider.Gemini, true)
	_, data, _ := fetch(t, url+path, body)
	events := strings.Split(strings.TrimSuffix(string(data), "\r\n\r\n"), "\r\n\r\n")
	for i, ev := range events {
		v, ok := strings.CutPrefix(ev, "data: ")
		if !ok || !json.Valid([]byte(v)) || !strings.Contains(v, "usageMetadata") {
			t.Errorf("event %d: %q", i, ev)
		}
	}

	resp, data, _ := fetch(t, url+"/v1beta/models/m:streamGenerateContent", body)
	var parts []any
	if err := json.Unmarshal(data, &parts); err != nil || len(parts) != len(events) {
		t.Errorf("without alt=sse: %d elements (%v), want an array of %d: %s", len(parts), err, len(events), data)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		t.Errorf("content type %s", resp.Header.Get("Content-Type"))
	}
}

func TestPathsWorkWithAndWithoutVersion(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	for _, proto := range []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini} {
		path, body := simple(proto, false)
		bare := strings.TrimPrefix(strings.TrimPrefix(path, "/v1beta"), "/v1")
		for _, path := range []string{path, bare} {
			p.Reset()
			resp, _, _ := fetch(t, url+path, body)
			r := p.Requests()
			if resp.StatusCode != 200 || len(r) != 1 || r[0].Protocol != proto || r[0].Operation != fakeprovider.Generate || r[0].Model != "m" {
				t.Errorf("%s: status %d, recorded %+v", path, resp.StatusCode, r)
			}
		}
	}
	p.Reset()
	if resp, _, _ := fetch(t, url+"/v1/embroidery", "{}"); resp.StatusCode != 404 || p.Attempts() != 0 {
		t.Errorf("unknown path: status %d, %d attempts, want 404 and none", resp.StatusCode, p.Attempts())
	}
	resp, err := http.Get(url + "/v1/messages")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("GET of a generation path: status %d, want 405", resp.StatusCode)
	}
}

func TestKeysAreReadFromEveryPlace(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{Keys: []string{"right"}})
	for _, s := range vendorsdk.All() {
		if _, err := s.Ask(t.Context(), url, vendorsdk.Question{Key: "right", Model: "m", Text: "x"}); err != nil {
			t.Errorf("%s with the right key: %v", s.Protocol, err)
		}
		if _, err := s.Ask(t.Context(), url, vendorsdk.Question{Key: "wrong", Model: "m", Text: "x"}); s.Status(err) != 401 {
			t.Errorf("%s with a wrong key: %v, want 401", s.Protocol, err)
		}
	}
	path, body := simple(fakeprovider.Chat, false)
	for _, tc := range []struct{ query, name, value string }{
		{"", "Authorization", "Bearer right"}, {"", "X-Api-Key", "right"}, {"", "X-Goog-Api-Key", "right"}, {"?key=right", "", ""},
	} {
		header := []string{}
		if tc.name != "" {
			header = []string{tc.name, tc.value}
		}
		if resp, data, _ := fetch(t, url+path+tc.query, body, header...); resp.StatusCode != 200 {
			t.Errorf("key in %s%s: %s", tc.name, tc.query, data)
		}
	}
	for _, r := range p.Requests() {
		if r.Key != "right" && r.Key != "wrong" {
			t.Errorf("recorded key %q", r.Key)
		}
	}
}

func TestStrictRefusesWhatVendorsRefuse(t *testing.T) {
	t.Parallel()
	_, strict := serve(t, fakeprovider.Config{Strict: true})
	_, lenient := serve(t, fakeprovider.Config{})
	const version, current = "2023-06-01", "2026-10-21"
	for _, tc := range []struct {
		name, path, body, version string
		lenient                   int
	}{
		{"chat without model", "/v1/chat/completions", `{"messages":[]}`, "", 200},
		{"chat without messages", "/v1/chat/completions", `{"model":"m"}`, "", 200},
		{"chat with an unknown field", "/v1/chat/completions", `{"model":"m","messages":[],"top_k":1}`, "", 200},
		{"duplicate key", "/v1/chat/completions", `{"model":"m","model":"n","messages":[]}`, "", 200},
		{"duplicate key deep down", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","role":"user"}]}`, "", 200},
		{"trailing data", "/v1/chat/completions", `{"model":"m","messages":[]} {}`, "", 200},
		{"responses with a chat field", "/v1/responses", `{"model":"m","messages":[]}`, "", 200},
		{"anthropic without version", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[]}`, "", 200},
		{"anthropic without max_tokens", "/v1/messages", `{"model":"m","messages":[]}`, version, 200},
		{"anthropic sampling with the current version", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[],"temperature":1}`, current, 200},
		{"gemini without contents", "/v1beta/models/m:generateContent", `{}`, "", 200},
		{"gemini with an unknown field", "/v1beta/models/m:generateContent", `{"contents":[],"max_tokens":1}`, "", 200},
		{"not JSON", "/v1/chat/completions", `{"model":`, "", 400},
		{"no object", "/v1/chat/completions", `[]`, "", 400},
		{"wrong type", "/v1/chat/completions", `{"model":"m","messages":"hi"}`, "", 400},
	} {
		if resp, data, _ := fetch(t, strict+tc.path, tc.body, "Anthropic-Version", tc.version); resp.StatusCode != 400 {
			t.Errorf("strict, %s: status %d, want 400: %s", tc.name, resp.StatusCode, data)
		}
		if resp, data, _ := fetch(t, lenient+tc.path, tc.body, "Anthropic-Version", tc.version); resp.StatusCode != tc.lenient {
			t.Errorf("lenient, %s: status %d, want %d: %s", tc.name, resp.StatusCode, tc.lenient, data)
		}
	}
	if resp, data, _ := fetch(t, strict+"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}],"temperature":1}`,
		"Anthropic-Version", version); resp.StatusCode != 200 {
		t.Errorf("sampling with the old version: %s", data)
	}
}

func TestOnlyListedModelsAreServed(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{Models: []string{"m"}, OnlyListed: true})
	for _, s := range vendorsdk.All() {
		if _, err := s.Ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x"}); err != nil {
			t.Errorf("%s: listed model: %v", s.Protocol, err)
		}
		if _, err := s.Ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "n", Text: "x"}); s.Status(err) != 404 {
			t.Errorf("%s: unlisted model: %v, want 404", s.Protocol, err)
		}
	}
}

func TestRecordingIsExactAndBounded(t *testing.T) {
	t.Parallel()
	var hooked atomic.Int64
	p, url := serve(t, fakeprovider.Config{Record: 3, RecordBytes: 300, OnRequest: func(r *fakeprovider.Request) {
		hooked.Add(1)
		r.Path = "changed" // a copy
	}})
	path, _ := simple(fakeprovider.Chat, false)
	body := `{ "model" : "m", "messages":[ ] }`
	for range 5 {
		fetch(t, url+path+"?a=b", body, "Authorization", "Bearer k", "X-Test", "1")
	}
	r := p.Requests()
	if len(r) != 3 || r[0].Number != 3 {
		t.Fatalf("%d requests kept, want the last 3: %+v", len(r), r)
	}
	got := r[2]
	if string(got.Body) != body || got.Query.Get("a") != "b" || got.Header.Get("X-Test") != "1" || got.Key != "k" ||
		got.Path != path || got.Method != "POST" || got.Outcome != fakeprovider.Completed || got.Started.After(got.Ended) {
		t.Errorf("recorded %+v", got)
	}
	if hooked.Load() != 5 {
		t.Errorf("hook called %d times, want 5", hooked.Load())
	}
	fetch(t, url+path, body+strings.Repeat(" ", 250))
	if r := p.Requests(); len(r) != 1 || r[0].BodyBytes != len(body)+250 {
		t.Fatalf("after a body of %d bytes: %d requests, want that one alone", len(body)+250, len(r))
	}
	fetch(t, url+path, body+strings.Repeat(" ", 300))
	r = p.Requests()
	if last := r[len(r)-1]; last.Body != nil || last.BodyBytes != len(body)+300 {
		t.Errorf("a body beyond the bound: %d bytes kept of %d told", len(last.Body), last.BodyBytes)
	}
}

func TestBodyBeyondTheBoundIsRefused(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	r := httptest.NewRequest("POST", "/v1/messages", io.LimitReader(zeros{}, fakeprovider.MaxBody+1))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != 413 || !strings.Contains(w.Body.String(), "request_too_large") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestDelaysAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.Script(fakeprovider.Match{}, fakeprovider.Step{
			Pieces: []string{"a", "b"}, DelayHeaders: time.Hour, DelayFirst: 2 * time.Minute, DelayBetween: 3 * time.Second,
		})
		path, body := simple(fakeprovider.Chat, true)
		w := httptest.NewRecorder()
		start := time.Now()
		p.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
		events := p.Requests()[0].Events
		want := time.Hour + 2*time.Minute + time.Duration(events-1)*3*time.Second
		if got := time.Since(start); got != want || events != 5 {
			t.Errorf("%d events took %v, want 5 in %v", events, got, want)
		}
	})
}

func TestDelayEndsWhenTheClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.Script(fakeprovider.Match{}, fakeprovider.Step{DelayHeaders: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		path, body := simple(fakeprovider.Chat, false)
		start := time.Now()
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body)))
		if got := time.Since(start); got != time.Second || p.Stats().Canceled != 1 {
			t.Errorf("ended after %v, %+v, want 1 s and one canceled", got, p.Stats())
		}
	})
}

func TestStructuredOutputFitsItsSchema(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	const schema = `{"type":"object","properties":{"name":{"type":["string","null"]},"kind":{"enum":["x","y"]},"n":{"type":"integer","minimum":5},"list":{"type":"array","items":{"type":"boolean"}}}}`
	const want = `{"name":"example","kind":"x","n":5,"list":[true]}`
	path, _ := simple(fakeprovider.Chat, false)
	_, data, _ := fetch(t, url+path, `{"model":"m","messages":[{"role":"user","content":"go"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":`+schema+`}}}`)
	var in struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal(data, &in); err != nil || len(in.Choices) != 1 || in.Choices[0].Message.Content != want {
		t.Errorf("%s (%v), want content %s", data, err, want)
	}
}

func TestNamedToolChoiceIsFollowed(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeprovider.Config{})
	for _, tc := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],"tool_choice":{"type":"function","function":{"name":"b"}}}`},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"b"}}]}}}`},
		{"/v1/responses", `{"model":"m","input":"go","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"}],"tool_choice":{"type":"function","name":"b"}}`},
		{"/v1/responses", `{"model":"m","input":"go","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"b"}]}}`},
		{"/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"go"}],"tools":[{"name":"a"},{"name":"b"}],"tool_choice":{"type":"tool","name":"b"}}`},
		{"/v1beta/models/m:generateContent", `{"contents":[{"parts":[{"text":"go"}]}],"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["b"]}}}`},
	} {
		_, data, _ := fetch(t, url+tc.path, tc.body)
		if !bytes.Contains(data, []byte(`"name":"b"`)) || bytes.Count(data, []byte(`"name":"a"`)) > bytes.Count([]byte(tc.body), []byte(`{"type":"function","name":"a"}`)) {
			t.Errorf("%s: %s", tc.path, data)
		}
	}
}

func TestParallelCallsOnScript(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{})
	p.Script(fakeprovider.Match{}, fakeprovider.Step{ParallelCalls: 3})
	each(t, func(t *testing.T, _ vendorsdk.SDK, ask func(context.Context, string, vendorsdk.Question) (vendorsdk.Reply, error)) {
		r, err := ask(t.Context(), url, vendorsdk.Question{Key: "k", Model: "m", Text: "x", Tools: true, Force: true})
		if err != nil || len(r.Calls) != 3 {
			t.Errorf("calls %v (%v), want 3", r.Calls, err)
		}
	})
}

func TestControlOverHTTP(t *testing.T) {
	t.Parallel()
	p, url := serve(t, fakeprovider.Config{Control: true})
	resp, data, _ := fetch(t, url+"/_control/scripts", `{"match":{"key":"k"},"then_default":true,"steps":[
		{"fail":{"kind":"rate_limited","retry_after_ms":2000}},
		{"raw":"verbatim","raw_status":202,"delay_headers_ms":1},
		{"text":"hi","usage":{"input":7},"header":{"X-A":"b"},"rate_limit":{"tokens":5,"reset_ms":10},"fault":"error","fault_after":1,"fault_error":{"kind":"server_error","body":"x"}}]}`)
	if resp.StatusCode != 204 {
		t.Fatalf("set script: %d %s", resp.StatusCode, data)
	}
	path, body := simple(fakeprovider.Chat, true)
	resp, _, _ = fetch(t, url+path, body, "X-Api-Key", "k")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "2" {
		t.Errorf("first step: %d, retry-after %s", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	resp, data, _ = fetch(t, url+path, body, "X-Api-Key", "k")
	if resp.StatusCode != 202 || string(data) != "verbatim" {
		t.Errorf("second step: %d %s", resp.StatusCode, data)
	}
	resp, data, _ = fetch(t, url+path, body, "X-Api-Key", "k")
	if !bytes.Contains(data, []byte(`"error"`)) || resp.Header.Get("X-Ratelimit-Limit-Tokens") != "5" {
		t.Errorf("third step: %s", data)
	}
	if got := say(t, url, "k", "m"); !strings.HasPrefix(got, "Hello") {
		t.Errorf("after the script: %q", got)
	}

	get, err := http.Get(url + "/_control/requests")
	if err != nil {
		t.Fatal(err)
	}
	defer get.Body.Close()
	var out struct {
		Stats    fakeprovider.Stats
		Requests []struct{ Key, Body string }
	}
	if err := json.NewDecoder(get.Body).Decode(&out); err != nil {
		t.Fatal(err)
	}
	if len(out.Requests) != 4 || out.Requests[0].Body != body || out.Requests[0].Key != "k" || out.Stats.Accepted != 4 {
		t.Errorf("recorded %+v", out)
	}

	for _, bad := range []string{
		`{`, `{"steps":[{"texxt":"x"}]}`, `{"match":{"protocol":"morse"}}`, `{"steps":[{"fault":"flood"}]}`,
		`{"steps":[{"fail":{"kind":"odd"}}]}`, `{"steps":[{"stop":"never"}]}`, `{} {}`,
	} {
		if resp, _, _ := fetch(t, url+"/_control/scripts", bad); resp.StatusCode != 400 {
			t.Errorf("%s: status %d, want 400", bad, resp.StatusCode)
		}
	}

	del, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/_control", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	cleared, err := http.DefaultClient.Do(del)
	if err != nil {
		t.Fatal(err)
	}
	cleared.Body.Close()
	if p.Attempts() != 0 || len(p.Requests()) != 0 {
		t.Errorf("after DELETE: %+v", p.Stats())
	}

	_, closed := serve(t, fakeprovider.Config{})
	if resp, _, _ := fetch(t, closed+"/_control/scripts", `{}`); resp.StatusCode != 404 {
		t.Errorf("control without Config.Control: status %d, want 404", resp.StatusCode)
	}
}

// Whatever a body holds, the provider answers with JSON, or with events of one line of
// JSON each, and a status of 200 or 400.
func FuzzBodiesAreAnsweredOrRefused(f *testing.F) {
	protocols := []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini}
	for i, proto := range protocols {
		for _, stream := range []bool{false, true} {
			_, body := simple(proto, stream)
			f.Add(uint8(i), body)
		}
	}
	f.Add(uint8(1), `{"input":[{"type":"function_call_output","output":[{"type":"input_image"}]}],"metadata":{"a":
		"b"},"stream":true,"tools":[{"type":"function","name":"a","parameters":{"anyOf":[{"type":"array","items":{}}]}}],"tool_choice":"required"}`)
	f.Add(uint8(3), `{"contents":[{"parts":[{"functionCall":{"args":{}}},{"functionResponse":{"response":{}}},{"inlineData":{}}]}],"generationConfig":{"maxOutputTokens":2,"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"n":{"type":"NUMBER","minimum":1e400}}}}}`)
	f.Fuzz(func(t *testing.T, n uint8, body string) {
		path, _ := simple(protocols[int(n)%len(protocols)], n >= 128)
		for _, strict := range []bool{false, true} {
			w := httptest.NewRecorder()
			fakeprovider.New(fakeprovider.Config{Strict: strict}).ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			if w.Code != 200 && w.Code != 400 {
				t.Errorf("status %d", w.Code)
			}
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
				if !json.Valid(w.Body.Bytes()) {
					t.Errorf("not JSON: %s", w.Body)
				}
				continue
			}
			for line := range strings.FieldsFuncSeq(w.Body.String(), func(r rune) bool { return r == '\n' || r == '\r' }) {
				data, ok := strings.CutPrefix(line, "data: ")
				if ok && data != "[DONE]" && !json.Valid([]byte(data)) || !ok && !strings.HasPrefix(line, "event: ") {
					t.Errorf("line %q", line)
				}
			}
		}
	})
}

// However text is cut into deltas and wherever the stream is cut, what arrived is a
// prefix of the text.
func TestDeltasAddUpToTheText(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.StringN(1, 10, 40), 1, 8).Draw(t, "pieces")
		after := rapid.IntRange(0, 9).Draw(t, "after")
		p.Script(fakeprovider.Match{}, fakeprovider.Step{Pieces: pieces, Fault: fakeprovider.FaultEnd, FaultAfter: after})
		path, body := simple(fakeprovider.Gemini, true)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
		var got strings.Builder
		for ev := range strings.SplitSeq(w.Body.String(), "\r\n\r\n") {
			v, ok := strings.CutPrefix(ev, "data: ")
			if !ok {
				continue
			}
			var in struct {
				Candidates []struct {
					Content struct{ Parts []struct{ Text string } }
				}
			}
			if err := json.Unmarshal([]byte(v), &in); err != nil {
				t.Fatal(err)
			}
			got.WriteString(in.Candidates[0].Content.Parts[0].Text)
		}
		n := len(pieces)
		if after > 0 && after < n {
			n = after
		}
		if want := strings.Join(pieces[:n], ""); got.String() != want {
			t.Fatalf("got %q, want %q", got.String(), want)
		}
	})
}
