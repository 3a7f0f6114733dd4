package dataplane

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// askedBy lists the keys with which the provider was asked, in order.
func (g *rig) askedBy() (keys []string) {
	for _, r := range g.provider.Requests() {
		keys = append(keys, r.Key)
	}
	return keys
}

// newResponse has the provider store a response, and returns its id.
func (g *rig) newResponse(t testing.TB) string {
	t.Helper()
	return g.newResponseTo(t, "hello there")
}

// newResponseTo makes a response to a prompt. Other prompts may have other homes.
func (g *rig) newResponseTo(t testing.TB, prompt string) string {
	t.Helper()
	c := g.openai()
	made, err := c.Responses.New(t.Context(), responses.ResponseNewParams{
		Model: "m", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

func TestStoredResponseIsAskedOfItsOwnerAlone(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	c := g.openai()
	owners := make(map[string]bool)
	for n := range 4 {
		id := g.newResponseTo(t, fmt.Sprintf("hello %d", n))
		owner := g.last(t).Key
		owners[owner] = true
		if !strings.Contains(id, "gw1_") {
			t.Fatalf("the id %q does not name its owner", id)
		}
		got, err := c.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		if err != nil || got.ID != id || got.OutputText() == "" {
			t.Errorf("retrieved %q with text %q, %v; want %q", got.ID, got.OutputText(), err, id)
		}
		if path := g.last(t).Path; strings.Contains(path, "gw1_") {
			t.Errorf("the provider was asked for %s", path)
		}
		items, err := c.Responses.InputItems.List(t.Context(), id, responses.InputItemListParams{})
		if err != nil || len(items.Data) != 1 || !strings.Contains(items.Data[0].ID, "gw1_") {
			t.Errorf("input items: %+v, %v", items, err)
		}
		if stopped, err := c.Responses.Cancel(t.Context(), id); err != nil || stopped.ID != id || stopped.Status != "cancelled" {
			t.Errorf("cancelled: %+v, %v", stopped, err)
		}
		if err := c.Responses.Delete(t.Context(), id); err != nil {
			t.Errorf("deleting: %v", err)
		}
		if last := g.last(t); last.Method != http.MethodDelete || last.Key != owner {
			t.Errorf("the last request is %s of %s", last.Method, last.Key)
		}
		for _, key := range g.askedBy()[len(g.askedBy())-5:] {
			if key != owner {
				t.Errorf("an account that is not the owner was asked: %v", g.askedBy())
			}
		}
		_, err = c.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
		if e := new(openai.Error); !asError(err, &e) || e.StatusCode != http.StatusNotFound {
			t.Errorf("after it was deleted: %v, want 404", err)
		}
	}
	if len(owners) != 2 {
		t.Fatalf("all responses were made by %v: nothing was tried", owners)
	}
	g.settled(t, 4) // what is asked for later costs nothing
}

// A failure of the owner is told: no other account is asked for what it does not have.
func TestFailureOfTheOwnerDoesNotReachAnotherAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	id := g.newResponse(t)
	owner := g.last(t).Key
	g.provider.Script(fakeprovider.Match{Key: owner}, fakeprovider.Fail(fakeprovider.Overloaded))
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		before := len(g.askedBy())
		resp, body := g.send(t, method, "/v1/responses/"+id, "", "")
		if resp.StatusCode < 500 {
			t.Errorf("%s: status %d: %s", method, resp.StatusCode, body)
		}
		for _, key := range g.askedBy()[before:] {
			if key != owner {
				t.Errorf("%s was sent to another account", method)
			}
		}
	}
}

func TestIDThatTheGatewayDidNotMake(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	for _, path := range []string{"/v1/responses/resp_1", "/v1/chat/completions/chatcmpl-1", "/v1/files/file-1", "/v1/messages/batches/msgbatch_1", "/v1beta/cachedContents/x"} {
		resp, body := g.send(t, http.MethodGet, path, "", "")
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "gateway") {
			t.Errorf("%s: status %d, %s; want a 404 that says whose ids are taken", path, resp.StatusCode, body)
		}
	}
	if n := len(g.askedBy()); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// Where there is one account, ids from before the gateway was there still work.
func TestIDThatTheGatewayDidNotMakeGoesToTheOnlyAccount(t *testing.T) {
	t.Parallel()
	g := newRig(t, withOneAccount)
	id := g.newResponse(t)
	if resp, body := g.send(t, http.MethodGet, "/v1/responses/"+id, "", ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, body)
	}
	plain := strings.TrimPrefix(g.last(t).Path, "/v1/responses/")
	resp, body := g.send(t, http.MethodGet, "/v1/responses/"+plain, "", "")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, id) {
		t.Errorf("status %d: %s; want %s", resp.StatusCode, body, id)
	}
	if resp, body = g.send(t, http.MethodGet, "/v1/responses/resp_none", "", ""); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "state_not_found") {
		t.Errorf("status %d: %s; want the provider's 404", resp.StatusCode, body)
	}
}

func TestStoredResponseIsStreamedAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t, elsewhere)
	id := g.newResponse(t)
	stream := `event: response.created` + "\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}` + "\n\n" +
		`event: response.completed` + "\n" + `data: {"type":"response.completed","sequence_number":1,"response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":3,"total_tokens":8}}}` + "\n\n"
	g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: []byte(stream), RawType: "text/event-stream"})
	resp, body := g.send(t, http.MethodGet, "/v1/responses/"+id+"?stream=true&starting_after=1", "", "")
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") ||
		strings.Contains(body, `"resp_1"`) || !strings.Contains(body, "response.completed") {
		t.Errorf("status %d, %s", resp.StatusCode, body)
	}
	if q := g.last(t).Query; q.Get("stream") != "true" || q.Get("starting_after") != "1" {
		t.Errorf("the provider was asked for %v", q)
	}
	g.settled(t, 1) // the response itself; seeing it again is free
}

// withOneAccount leaves the tenant of a rig one account.
func withOneAccount(ts *syncv1.TenantShard) { ts.Credentials = ts.Credentials[:1] }

func asError(err error, to **openai.Error) bool { return errors.As(err, to) }

// limit has the provider say that an account is at its limit.
func (g *rig) limit(key string) {
	g.provider.Script(fakeprovider.Match{Key: key}, fakeprovider.Fail(fakeprovider.RateLimited))
}
