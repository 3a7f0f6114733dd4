package dataplane

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// streamRequest is a streamed call by hand.
func streamRequest(t testing.TB, p fakeprovider.Protocol, base, model string) *http.Request {
	t.Helper()
	w := wireOf(p)
	body := w.body(model, true)
	if p == fakeprovider.Chat {
		body = strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+strings.ReplaceAll(w.streamPath, "MODEL", model), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", testKey)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	return r
}

// recordedStream is what a provider sends of an answer in pieces, and the offsets at
// which its events end.
func recordedStream(t testing.TB, p fakeprovider.Protocol, pieces []string) (body []byte, ends []int) {
	t.Helper()
	provider := fakeprovider.New(fakeprovider.Config{})
	provider.Script(fakeprovider.Match{}, fakeprovider.Step{Pieces: pieces})
	w := httptest.NewRecorder()
	provider.ServeHTTP(w, streamRequest(t, p, "http://provider.example", "fake-large"))
	body = w.Body.Bytes()
	r := sse.NewReader(bytes.NewReader(body), 0)
	end := 0
	for {
		f, err := r.Next()
		if err != nil {
			return body, ends
		}
		end += len(f.Raw)
		ends = append(ends, end)
	}
}

// Each piece of an answer reaches the client before the provider sends the next one.
func TestField_F41_EachPieceArrivesBeforeTheNextIsSent(t *testing.T) {
	t.Parallel()
	pieces := []string{"piece-0 ", "piece-1 ", "piece-2 ", "piece-3 ", "piece-4 "}
	pairs(t, func(t *testing.T, p pair) {
		body, ends := recordedStream(t, p.to, pieces)
		gate := make(chan struct{})
		g := newPairRig(t, p)
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Raw: body, RawSplits: ends[:len(ends)-1], Gate: gate})
		wait, stop := contextWithin(t, 20*time.Second)
		defer stop()
		told := make(chan string)
		ended := make(chan error, 1)
		go func() {
			resp, err := g.client.Do(streamRequest(t, p.from, g.url, "m").WithContext(wait))
			if err != nil {
				ended <- err
				return
			}
			defer resp.Body.Close()
			buf := make([]byte, 4<<10)
			for {
				n, err := resp.Body.Read(buf)
				if n > 0 {
					select {
					case told <- string(buf[:n]):
					case <-wait.Done():
					}
				}
				if err != nil {
					if err == io.EOF {
						err = nil
					}
					ended <- err
					return
				}
			}
		}()
		heard, from, seen := "", 0, 0
		for _, end := range ends {
			event := string(body[from:end])
			from = end
			for sent := false; !sent; {
				select {
				case gate <- struct{}{}:
					sent = true
				case s := <-told:
					heard += s
				case <-wait.Done():
					t.Fatalf("the provider could not send %q; the client has %q", event, heard)
				}
			}
			for i, piece := range pieces {
				// The events that end an answer repeat all of its text.
				if i != seen || !strings.Contains(event, strings.TrimSpace(piece)) {
					continue
				}
				seen++
				for !strings.Contains(heard, strings.TrimSpace(piece)) {
					select {
					case s := <-told:
						heard += s
					case <-wait.Done():
						t.Fatalf("%q was sent and did not arrive before the next one; the client has %q", piece, heard)
					}
				}
				break
			}
		}
		if seen != len(pieces) {
			t.Fatalf("%d pieces in the provider's stream, want %d", seen, len(pieces))
		}
		for {
			select {
			case <-told:
				continue
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-wait.Done():
				t.Error("the stream did not end")
			}
			return
		}
	})
}

// The head of every stream keeps proxies from holding it back.
func TestField_F42_HeadOfAStreamKeepsProxiesFromHoldingItBack(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) {
		g := newPairRig(t, p)
		// What an upstream says of its own stream does not describe ours.
		g.provider.Script(fakeprovider.Match{}, fakeprovider.Step{Header: map[string]string{"X-Accel-Buffering": "yes", "Cache-Control": "max-age=60"}})
		resp, err := g.client.Do(streamRequest(t, p.from, g.url, "m"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-cache", "Content-Encoding": "", "Content-Length": ""} {
			if got := strings.Join(resp.Header.Values(name), ", "); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
			t.Errorf("Content-Type is %q, want that of an event stream", kind)
		}
		if resp.ContentLength != -1 || fmt.Sprint(resp.TransferEncoding) != "[chunked]" {
			t.Errorf("length %d, transfer encoding %v; want no length, and chunks", resp.ContentLength, resp.TransferEncoding)
		}
	})
}
