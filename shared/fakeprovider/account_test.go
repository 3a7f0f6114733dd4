package fakeprovider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

const accountKey = "sk-account"

// askAccount sends a request without a network, so that time can stand still.
func askAccount(t testing.TB, p *fakeprovider.Provider, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+accountKey)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// dialog is a conversation: a system text and messages of so many tokens each.
type dialog struct {
	protocol fakeprovider.Protocol
	system   int
	messages []int
	marks    map[int]string // of messages, by number, with the ttl; -1 is the system text
}

// filled is a text of so many tokens, different for each n.
func filled(n, tokens int) string {
	s := fmt.Sprint(n, " ") + strings.Repeat("abc ", tokens)
	return s[:4*tokens]
}

func (d dialog) request() (path, body string) {
	var system string
	var turns []string
	if d.system > 0 {
		system = filled(-1, d.system)
	}
	mark := func(n int) string {
		ttl, ok := d.marks[n]
		if !ok {
			return ""
		}
		return `,"cache_control":{"type":"ephemeral","ttl":"` + ttl + `"}`
	}
	for i, tokens := range d.messages {
		user := i%2 == 0
		s := strconv.Quote(filled(i, tokens))
		switch d.protocol {
		case fakeprovider.Chat:
			turns = append(turns, fmt.Sprintf(`{"role":%q,"content":%s}`, map[bool]string{true: "user", false: "assistant"}[user], s))
		case fakeprovider.Responses:
			turns = append(turns, fmt.Sprintf(`{"type":"message","role":%q,"content":%s}`, map[bool]string{true: "user", false: "assistant"}[user], s))
		case fakeprovider.Anthropic:
			turns = append(turns, fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":%s%s}]}`, map[bool]string{true: "user", false: "assistant"}[user], s, mark(i)))
		case fakeprovider.Gemini:
			turns = append(turns, fmt.Sprintf(`{"role":%q,"parts":[{"text":%s}]}`, map[bool]string{true: "user", false: "model"}[user], s))
		}
	}
	list := "[" + strings.Join(turns, ", ") + "]"
	s := strconv.Quote(system)
	switch d.protocol {
	case fakeprovider.Chat:
		if system != "" {
			list = `[{"role":"system","content":` + s + `},` + list[1:]
		}
		return "/v1/chat/completions", `{"model":"m","messages":` + list + `}`
	case fakeprovider.Responses:
		return "/v1/responses", `{"model":"m","store":false,"instructions":` + s + `,"input":` + list + `}`
	case fakeprovider.Anthropic:
		return "/v1/messages", `{"model":"m","max_tokens":9,"system":[{"type":"text","text":` + s + mark(-1) + `}],"messages":` + list + `}`
	}
	return "/v1beta/models/m:generateContent", `{"systemInstruction":{"parts":[{"text":` + s + `}]},"contents":` + list + `}`
}

// used is what an answer tells of the prompt: all tokens, and those of them that were read
// from and written to the cache.
type used struct{ prompt, read, written5m, written1h int64 }

func usageOf(t testing.TB, p fakeprovider.Protocol, body []byte) used {
	t.Helper()
	var in struct {
		Usage struct {
			PromptTokens        int64 `json:"prompt_tokens"`
			PromptTokensDetails struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			InputTokens        int64 `json:"input_tokens"`
			InputTokensDetails struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			Created  int64 `json:"cache_creation_input_tokens"`
			Read     int64 `json:"cache_read_input_tokens"`
			Creation struct {
				Short int64 `json:"ephemeral_5m_input_tokens"`
				Long  int64 `json:"ephemeral_1h_input_tokens"`
			} `json:"cache_creation"`
		} `json:"usage"`
		Metadata struct {
			Prompt int64 `json:"promptTokenCount"`
			Cached int64 `json:"cachedContentTokenCount"`
		} `json:"usageMetadata"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	u := in.Usage
	switch p {
	case fakeprovider.Chat:
		return used{u.PromptTokens, u.PromptTokensDetails.Cached, 0, 0}
	case fakeprovider.Responses:
		return used{u.InputTokens, u.InputTokensDetails.Cached, 0, 0}
	case fakeprovider.Anthropic:
		if u.Created != u.Creation.Short+u.Creation.Long {
			t.Errorf("%d tokens written are %d and %d", u.Created, u.Creation.Short, u.Creation.Long)
		}
		return used{u.InputTokens + u.Created + u.Read, u.Read, u.Creation.Short, u.Creation.Long}
	}
	return used{in.Metadata.Prompt, in.Metadata.Cached, 0, 0}
}

func (d dialog) ask(t testing.TB, p *fakeprovider.Provider) used {
	t.Helper()
	path, body := d.request()
	w := askAccount(t, p, path, body)
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return usageOf(t, d.protocol, w.Body.Bytes())
}

func protocols() []fakeprovider.Protocol {
	return []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini}
}

func TestAGrowingConversationReadsWhatItSentBefore(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			p := fakeprovider.New(fakeprovider.Config{})
			p.SetAccount(accountKey, fakeprovider.Account{Cache: true})
			d := dialog{protocol: protocol, system: 600, messages: []int{300}}
			var sum used
			want := int64(0)
			for turn := range 5 {
				if protocol == fakeprovider.Anthropic { // as agents do: the newest message
					d.marks = map[int]string{len(d.messages) - 1: "5m"}
				}
				u := d.ask(t, p)
				if protocol != fakeprovider.Anthropic {
					want = want / 128 * 128
				}
				if u.read != want {
					t.Errorf("turn %d: read %d of %d tokens, want %d", turn, u.read, u.prompt, want)
				}
				if protocol == fakeprovider.Anthropic && u.prompt >= 1024 && u.written5m != u.prompt-u.read {
					t.Errorf("turn %d: wrote %d, want the other %d", turn, u.written5m, u.prompt-u.read)
				}
				if want = u.prompt; want < 1024 {
					want = 0 // too short to be kept
				}
				sum.prompt, sum.read, sum.written5m = sum.prompt+u.prompt, sum.read+u.read, sum.written5m+u.written5m
				d.messages = append(d.messages, 50, 170)
			}
			stats := p.AccountStats(accountKey)
			if stats.Prompt != sum.prompt || stats.Cached != sum.read || stats.Written != sum.written5m || stats.Requests != 5 {
				t.Errorf("counted %+v, the answers told %+v", stats, sum)
			}
			if sum.read == 0 {
				t.Error("nothing was read")
			}
		})
	}
}

func TestNoCacheWithoutAnAccount(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount("another", fakeprovider.Account{Cache: true, RequestsPerMinute: 1})
		d := dialog{protocol: protocol, system: 3000, messages: []int{300}, marks: map[int]string{-1: "5m"}}
		for range 3 {
			if u := d.ask(t, p); u.read+u.written5m+u.written1h != 0 {
				t.Errorf("%s: %+v, want neither reads nor writes", protocol, u)
			}
		}
	}
}

func TestPrefixesAreOfTheirKeyModelAndText(t *testing.T) {
	t.Parallel()
	d := dialog{protocol: fakeprovider.Chat, system: 1500, messages: []int{300, 20, 300}}
	path, body := d.request()
	for name, tc := range map[string]struct {
		body string
		read int64
	}{
		"the same":            {body, 2048},
		"white space":         {strings.ReplaceAll(body, `{"role"`, `{ "role"`), 2048},
		"another temperature": {strings.Replace(body, `{`, `{"temperature":1,`, 1), 2048},
		"another model":       {strings.Replace(body, `"m"`, `"m2"`, 1), 0},
		"another end":         {strings.Replace(body, filled(2, 300), filled(3, 300), 1), 1792},
		"another beginning":   {strings.Replace(body, filled(-1, 1500), filled(-2, 1500), 1), 0},
		"tools before it":     {strings.Replace(body, `{`, `{"tools":[{"type":"function","function":{"name":"f"}}],`, 1), 0},
	} {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount(accountKey, fakeprovider.Account{Cache: true})
		p.SetAccount("another", fakeprovider.Account{Cache: true})
		askAccount(t, p, path, body)
		if u := usageOf(t, fakeprovider.Chat, askAccount(t, p, path, tc.body).Body.Bytes()); u.read != tc.read {
			t.Errorf("%s: read %d, want %d", name, u.read, tc.read)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer another")
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if u := usageOf(t, fakeprovider.Chat, w.Body.Bytes()); u.read != 0 {
			t.Errorf("another key read %d, want its own cache, which is empty", u.read)
		}
	}
}

func TestAnthropicCachesWhereItIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount(accountKey, fakeprovider.Account{Cache: true})
		d := dialog{protocol: fakeprovider.Anthropic, system: 2000, messages: []int{500}}
		check := func(what string, want used) {
			t.Helper()
			if got := d.ask(t, p); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		check("no marks", used{prompt: 2500})
		check("no marks again", used{prompt: 2500})
		d.marks = map[int]string{-1: "1h", 0: "5m"}
		check("marks", used{prompt: 2500, written1h: 2000, written5m: 500})
		time.Sleep(4 * time.Minute)
		check("within five minutes", used{prompt: 2500, read: 2500})
		time.Sleep(4 * time.Minute)
		check("reading kept it", used{prompt: 2500, read: 2500})
		time.Sleep(5 * time.Minute)
		check("the hour is not over", used{prompt: 2500, read: 2000, written5m: 500})
		time.Sleep(time.Hour)
		check("all is over", used{prompt: 2500, written1h: 2000, written5m: 500})

		d.marks = map[int]string{0: "5m"}
		for range 19 {
			d.messages = append(d.messages, 10)
		}
		d.marks = map[int]string{19: "5m"}
		check("19 messages later", used{prompt: 2690, read: 2500, written5m: 190})
		for range 30 {
			d.messages = append(d.messages, 10)
		}
		d.marks = map[int]string{49: "5m"}
		check("30 messages later, beyond what is looked back", used{prompt: 2990, written5m: 2990})
	})
}

func TestImplicitCachesLastFiveMinutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount(accountKey, fakeprovider.Account{Cache: true})
		d := dialog{protocol: fakeprovider.Responses, system: 1024, messages: []int{500}}
		for i, tc := range []struct {
			after time.Duration
			read  int64
		}{{0, 0}, {5*time.Minute - 1, 1408}, {5 * time.Minute, 0}, {time.Minute, 1408}} {
			time.Sleep(tc.after)
			if u := d.ask(t, p); u.read != tc.read {
				t.Errorf("request %d: read %d, want %d", i, u.read, tc.read)
			}
		}
	})
}

func TestLimitsRefuseInTheVendorsShapeUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	for _, protocol := range protocols() {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := fakeprovider.New(fakeprovider.Config{})
				p.SetAccount(accountKey, fakeprovider.Account{RequestsPerMinute: 100, InputTokensPerMinute: 6000})
				d := dialog{protocol: protocol, system: 1000, messages: []int{1000}}
				path, body := d.request()
				for i, left := range []string{"4000", "2000", "0"} {
					w := askAccount(t, p, path, body)
					h := w.Header()
					if w.Code != http.StatusOK {
						t.Fatalf("request %d: status %d: %s", i, w.Code, w.Body)
					}
					if got := h.Get("X-Ratelimit-Remaining-Tokens") + h.Get("Anthropic-Ratelimit-Input-Tokens-Remaining"); got != left && protocol != fakeprovider.Gemini {
						t.Errorf("request %d: %q tokens are left, want %s", i, got, left)
					}
				}
				w := askAccount(t, p, path, body)
				if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "20" {
					t.Errorf("the fourth: status %d, retry after %q; want 429 and 20 s", w.Code, w.Header().Get("Retry-After"))
				}
				h := w.Header()
				now := time.Now()
				want := map[fakeprovider.Protocol][]string{
					fakeprovider.Chat:      {"X-Ratelimit-Limit-Requests", "100", "X-Ratelimit-Remaining-Requests", "97", "X-Ratelimit-Reset-Requests", "1.8s", "X-Ratelimit-Limit-Tokens", "6000", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1m0s"},
					fakeprovider.Anthropic: {"Anthropic-Ratelimit-Requests-Limit", "100", "Anthropic-Ratelimit-Requests-Remaining", "97", "Anthropic-Ratelimit-Input-Tokens-Limit", "6000", "Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", now.Add(time.Minute).UTC().Format(time.RFC3339)},
				}
				want[fakeprovider.Responses] = want[fakeprovider.Chat]
				for i := 0; i < len(want[protocol]); i += 2 {
					if got := h.Get(want[protocol][i]); got != want[protocol][i+1] {
						t.Errorf("%s is %q, want %q", want[protocol][i], got, want[protocol][i+1])
					}
				}
				time.Sleep(20*time.Second - time.Millisecond)
				if w := askAccount(t, p, path, body); w.Code != http.StatusTooManyRequests {
					t.Errorf("a millisecond before there is room: status %d", w.Code)
				}
				time.Sleep(time.Millisecond)
				if w := askAccount(t, p, path, body); w.Code != http.StatusOK {
					t.Errorf("when there is room: status %d", w.Code)
				}
				if s := p.AccountStats(accountKey); s.Requests != 6 || s.Limited != 2 || s.Prompt != 8000 {
					t.Errorf("counted %+v, want 6 requests, 2 of them limited, and 8000 tokens", s)
				}
			})
		})
	}
}

func TestAnthropicCountsNotWhatItReadsFromTheCache(t *testing.T) {
	t.Parallel()
	for protocol, ok := range map[fakeprovider.Protocol]int{fakeprovider.Anthropic: 10, fakeprovider.Chat: 2} {
		p := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return time.Unix(1e9, 0) }})
		p.SetAccount(accountKey, fakeprovider.Account{Cache: true, InputTokensPerMinute: 6000})
		d := dialog{protocol: protocol, system: 2000, messages: []int{1000}, marks: map[int]string{0: "5m"}}
		path, body := d.request()
		served := 0
		for range 10 {
			if askAccount(t, p, path, body).Code == http.StatusOK {
				served++
			}
		}
		if served != ok {
			t.Errorf("%s: %d of 10 requests were served, want %d", protocol, served, ok)
		}
	}
}

func TestRequestsAreLimitedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount(accountKey, fakeprovider.Account{RequestsPerMinute: 4})
		path, body := simple(fakeprovider.Chat, true)
		for i := range 12 {
			want := http.StatusOK
			if i >= 4 && i%2 == 1 { // full, and one leaks in 15 s
				want = http.StatusTooManyRequests
			}
			if i >= 4 && i%2 == 0 {
				time.Sleep(15 * time.Second)
			}
			if w := askAccount(t, p, path, body); w.Code != want {
				t.Errorf("request %d: status %d, want %d", i, w.Code, want)
			}
		}
	})
}

// What the buckets let through in any time is no more than they hold and leak in it,
// and a request that was refused finds room after the time that it was told.
func TestLimitsHoldForEveryOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Unix(1e9, 0)
		limit := rapid.Int64Range(1, 5000).Draw(rt, "limit")
		p := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return now }})
		p.SetAccount(accountKey, fakeprovider.Account{InputTokensPerMinute: limit})
		served := int64(0)
		began := now
		for range rapid.IntRange(1, 30).Draw(rt, "requests") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(30*time.Second)).Draw(rt, "pause")))
			d := dialog{protocol: fakeprovider.Chat, messages: []int{rapid.IntRange(1, 2000).Draw(rt, "tokens")}}
			path, body := d.request()
			w := askAccount(t, p, path, body)
			if w.Code == http.StatusTooManyRequests {
				wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
				if err != nil || wait < 1 || wait > 120 {
					rt.Fatalf("retry after %q", w.Header().Get("Retry-After"))
				}
				now = now.Add(time.Duration(wait) * time.Second)
				w = askAccount(t, p, path, body)
			}
			if w.Code != http.StatusOK {
				rt.Fatalf("status %d after the wait that was told", w.Code)
			}
			served += min(int64(d.messages[0]), limit)
			if most := limit + int64(float64(limit)*now.Sub(began).Minutes()) + 1; served > most {
				rt.Fatalf("%d tokens were served within %v, the limit lets %d through", served, now.Sub(began), most)
			}
		}
	})
}

func TestTTFTIsOfWhatWasNotCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fakeprovider.New(fakeprovider.Config{})
		p.SetAccount(accountKey, fakeprovider.Account{Cache: true, TTFT: 700 * time.Millisecond, PerKilotoken: 60 * time.Millisecond})
		d := dialog{protocol: fakeprovider.Gemini, system: 8064, messages: []int{1936}}
		took := func() time.Duration {
			began := time.Now()
			d.ask(t, p)
			return time.Since(began)
		}
		if got, want := took(), 1300*time.Millisecond; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
		if got, want := took(), 700*time.Millisecond+time.Duration(0.016*60e6); got != want {
			t.Errorf("cached: took %v, want %v", got, want)
		}
		p.ChangeAccount(accountKey, func(a *fakeprovider.Account) { a.Slow = 10 })
		if got, want := took(), 7*time.Second+time.Duration(0.16*60e6); got != want {
			t.Errorf("slow: took %v, want %v", got, want)
		}
	})
}

func TestOutagesBeginAndEnd(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{Control: true})
	path, body := dialog{protocol: fakeprovider.Chat, system: 2000, messages: []int{9}}.request()
	control := func(method, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/_control/accounts", strings.NewReader(body)))
		return w
	}
	for i, tc := range []struct {
		account string
		code    int
		read    int64
	}{
		{`{"key":"sk-account","cache":true}`, 200, 0},
		{`{"key":"sk-account","down":{"kind":"unavailable"}}`, 503, 0},
		{`{"key":"sk-account","slow":2}`, 503, 0},
		{`{"key":"sk-account","down":null}`, 200, 1920},
		{`{"key":"sk-account","cache":false}`, 200, 0},
	} {
		if w := control(http.MethodPost, tc.account); w.Code != http.StatusNoContent {
			t.Fatalf("%s: status %d: %s", tc.account, w.Code, w.Body)
		}
		w := askAccount(t, p, path, body)
		if w.Code != tc.code {
			t.Errorf("%s: status %d, want %d", tc.account, w.Code, tc.code)
		}
		if w.Code == http.StatusOK {
			if u := usageOf(t, fakeprovider.Chat, w.Body.Bytes()); u.read != tc.read {
				t.Errorf("request %d: read %d, want %d", i, u.read, tc.read)
			}
		}
	}
	if got, want := strings.TrimSpace(control(http.MethodGet, "").Body.String()), `{"sk-account":{"requests":5,"limited":0,"failed":2,"prompt":6027,"cached":1920,"written":0}}`; got != want {
		t.Errorf("counts %s, want %s", got, want)
	}
	for _, bad := range []string{``, `[]`, `{"key":"k","cash":true}`, `{"key":"k","slow":-1}`, `{"key":"k","ttft_ms":-1}`, `{"key":"k","down":{"kind":"tired"}}`, `{"key":"k","down":{"knd":1}}`, `{"key":"k","requests_per_minute":-1}`} {
		if w := control(http.MethodPost, bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", bad, w.Code)
		}
	}
	p.Reset()
	if s := p.AccountStats(accountKey); s != (fakeprovider.AccountStats{}) {
		t.Errorf("after Reset: %+v", s)
	}
}

func TestScriptsGoBeforeTheAccount(t *testing.T) {
	t.Parallel()
	p := fakeprovider.New(fakeprovider.Config{})
	p.SetAccount(accountKey, fakeprovider.Account{Cache: true})
	p.Script(fakeprovider.Match{Key: accountKey}, fakeprovider.Fail(fakeprovider.Overloaded), fakeprovider.Step{Usage: &fakeprovider.Usage{Input: 7}})
	path, body := dialog{protocol: fakeprovider.Chat, system: 2000, messages: []int{9}}.request()
	if w := askAccount(t, p, path, body); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want the script's 503", w.Code)
	}
	if s := p.AccountStats(accountKey); s.Requests != 0 {
		t.Errorf("the account saw %d requests, want none", s.Requests)
	}
	for range 2 {
		if u := usageOf(t, fakeprovider.Chat, askAccount(t, p, path, body).Body.Bytes()); u != (used{prompt: 7}) {
			t.Errorf("usage %+v, want the script's", u)
		}
	}
}
