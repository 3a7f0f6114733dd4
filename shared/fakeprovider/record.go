package fakeprovider

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Outcome is how a request ended.
type Outcome string

// Outcomes.
const (
	// Open requests have not ended.
	Open Outcome = ""
	// Completed requests got their whole answer, be it an error answer.
	Completed Outcome = "completed"
	// Canceled requests were left by the client.
	Canceled Outcome = "canceled"
	// Broken requests were broken off by the script.
	Broken Outcome = "broken"
)

// Operation is what a request asks for.
type Operation string

// Operations.
const (
	Generate    Operation = "generate"
	CountTokens Operation = "count_tokens"
	ListModels  Operation = "list_models"
	GetModel    Operation = "get_model"
	Unknown     Operation = "unknown"

	// Session is a WebSocket: of Realtime in the protocol Chat, or of Responses. Each
	// response in it is a Generate for scripts.
	Session Operation = "session"
)

// Request is one request as the provider saw it.
type Request struct {
	// Number counts the recorded requests from 1.
	Number int `json:"number"`
	// ID is the request id the answer carries.
	ID string `json:"id"`

	Method string      `json:"method"`
	Path   string      `json:"path"`
	Query  url.Values  `json:"query,omitempty"`
	Header http.Header `json:"header"`

	// Body is what was received. If it alone exceeds Config.RecordBytes, it is
	// empty, and only BodyBytes tells its length.
	Body      []byte `json:"-"`
	BodyBytes int    `json:"body_bytes"`

	// Key is the credential of the request; empty if it had none.
	Key string `json:"key,omitempty"`

	Operation Operation `json:"operation"`
	Protocol  Protocol  `json:"protocol"`
	// Model is the model the request names.
	Model  string `json:"model,omitempty"`
	Stream bool   `json:"stream,omitempty"`

	Started time.Time `json:"started"`
	// Ended is zero while the request is open.
	Ended   time.Time `json:"ended,omitzero"`
	Outcome Outcome   `json:"outcome"`
	// Canceled tells that the client left before it had the whole answer.
	Canceled bool `json:"canceled,omitempty"`
	// Events is the number of events sent, or of bodies if not streamed.
	Events int `json:"events"`
	// Messages are what the client of a Session said, in order: at most 1000.
	Messages [][]byte `json:"-"`
	// Closed is the status with which the client closed a Session; -1 without one.
	Closed int `json:"closed,omitempty"`
}

// Decode reads the body into v, as JSON. Duplicate names are no error, so that what was
// received can always be looked at.
func (r *Request) Decode(v any) error {
	return decode(r.Body, v)
}

// At is the value of the body at a path of names and numbers of elements, with the
// bytes that were received: At("messages", 0, "content"). It is empty if there is
// none.
func (r *Request) At(path ...any) jsontext.Value {
	v := jsontext.Value(r.Body)
	for _, step := range path {
		var next jsontext.Value
		switch step := step.(type) {
		case string:
			for name, value := range members(v) {
				if name == step {
					next = value
				}
			}
		case int:
			var elements []jsontext.Value
			if decode(v, &elements) == nil && step >= 0 && step < len(elements) {
				next = elements[step]
			}
		}
		if v = next; v == nil {
			return nil
		}
	}
	return v
}

// Stats counts generation requests.
type Stats struct {
	Accepted  int `json:"accepted"`
	Completed int `json:"completed"`
	Canceled  int `json:"canceled"`
	Broken    int `json:"broken"`
	// Open is the number being answered.
	Open int `json:"open"`
	// Events is the number of events sent in answers, or of bodies if not streamed.
	Events int `json:"events"`
}

// recorder keeps the last requests. Safe for concurrent use.
type recorder struct {
	maxCount, maxBytes int

	mu      sync.Mutex
	number  int           // guarded by mu
	kept    []*Request    // guarded by mu; oldest first
	bytes   int           // guarded by mu; body bytes of kept
	stats   Stats         // guarded by mu
	changed chan struct{} // guarded by mu; nil, or closed at the next change
}

func newRecorder(maxCount, maxBytes int) *recorder {
	return &recorder{maxCount: maxCount, maxBytes: maxBytes}
}

// nextNumber numbers a request before it is recorded.
func (rec *recorder) nextNumber() int {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.number++
	return rec.number
}

// begin records r, which the recorder owns from then on.
func (rec *recorder) begin(r *Request) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(r.Body) > rec.maxBytes {
		r.Body = nil
	}
	rec.kept = append(rec.kept, r)
	rec.bytes += len(r.Body)
	for len(rec.kept) > rec.maxCount || rec.bytes > rec.maxBytes {
		rec.bytes -= len(rec.kept[0].Body)
		rec.kept[0] = nil
		rec.kept = rec.kept[1:]
	}
	if r.Operation == Generate {
		rec.stats.Accepted++
		rec.stats.Open++
	}
	rec.broadcast()
}

func (rec *recorder) event(r *Request) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.Events++
	rec.stats.Events++
	rec.broadcast()
}

func (rec *recorder) end(r *Request, o Outcome) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	r.Ended, r.Outcome, r.Canceled = time.Now(), o, o == Canceled
	if r.Operation == Generate {
		rec.stats.Open--
		switch o {
		case Completed:
			rec.stats.Completed++
		case Canceled:
			rec.stats.Canceled++
		default:
			rec.stats.Broken++
		}
	}
	rec.broadcast()
}

// broadcast wakes those who wait. rec.mu is held.
func (rec *recorder) broadcast() {
	if rec.changed != nil {
		close(rec.changed)
		rec.changed = nil
	}
}

// reset forgets the kept requests and restarts the counts. Open requests are
// counted on.
func (rec *recorder) reset() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.kept, rec.bytes = nil, 0
	rec.stats = Stats{Accepted: rec.stats.Open, Open: rec.stats.Open}
	rec.broadcast()
}

func (rec *recorder) requests() []Request {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	out := make([]Request, len(rec.kept))
	for i, r := range rec.kept {
		out[i] = copyOf(r)
	}
	return out
}

func copyOf(r *Request) Request {
	c := *r
	c.Header = r.Header.Clone()
	c.Body = slices.Clone(r.Body)
	c.Messages = slices.Clone(r.Messages)
	return c
}

// wait returns when ok holds, or with ctx's error.
func (rec *recorder) wait(ctx context.Context, ok func(Stats) bool) error {
	for {
		rec.mu.Lock()
		if rec.changed == nil {
			rec.changed = make(chan struct{})
		}
		stats, changed := rec.stats, rec.changed
		rec.mu.Unlock()
		if ok(stats) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Requests returns the recorded requests, oldest first: at most Config.Record of
// them. Requests to the control interface are not recorded.
func (p *Provider) Requests() []Request { return p.rec.requests() }

// Stats returns the counts since the start or the last Reset.
func (p *Provider) Stats() Stats {
	p.rec.mu.Lock()
	defer p.rec.mu.Unlock()
	return p.rec.stats
}

// Attempts is the number of generation requests received, refused ones included.
func (p *Provider) Attempts() int { return p.Stats().Accepted }

// Wait returns nil as soon as ok is true of the counts. It fails with the cause of
// ctx if that ends first. ok is called without locks held and must not block.
func (p *Provider) Wait(ctx context.Context, ok func(Stats) bool) error {
	return p.rec.wait(ctx, ok)
}

// WaitCanceled waits until at least n generation requests were left by their clients.
// It fails with the cause of ctx if that ends first.
func (p *Provider) WaitCanceled(ctx context.Context, n int) error {
	return p.Wait(ctx, func(s Stats) bool { return s.Canceled >= n })
}

// Reset forgets scripts, recorded requests, counts, accounts and what was stored.
func (p *Provider) Reset() {
	p.scripts.clear()
	p.stored.clear()
	p.accounts.clear()
	p.rec.reset()
}
