package dataplane

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/upstream"
)

// BenchmarkRequestPath is the node's own work for a 1 KB call, without the network:
// everything between the server and the upstream client, metering included.
func BenchmarkRequestPath(b *testing.B) {
	n, err := staticNode(testView(b, "http://127.0.0.1:1"), b.TempDir(), zerolog.New(io.Discard).Level(zerolog.InfoLevel))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.wal.Close() })
	n.executor = attempt.New(n.scheduler, n.affinity, cannedClient{}, recorder{n.meter}, n.holder, answerHead)
	body := chatBody(1<<10, false)
	b.ReportAllocs()
	for b.Loop() {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + testKey}, "Content-Type": {"application/json"}, "User-Agent": {"bench"}}
		w := &discard{h: make(http.Header)}
		n.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
}

// cannedClient answers every call at once.
type cannedClient struct{}

// Do implements attempt.Client.
func (cannedClient) Do(_ context.Context, c *upstream.Call) (*http.Response, error) {
	c.BodyDone()
	return &http.Response{
		StatusCode:    http.StatusOK,
		Header:        http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(wholeAnswer)),
		Body:          io.NopCloser(bytes.NewReader(wholeAnswer)),
	}, nil
}

// discard is a client that takes everything.
type discard struct {
	h      http.Header
	status int
}

// Header implements http.ResponseWriter.
func (d *discard) Header() http.Header { return d.h }

// Write implements http.ResponseWriter.
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// EnableFullDuplex, SetReadDeadline and SetWriteDeadline are for http.ResponseController:
// a real server has them, and making an error for each would be counted as the node's work.
func (d *discard) EnableFullDuplex() error { return nil }

// SetReadDeadline is for http.ResponseController.
func (d *discard) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is for http.ResponseController.
func (d *discard) SetWriteDeadline(time.Time) error { return nil }

// WriteHeader implements http.ResponseWriter.
func (d *discard) WriteHeader(status int) { d.status = status }
