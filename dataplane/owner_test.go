package dataplane

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

func (g *rig) post(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func responseID(t *testing.T, body string) string {
	t.Helper()
	if _, rest, ok := strings.Cut(body, `"type":"response.completed"`); ok {
		body = rest[strings.Index(rest, `"response":`)+len(`"response":`):]
	}
	var v struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(strings.NewReader(body)).Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v.ID
}

// A stored answer's id names the account that has it, and what continues the answer goes
// there, however the accounts take turns.
func TestContinuationGoesToTheOwnerOfTheStoredAnswer(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"false", "true"} {
		t.Run("stream "+stream, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			resp, body := g.post(t, "/v1/responses", `{"model":"m","input":"hello","stream":`+stream+`}`)
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", resp.StatusCode, body)
			}
			if stream == "true" {
				if err := streamcheck.Check(fakeprovider.Responses, []byte(body)); err != nil {
					t.Errorf("the stream: %v", err)
				}
			}
			id, owner := responseID(t, body), resp.Header.Get("X-Gateway-Scheduled-Credential-Id")
			if !strings.Contains(id, "_gw1_") {
				t.Fatalf("the id %q of a stored answer names no owner", id)
			}
			for range 5 {
				resp, body = g.post(t, "/v1/responses", `{"model":"m","input":"more","previous_response_id":"`+id+`","stream":`+stream+`}`)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("status %d: %s", resp.StatusCode, body)
				}
				if got := resp.Header.Get("X-Gateway-Scheduled-Credential-Id"); got != owner {
					t.Errorf("the answer of %s is continued by %s", owner, got)
				}
			}
			requests := g.provider.Requests()
			last := string(requests[len(requests)-1].Body)
			if strings.Contains(last, "gw1") {
				t.Errorf("the provider got the gateway's own id: %s", last)
			}
		})
	}
}

// An answer that nobody stores is passed on as it is.
func TestAnswersThatAreNotStoredKeepTheirIDs(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	_, body := g.post(t, "/v1/responses", `{"model":"m","input":"hello","store":false}`)
	if strings.Contains(body, "gw1") {
		t.Errorf("ids were changed in %s", body)
	}
}
