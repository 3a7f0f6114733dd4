//go:build clients

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// script sets what the main model answers.
func (w *world) script(steps ...fakeprovider.Step) {
	w.provider.SetScript(fakeprovider.Script{Match: fakeprovider.Match{Model: w.served}, Steps: steps, ThenDefault: true})
}

// asked are the requests that the main model got, oldest first.
func (w *world) asked() []fakeprovider.Request {
	var out []fakeprovider.Request
	for _, r := range w.provider.Requests() {
		if r.Operation == fakeprovider.Generate && r.Model == w.served {
			out = append(out, r)
		}
	}
	return out
}

// wantRequests fails the test unless the main model was asked so often, always in the
// protocol it is served in.
func (w *world) wantRequests(t *testing.T, n int) {
	t.Helper()
	asked := w.asked()
	if len(asked) != n {
		t.Fatalf("the provider was asked %d times, want %d; it saw %s", len(asked), n, w.seen())
	}
	for i, r := range asked {
		if r.Protocol != w.upstream {
			t.Errorf("request %d came in %s, want %s", i, r.Protocol, w.upstream)
		}
		if r.Key == w.key || strings.Contains(fmt.Sprint(r.Header), w.key) {
			t.Errorf("request %d carries the client's own key", i)
		}
	}
}

// wantBody fails the test unless the i-th request for the main model holds all the
// texts, whatever its protocol.
func (w *world) wantBody(t *testing.T, i int, texts ...string) {
	t.Helper()
	asked := w.asked()
	if i >= len(asked) {
		t.Errorf("there is no request %d", i)
		return
	}
	body := plain(asked[i].Body)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("request %d does not hold %q:\n%s", i, text, short(body))
		}
	}
}

// wantState fails the test unless the i-th request carries what the model needs to go on
// after it reasoned. Gemini refuses a call in its history that has lost its signature.
// A client that speaks the model's own protocol keeps all of it; Chat Completions has
// none.
func (w *world) wantState(t *testing.T, i int) {
	t.Helper()
	switch {
	case w.upstream == fakeprovider.Gemini:
		w.wantBody(t, i, `"thoughtSignature":"`)
	case w.upstream != w.own:
	case w.own == fakeprovider.Responses:
		w.wantBody(t, i, `"encrypted_content":"`)
	case w.own == fakeprovider.Anthropic:
		w.wantBody(t, i, `"signature":"`)
	}
}

// plain is a JSON text with one spelling for each letter: SDKs escape differently.
func plain(body []byte) string {
	v := jsontext.Value(append([]byte(nil), body...))
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return string(body)
	}
	return string(v)
}

// seen tells what reached the provider, for messages.
func (w *world) seen() string {
	var b strings.Builder
	requests := w.provider.Requests()
	fmt.Fprintf(&b, "%d requests", len(requests))
	for _, r := range requests {
		fmt.Fprintf(&b, "\n  %d: %s %s model %s, %s, %d events: %s", r.Number, r.Method, r.Path, r.Model, r.Outcome, r.Events, short(string(r.Body)))
	}
	return b.String()
}

// recordVariable names a folder to which every row writes what reached the provider.
const recordVariable = "AIDY_CLIENTS_RECORD"

// record writes the requests of a row as files, so that they can be sent by hand.
func (w *world) record(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv(recordVariable)
	if folder == "" {
		return
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Error(err)
	}
	for _, r := range w.provider.Requests() {
		file := fmt.Sprintf("%s-%02d-%s.json", name, r.Number, r.Operation)
		if err := os.WriteFile(filepath.Join(folder, file), r.Body, 0o644); err != nil {
			t.Error(err)
		}
	}
}

// short is the beginning and the end of a long text.
func short(s string) string {
	const most = 4000
	if len(s) <= most {
		return s
	}
	return s[:most/2] + " … " + s[len(s)-most/2:]
}
