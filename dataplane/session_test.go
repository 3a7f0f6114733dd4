package dataplane

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// wsClient is a client of a session.
type wsClient struct {
	t    testing.TB
	ctx  context.Context
	conn *websocket.Conn
}

// open opens a session, or returns the answer that refuses it.
func (g *rig) open(t testing.TB, path string, o *websocket.DialOptions) (*wsClient, *http.Response) {
	t.Helper()
	if o == nil {
		o = &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + testKey}}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	conn, resp, err := websocket.Dial(ctx, g.url+path, o)
	if err != nil {
		if resp == nil {
			t.Fatal(err)
		}
		return nil, resp
	}
	conn.SetReadLimit(64 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &wsClient{t: t, ctx: ctx, conn: conn}, resp
}

func (g *rig) mustOpen(t testing.TB, path string) *wsClient {
	t.Helper()
	c, resp := g.open(t, path, nil)
	if c == nil {
		t.Fatalf("%s: status %d", path, resp.StatusCode)
	}
	return c
}

func (c *wsClient) say(message string) {
	c.t.Helper()
	if err := c.conn.Write(c.ctx, websocket.MessageText, []byte(message)); err != nil {
		c.t.Fatal(err)
	}
}

type wsEvent struct {
	Type     string
	Status   int
	Error    struct{ Code, Message, Param string }
	Delta    string
	Response struct {
		ID    string
		Model string
	}
	Session struct{ Model string }
	raw     string
}

// until reads events up to one of a type.
func (c *wsClient) until(kind string) (got wsEvent) {
	c.t.Helper()
	var seen []string
	for first := true; first || kind != "" && got.Type != kind; first = false {
		_, data, err := c.conn.Read(c.ctx)
		if err != nil {
			c.t.Fatalf("waiting for %s: %v after %v", kind, err, seen)
		}
		got = wsEvent{raw: string(data)}
		if err := json.Unmarshal(data, &got); err != nil {
			c.t.Fatalf("%v in %s", err, data)
		}
		seen = append(seen, got.Type)
	}
	return got
}

// over reads to the end of the session and returns the status that it is closed with.
func (c *wsClient) over() (websocket.StatusCode, []string) {
	c.t.Helper()
	var seen []string
	for {
		_, data, err := c.conn.Read(c.ctx)
		if err != nil {
			return websocket.CloseStatus(err), seen
		}
		seen = append(seen, string(data))
	}
}

func (c *wsClient) bye() { _ = c.conn.Close(websocket.StatusNormalClosure, "") }

// free waits until no account is occupied.
func (g *rig) free(t testing.TB) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for g.node.scheduler.InFlight("crd_a")+g.node.scheduler.InFlight("crd_b") != 0 || g.node.metrics.running.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatal("an account is still occupied after the session")
		}
		time.Sleep(time.Millisecond)
	}
	if a, b := g.node.scheduler.InFlight("crd_a"), g.node.scheduler.InFlight("crd_b"); a != 0 || b != 0 {
		t.Fatalf("%d and %d attempts run: a slot was released twice", a, b)
	}
}

// sessionOf is the newest session that the provider got.
func (g *rig) sessionOf(t testing.TB) fakeprovider.Request {
	t.Helper()
	all := g.provider.Requests()
	for _, r := range slices.Backward(all) {
		if r.Operation == fakeprovider.Session {
			return r
		}
	}
	t.Fatal("the provider got no session")
	return fakeprovider.Request{}
}

const (
	askAloud = `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}`
	answerMe = `{"type":"response.create"}`
	respond  = `{"type":"response.create","model":"m","store":false,"input":"hello there"}`
)

func TestRealtimeSession(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*websocket.DialOptions{
		"bearer":       nil,
		"x-api-key":    {HTTPHeader: http.Header{"X-Api-Key": {testKey}}},
		"sub-protocol": {Subprotocols: []string{"realtime", "openai-insecure-api-key." + testKey, "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Usage: &fakeprovider.Usage{Input: 10, Output: 4, Cached: 3}})
			c, resp := g.open(t, "/v1/realtime?model=alias&x=1", o)
			if c == nil {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if resp.Header.Get("X-Gateway-Scheduled-Model") != "fake-large" || resp.Header.Get("X-Gateway-Request-Id") == "" {
				t.Errorf("headers %v", resp.Header)
			}
			if want := map[string]string{"sub-protocol": "realtime"}[name]; c.conn.Subprotocol() != want {
				t.Errorf("sub-protocol %q, want %q", c.conn.Subprotocol(), want)
			}
			if e := c.until("session.created"); e.Session.Model != "fake-large" {
				t.Errorf("session %s", e.raw)
			}
			c.say(`{"session" : {"type":"realtime","model":"alias","instructions":"Be kind."}, "type":"session.update"}`)
			if e := c.until("session.updated"); !strings.Contains(e.raw, "Be kind.") {
				t.Errorf("session %s", e.raw)
			}
			if n := g.node.scheduler.InFlight("crd_a") + g.node.scheduler.InFlight("crd_b"); n != 1 {
				t.Errorf("%d accounts are occupied during the session, want 1", n)
			}
			for range 2 {
				c.say(askAloud)
				c.say(answerMe)
				c.until("response.output_text.delta")
				c.until("response.done")
			}
			c.bye()
			g.free(t)
			e := g.only(t)
			wantUnits(t, e, byProvider, &ledgerv1.Units{Input: 20, Output: 8, CacheRead: 6, Request: 1})
			if e.GetModelRequested() != "alias" || e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED || !e.GetStream() {
				t.Errorf("booked %v", e)
			}
			s := g.sessionOf(t)
			if s.Query.Get("model") != "fake-large" || s.Query.Get("x") != "1" || s.Closed != int(websocket.StatusNormalClosure) {
				t.Errorf("the provider got %v, closed with %d", s.Query, s.Closed)
			}
			if got, want := string(s.Messages[0]), `{"session" : {"type":"realtime","model":"fake-large","instructions":"Be kind."}, "type":"session.update"}`; got != want {
				t.Errorf("the provider got %s, want %s", got, want)
			}
			if string(s.Messages[1]) != askAloud {
				t.Errorf("a message was changed: %s", s.Messages[1])
			}
			for name, v := range s.Header {
				if strings.Contains(strings.Join(v, " "), testKey) {
					t.Errorf("the client's key reached the provider in %s", name)
				}
			}
		})
	}
}

func TestResponsesSession(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Usage: &fakeprovider.Usage{Input: 10, Output: 4}})
	c := g.mustOpen(t, "/v1/responses")
	c.say(respond)
	first := c.until("response.completed")
	if strings.Contains(first.raw, "gw1_") {
		t.Errorf("an id of what is not kept was changed: %s", first.raw)
	}
	c.say(`{"type":"response.create","model":"m","input":"keep this"}`)
	kept := c.until("response.completed")
	if !strings.HasPrefix(kept.Response.ID, "resp_gw1_") {
		t.Errorf("the id %q does not name its owner", kept.Response.ID)
	}
	c.say(`{"type":"response.create","model":"m","previous_response_id":"` + kept.Response.ID + `","input":"go on"}`)
	c.until("response.completed")
	c.bye()
	g.free(t)
	wantUnits(t, g.only(t), byProvider, &ledgerv1.Units{Input: 30, Output: 12, Request: 1})
	s := g.sessionOf(t)
	if got, want := string(s.Messages[0]), strings.Replace(respond, `"m"`, `"fake-large"`, 1); got != want {
		t.Errorf("the provider got %s, want %s", got, want)
	}
	if strings.Contains(string(s.Messages[2]), "gw1_") {
		t.Errorf("the provider got an id that it did not make: %s", s.Messages[2])
	}
	// Another connection finds the owner, and no other account is asked.
	for range 2 {
		c = g.mustOpen(t, "/v1/responses")
		c.say(`{"type":"response.create","model":"m","previous_response_id":"` + kept.Response.ID + `","input":"go on"}`)
		c.until("response.completed")
		c.bye()
		g.free(t)
		if k := g.sessionOf(t).Key; k != s.Key {
			t.Errorf("asked %s, want the owner %s", k, s.Key)
		}
	}
}

func TestHandshakeFailsOverToTheOtherAccount(t *testing.T) {
	t.Parallel()
	for _, step := range []fakeprovider.Step{
		fakeprovider.Fail(fakeprovider.RateLimited), fakeprovider.Fail(fakeprovider.Unauthorized), fakeprovider.Fail(fakeprovider.ServerError), {Reset: true},
	} {
		for _, path := range []string{"/v1/realtime?model=m", "/v1/responses"} {
			g := newRig(t, elsewhere)
			g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Session, Key: keyA}, step)
			for range 2 {
				c := g.mustOpen(t, path)
				if strings.HasSuffix(path, "responses") {
					c.say(respond)
					c.until("response.completed")
				} else {
					c.say(answerMe)
					c.until("response.done")
				}
				c.bye()
				g.free(t)
				if k := g.sessionOf(t).Key; k != keyB {
					t.Errorf("%v %s: served by %s", step.Fail, path, k)
				}
			}
		}
	}
}

func TestSessionThatNobodyTakesIsToldInTheProtocol(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Session}, fakeprovider.Fail(fakeprovider.RateLimited))
	_, resp := g.open(t, "/v1/realtime?model=m", nil)
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(body), `"error"`) || resp.Header.Get("X-Gateway-Request-Id") == "" {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	c := g.mustOpen(t, "/v1/responses")
	c.say(respond)
	e := c.until("error")
	if code, _ := c.over(); e.Status != http.StatusTooManyRequests || e.Error.Message == "" || code != websocket.StatusTryAgainLater {
		t.Errorf("%s, closed with %d", e.raw, code)
	}
	for path, status := range map[string]int{"/v1/realtime?model=none": 404, "/v1/realtime": 400, "/v1/realtime?model=..": 400} {
		if _, resp := g.open(t, path, nil); resp == nil || resp.StatusCode != status {
			t.Errorf("%s: %v, want %d", path, resp, status)
		}
	}
	if _, resp := g.open(t, "/v1/responses", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer sk-none"}}}); resp == nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("an unknown key: %v", resp)
	}
	resp, text := g.send(t, http.MethodGet, "/v1/realtime?model=m", "", "")
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "WebSocket") {
		t.Errorf("without an upgrade: status %d: %s", resp.StatusCode, text)
	}
	g.free(t)
}

// What the gateway cannot be sure about does not go upstream; the session goes on.
func TestMessagesOfASessionAreReadStrictly(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	rt, rs := g.mustOpen(t, "/v1/realtime?model=m"), g.mustOpen(t, "/v1/responses")
	rs.say(respond)
	rs.until("response.completed")
	for _, message := range []string{
		`{"type":"response.create","model":"m","model":"other","response":{}}`,
		`{"type":"session.update","session":{"model":"other"}}`,
		`{"type":"response.create","response":{"model":"other"}}`,
		`[1]`, `{"type":`, "{} {}", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		rt.say(message)
		if e := rt.until("error"); e.Status != http.StatusBadRequest || e.Error.Message == "" {
			t.Errorf("%s: %s", message, e.raw)
		}
	}
	for _, message := range []string{`{"type":"response.create","model":"other","input":"x"}`, `{"type":"response.create","input":"x"}`, `[]`} {
		rs.say(message)
		if e := rs.until("error"); e.Status != http.StatusBadRequest {
			t.Errorf("%s: %s", message, e.raw)
		}
	}
	if err := rt.conn.Write(rt.ctx, websocket.MessageBinary, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	rt.until("error")
	rt.say(answerMe)
	rt.until("response.done")
	rs.say(respond)
	rs.until("response.completed")
	rt.bye()
	rs.bye()
	g.free(t)
	for _, r := range g.provider.Requests() {
		for _, m := range r.Messages {
			if strings.Contains(string(m), "other") || m[0] != '{' {
				t.Errorf("the provider got %s", m)
			}
		}
	}
}

func TestClientThatLeavesASessionIsSeenUpstreamAndMetered(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/realtime?model=m", "/v1/responses"} {
		g := newRig(t)
		g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Fault: fakeprovider.FaultStall, FaultAfter: 2, Pieces: []string{"some ", "text ", "more"}})
		c := g.mustOpen(t, path)
		c.say(respondOn(path))
		c.until("response.output_text.delta")
		c.until("response.output_text.delta")
		c.conn.CloseNow()
		g.free(t)
		e := g.only(t)
		if e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED || e.GetUnits().GetOutput() == 0 {
			t.Errorf("%s: booked %v as %v", path, e.GetUnits(), e.GetOutcome())
		}
	}
}

func respondOn(path string) string {
	if strings.HasPrefix(path, "/v1/responses") {
		return respond
	}
	return answerMe
}

func TestUpstreamThatDropsASession(t *testing.T) {
	t.Parallel()
	for fault, code := range map[fakeprovider.Fault]websocket.StatusCode{fakeprovider.FaultCut: websocket.StatusInternalError, fakeprovider.FaultEnd: websocket.StatusGoingAway} {
		for _, path := range []string{"/v1/realtime?model=m", "/v1/responses"} {
			g := newRig(t)
			g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{},
				fakeprovider.Step{Fault: fault, FaultAfter: 2, Pieces: []string{"some ", "text ", "more"}})
			c := g.mustOpen(t, path)
			c.say(respondOn(path))
			c.until(map[bool]string{true: "response.completed", false: "response.done"}[path == "/v1/responses"])
			c.say(respondOn(path))
			if got, seen := c.over(); got != code || len(seen) == 0 {
				t.Errorf("%s of %s: closed with %d, want %d, after %v", fault, path, got, code, seen)
			}
			g.free(t)
			if e := g.only(t); e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN || e.GetUsageSource() == byProvider || e.GetUnits().GetOutput() == 0 {
				t.Errorf("%s of %s: booked %v as %v by %v", fault, path, e.GetUnits(), e.GetOutcome(), e.GetUsageSource())
			}
		}
	}
}

func TestOversizeMessageEndsTheSession(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/realtime?model=m", "/v1/responses"} {
		g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].MaxBodyBytes = 1000 })
		c := g.mustOpen(t, path)
		big := strings.Replace(respond, "hello", strings.Repeat("x", 1000), 1)
		if path == "/v1/responses" {
			c.say(respond)
			c.until("response.completed")
		}
		c.say(big)
		if code, _ := c.over(); code != websocket.StatusMessageTooBig {
			t.Errorf("%s: closed with %d", path, code)
		}
		g.free(t)
		if e := g.only(t); e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED {
			t.Errorf("booked as %v", e.GetOutcome())
		}
		for _, m := range g.sessionOf(t).Messages {
			if len(m) > 1000 {
				t.Errorf("%d bytes reached the provider", len(m))
			}
		}
	}
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].MaxBodyBytes = 1000 })
	c := g.mustOpen(t, "/v1/responses")
	c.say(strings.Replace(respond, "hello", strings.Repeat("x", 1000), 1))
	if code, _ := c.over(); code != websocket.StatusMessageTooBig {
		t.Errorf("the first message: closed with %d", code)
	}
	g.free(t)
}

func TestSilentUpstreamEndsTheSession(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].IdleTimeoutMs = 200 })
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Fault: fakeprovider.FaultStall, FaultAfter: 1})
	c := g.mustOpen(t, "/v1/realtime?model=m")
	c.say(answerMe)
	e := c.until("error")
	if code, _ := c.over(); code != websocket.StatusInternalError || e.Status != http.StatusGatewayTimeout || !strings.Contains(e.raw, "stream_incomplete") {
		t.Errorf("%s, closed with %d", e.raw, code)
	}
	g.free(t)
	if e := g.only(t); e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_BROKEN {
		t.Errorf("booked as %v", e.GetOutcome())
	}
}

func TestRouteDeadlineEndsTheSession(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].DeadlineMs = 300 })
	c := g.mustOpen(t, "/v1/realtime?model=m")
	e := c.until("error")
	if code, _ := c.over(); code != websocket.StatusInternalError || e.Error.Code != "deadline_exceeded" {
		t.Errorf("%s, closed with %d", e.raw, code)
	}
	g.free(t)
}

// A rate limit that an event tells of rests the account for the sessions that follow.
func TestEventOfARateLimitRestsTheAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate, Key: keyA}, fakeprovider.Fail(fakeprovider.RateLimited))
	limited := 0
	for range 4 {
		c := g.mustOpen(t, "/v1/responses")
		c.say(respond)
		for kind := ""; kind != "response.completed" && kind != "error"; {
			_, data, err := c.conn.Read(c.ctx)
			if err != nil {
				t.Fatal(err)
			}
			var e wsEvent
			if err := json.Unmarshal(data, &e); err != nil {
				t.Fatal(err)
			}
			if kind = e.Type; kind == "error" {
				limited++
			}
		}
		c.bye()
		g.free(t)
	}
	if limited != 1 {
		t.Errorf("%d sessions met the limit, want 1", limited)
	}
}

// A key that is revoked begins nothing more; what runs is finished.
func TestRevokedKeyEndsTheSession(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	gate := make(chan struct{})
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Gate: gate})
	c := g.mustOpen(t, "/v1/responses")
	c.say(respond)
	gate <- struct{}{}
	c.until("response.created")
	without, err := buildViewWith(g.base, "sk-aidy-another")
	if err != nil {
		t.Fatal(err)
	}
	g.node.holder.Replace(without)
	c.say(`{"type":"response.create","model":"m","input":"too late"}`)
	c.say(`{"type":"response.create","model":"m","input":"too late"}`)
	for range 3 { // the provider is still at the first when the others come
		gate <- struct{}{}
		c.until("")
	}
	close(gate)
	c.until("response.completed")
	e := c.until("error")
	if code, _ := c.over(); code != websocket.StatusPolicyViolation || e.Status != http.StatusUnauthorized {
		t.Errorf("%s, closed with %d", e.raw, code)
	}
	g.free(t)
	for _, m := range g.sessionOf(t).Messages {
		if strings.Contains(string(m), "too late") {
			t.Error("a response was begun with a revoked key")
		}
	}
	if e := g.only(t); e.GetOutcome() != ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_COMPLETED || e.GetUsageSource() != byProvider {
		t.Errorf("booked as %v by %v", e.GetOutcome(), e.GetUsageSource())
	}
}

// Draining ends idle sessions at once, and others when their response is done.
func TestDrainingEndsSessions(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	gate := make(chan struct{})
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate, Protocol: fakeprovider.Responses}, fakeprovider.Step{Gate: gate})
	idle, waiting, busy := g.mustOpen(t, "/v1/realtime?model=m"), g.mustOpen(t, "/v1/responses"), g.mustOpen(t, "/v1/responses")
	idle.until("session.created")
	busy.say(respond)
	gate <- struct{}{}
	busy.until("response.created")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- g.node.inbound.Drain(ctx) }()
	for _, c := range []*wsClient{idle, waiting} {
		if code, _ := c.over(); code != websocket.StatusGoingAway {
			t.Errorf("an idle session is closed with %d", code)
		}
	}
	close(gate)
	busy.until("response.completed")
	if code, _ := busy.over(); code != websocket.StatusGoingAway {
		t.Errorf("the session is closed with %d", code)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, resp := g.open(t, "/v1/realtime?model=m", nil); resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new session while draining: %v", resp)
	}
	g.free(t)
}

func TestSessionsKeepToTheRulesForAddresses(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Providers[0].AllowPrivateAddress = false })
	if _, resp := g.open(t, "/v1/realtime?model=m", nil); resp == nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("%v, want 502", resp)
	}
	if n := len(g.provider.Requests()); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
	g.free(t)
}

func TestModelThatStatesFeaturesNeedsThatOfSessions(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) {
		ts.Models[0].Features = []configv1.Feature{configv1.Feature_FEATURE_TOOLS}
	})
	if _, resp := g.open(t, "/v1/realtime?model=m", nil); resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%v, want 400", resp)
	}
}

// The provider is not read faster than the client reads.
func TestSlowReaderOfASessionSlowsTheProvider(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	piece := strings.Repeat("x", 256<<10)
	pieces := make([]string, 200)
	for i := range pieces {
		pieces[i] = piece
	}
	g.provider.Script(fakeprovider.Match{Operation: fakeprovider.Generate}, fakeprovider.Step{Pieces: pieces})
	c := g.mustOpen(t, "/v1/realtime?model=m")
	c.say(answerMe)
	c.until("response.created")
	stuck := 0
	for range 100 { // until the provider makes no progress for a while
		before := g.sessionOf(t).Events
		time.Sleep(50 * time.Millisecond)
		if g.sessionOf(t).Events == before {
			if stuck++; stuck == 5 {
				break
			}
			continue
		}
		stuck = 0
	}
	if n := g.sessionOf(t).Events; n >= len(pieces) || stuck < 5 {
		t.Errorf("%d of %d events were taken from the provider while the client read nothing", n, len(pieces))
	}
	c.until("response.done")
	c.bye()
	g.free(t)
	if e := g.only(t); e.GetUsageSource() != byProvider {
		t.Errorf("booked by %v", e.GetUsageSource())
	}
}
