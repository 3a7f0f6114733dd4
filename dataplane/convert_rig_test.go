package dataplane

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

// pair is a caller's protocol and that of the only upstream.
type pair struct{ from, to fakeprovider.Protocol }

func (p pair) String() string { return string(p.from) + " to " + string(p.to) }

func allProtocols() []fakeprovider.Protocol {
	return []fakeprovider.Protocol{fakeprovider.Chat, fakeprovider.Responses, fakeprovider.Anthropic, fakeprovider.Gemini}
}

// pairs runs f for each caller's protocol with each upstream's.
func pairs(t *testing.T, f func(t *testing.T, p pair)) {
	t.Helper()
	for _, from := range allProtocols() {
		for _, to := range allProtocols() {
			p := pair{from, to}
			t.Run(p.String(), func(t *testing.T) {
				t.Parallel()
				f(t, p)
			})
		}
	}
}

// eachWay is pairs, with an answer that comes whole and one that is streamed.
func eachWay(t *testing.T, f func(t *testing.T, p pair, stream bool)) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		name := "whole"
		if stream {
			name = "stream"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pairs(t, func(t *testing.T, p pair) { f(t, p, stream) })
		})
	}
}

// wireOf is how a protocol is called by hand.
func wireOf(p fakeprovider.Protocol) wire {
	for _, w := range wires() {
		if w.protocol == p {
			return w
		}
	}
	panic("no wire of " + string(p))
}

// pairRig is a node before a strict provider that is reached in one protocol alone.
type pairRig struct {
	*rig
	pair
	client *http.Client
	seen   *seen
}

// scripted is in the message of every error that a test has its provider send, which
// tells it from a refusal of what the gateway sent.
const scripted = "scripted for the test"

// newPairRig fails the test at its end if the provider refused anything, or if the
// gateway sent a stream that breaks the rules of its protocol.
func newPairRig(t testing.TB, p pair, options ...rigOption) *pairRig {
	t.Helper()
	provider := fakeprovider.New(fakeprovider.Config{Keys: []string{keyA, keyB}, Strict: true})
	s := &seen{protocol: p.from, next: http.DefaultTransport}
	s.ended.L = &s.mu
	up := httptest.NewServer(s.refusals(provider))
	t.Cleanup(up.Close)
	options = append([]rigOption{speaking(p.to), oneAccount}, options...)
	view := testView(t, up.URL, options...)
	n, err := staticNode(view, t.TempDir(), zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.wal.Close() })
	t.Cleanup(n.transport.Close)
	front := httptest.NewServer(n)
	t.Cleanup(front.Close)
	t.Cleanup(func() { s.verdict(t) })
	return &pairRig{
		rig:    &rig{node: n, url: front.URL, provider: provider, wal: n.wal},
		pair:   p,
		client: &http.Client{Transport: s},
		seen:   s,
	}
}

// speaking leaves the provider one protocol.
func speaking(p fakeprovider.Protocol) rigOption {
	return func(ts *syncv1.TenantShard) {
		all := ts.Providers[0].Capabilities
		at := map[fakeprovider.Protocol]int{fakeprovider.Chat: 0, fakeprovider.Responses: 1, fakeprovider.Anthropic: 2, fakeprovider.Gemini: 3}[p]
		ts.Providers[0].Capabilities = all[at : at+1]
		for _, m := range ts.Models {
			m.MaxOutputTokens = 32000
		}
	}
}

// oneAccount leaves one credential, so that every failure reaches the caller.
func oneAccount(ts *syncv1.TenantShard) { ts.Credentials = ts.Credentials[:1] }

// tryOnce shows the caller the first failure.
func tryOnce(ts *syncv1.TenantShard) {
	ts.Routes[0].Scheduling = &configv1.SchedulingPolicy{MaxAttempts: proto.Int32(1)}
}

// upstreamModel is what the model is called by its provider.
func upstreamModel(name string) rigOption {
	return func(ts *syncv1.TenantShard) { ts.Models[0].UpstreamModel = name }
}

// question is one request for the SDKs.
func (g *pairRig) question(text string) vendorsdk.Question {
	return vendorsdk.Question{Client: g.client, Key: testKey, Model: "m", Text: text}
}

// ask puts a question through the SDK of the caller's protocol.
func (g *pairRig) ask(t testing.TB, q vendorsdk.Question, stream bool) (vendorsdk.Reply, error) {
	t.Helper()
	sdk := vendorsdk.Of(g.from)
	if stream {
		return sdk.Stream(t.Context(), g.url, q, func() {})
	}
	return sdk.Ask(t.Context(), g.url, q)
}

// sent is the last request that the provider got.
func (g *pairRig) sent(t testing.TB) *fakeprovider.Request {
	t.Helper()
	all := g.provider.Requests()
	if len(all) == 0 {
		t.Fatal("nothing was sent upstream")
	}
	return &all[len(all)-1]
}

// seen watches both sides of a node: what the provider refuses, and what the client
// gets.
type seen struct {
	protocol fakeprovider.Protocol
	next     http.RoundTripper
	ended    sync.Cond // of an answer of the provider

	mu     sync.Mutex
	faults []string    // guarded by mu
	told   []string    // guarded by mu: what the provider answered
	last   []byte      // guarded by mu: body of the last answer
	header http.Header // guarded by mu: of the last answer
}

func (s *seen) blame(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, text)
}

func (s *seen) verdict(t testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		t.Error(f)
	}
}

// answer is the n-th answer of the provider, from 0. It waits for its end, which the
// client may see before the provider's handler returned.
func (s *seen) answer(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.told) <= n {
		s.ended.Wait()
	}
	return s.told[n]
}

// body is the last answer as it came over the wire.
func (s *seen) body() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.last)
}

// head is a header of the last answer.
func (s *seen) head(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header.Get(name)
}

// headers are those of the last answer.
func (s *seen) headers() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.header.Clone()
}

// refusals notes what the provider refuses of its own accord.
func (s *seen) refusals(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		tee := &teeWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if tee.status >= 400 && !strings.Contains(tee.told.String(), scripted) {
				s.blame("the provider refused what the gateway sent: " + tee.told.String() + "\nto " + r.URL.String() + "\n" + string(body))
			}
			s.mu.Lock()
			s.told = append(s.told, tee.told.String())
			s.mu.Unlock()
			s.ended.Broadcast()
		}()
		next.ServeHTTP(tee, r)
	})
}

// teeWriter keeps the status and the body.
type teeWriter struct {
	http.ResponseWriter
	status int
	told   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *teeWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *teeWriter) Write(p []byte) (int, error) {
	w.told.Write(p)
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *teeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// RoundTrip implements http.RoundTripper.
func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.header, s.last = resp.Header.Clone(), nil
	s.mu.Unlock()
	b := &checkedBody{ReadCloser: resp.Body, seen: s, request: r}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		b.check = streamcheck.New(s.protocol, streamcheck.AllowError)
	}
	resp.Body = b
	return resp, nil
}

// checkedBody checks a stream while the client reads it.
type checkedBody struct {
	io.ReadCloser
	seen    *seen
	request *http.Request
	check   *streamcheck.Checker // nil for a body that is no stream
	all     []byte
	over    bool
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.all = append(b.all, p[:n]...)
	if b.check != nil {
		_ = b.check.Feed(p[:n]) // Close tells of it again
	}
	if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *checkedBody) end(err error) {
	if b.over {
		return
	}
	b.over = true
	b.seen.mu.Lock()
	b.seen.last = b.all
	b.seen.mu.Unlock()
	if b.check == nil || !errors.Is(err, io.EOF) {
		return
	}
	if bad := b.check.Close(); bad != nil {
		b.seen.blame("the stream that the gateway sent breaks the protocol's rules: " + bad.Error() + "\n" + string(b.all))
	}
}

// Close implements io.Closer. What an SDK leaves unread belongs to the stream all the
// same, unless the client gave up.
func (b *checkedBody) Close() error {
	if !b.over && b.request.Context().Err() == nil {
		_, _ = io.Copy(io.Discard, b)
	}
	return b.ReadCloser.Close()
}
