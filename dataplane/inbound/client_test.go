package inbound

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// A client that reads nothing, on a connection that stays open, must not hold its call.
func TestClientThatNeverReadsIsEnded(t *testing.T) {
	t.Parallel()
	h := New(Config{WriteIdle: 50 * time.Millisecond}, openaichat.New())
	wrote := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := h.Accept(w, r, nil)
		rc := http.NewResponseController(c.Writer)
		for {
			_, err := c.Writer.Write(make([]byte, 3*pieceSize))
			if err = errors.Join(err, rc.Flush()); err != nil {
				wrote <- err
				return
			}
		}
	}))
	defer server.Close()
	conn := dial(t, server.URL)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-wrote:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("writing ended with %v, want the deadline", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the call still writes to a client that never reads")
	}
}

// The deadline is for silence: an answer that takes many times as long passes.
func TestClientThatReadsSlowlyIsServed(t *testing.T) {
	t.Parallel()
	const idle, rounds = 200 * time.Millisecond, 8
	h := New(Config{WriteIdle: idle}, openaichat.New())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := h.Accept(w, r, nil)
		rc := http.NewResponseController(c.Writer)
		for range rounds {
			time.Sleep(idle / 2)
			io.WriteString(c.Writer, "some bytes")
			rc.Flush()
		}
	}))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if want := strings.Repeat("some bytes", rounds); err != nil || string(got) != want {
		t.Fatalf("got %d bytes and %v, want %d", len(got), err, len(want))
	}
}

func TestClientIsNeverToldThatAllIsWellAfterAFault(t *testing.T) {
	t.Parallel()
	h := New(Config{}, openaichat.New())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := h.Accept(w, r, nil)
		c.Codec = openaichat.New()
		f := c.ReadBody(0)
		if f == nil {
			<-r.Context().Done() // an upstream is at work
			f = fault.New(fault.ClientCanceled, "")
		}
		c.Fail(f)
	}))
	defer server.Close()
	const head = "POST / HTTP/1.1\r\nHost: x\r\n"
	for name, tc := range map[string]struct {
		send string
		want int
	}{
		"no chunk":                    {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400},
		"chunk of another length":     {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", 400},
		"too much beside the chunks":  {head + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 20_000) + "\r\n{}\r\n0\r\n\r\n", 400},
		"sends no more, body cut":     {head + "Content-Length: 10\r\n\r\n{", 499},
		"sends no more, body is sent": {head + "Content-Length: 13\r\n\r\n" + `{"model":"m"}`, 499},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, server.URL)
			io.WriteString(conn, tc.send)
			conn.CloseWrite()
			answer, _ := io.ReadAll(conn)
			var status int
			if line, _, ok := strings.Cut(string(answer), "\r\n"); ok && len(line) > 12 {
				status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
			}
			if status != tc.want || !strings.Contains(string(answer), `"error"`) {
				t.Errorf("answered with %q, want status %d and an error", answer, tc.want)
			}
		})
	}
}

// Clients take 401 and 404 for final, so a node that has read only one domain of its
// configuration from disk must not say so.
func TestHalfAConfigurationIsNone(t *testing.T) {
	t.Parallel()
	h := New(Config{}, openaichat.New())
	at := snapshot.Position{Epoch: 1, Generation: 1}
	for name, tc := range map[string]struct {
		view *snapshot.View
		ok   bool
	}{
		"nothing":       {nil, false},
		"policy alone":  {&snapshot.View{Policy: at}, false},
		"identity only": {&snapshot.View{Identity: at}, false},
		"both":          {&snapshot.View{Identity: at, Policy: at}, true},
	} {
		_, f := h.Accept(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil), tc.view)
		if (f == nil) != tc.ok || f != nil && f.Class != fault.ConfigUnavailable {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// A server reads what is left of a small body before it answers. A client that never
// sends it must not hold the connection, least of all one without a key.
func TestRefusalDoesNotWaitForABodyThatNeverComes(t *testing.T) {
	t.Parallel()
	h := New(Config{}, openaichat.New())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := h.Accept(w, r, nil)
		c.Fail(fault.New(fault.Unauthenticated, ""))
	}))
	defer server.Close()
	conn := dial(t, server.URL)
	io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(10 * unreadWait))
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401 ") {
		t.Fatalf("got %q and %v, want the refusal and the end of the connection", answer, err)
	}
}

// silent is a body of which nothing comes.
type silent struct{ most int }

func (s *silent) Read(p []byte) (int, error) {
	s.most = max(s.most, len(p))
	return 0, io.ErrUnexpectedEOF
}

func TestAnnouncedBodyCostsNothingBeforeItComes(t *testing.T) {
	t.Parallel()
	body := new(silent)
	r := httptest.NewRequest(http.MethodPost, "/", body)
	r.ContentLength = 16 << 20
	if _, f := new(buffers).read(httptest.NewRecorder(), r, 16<<20); f == nil {
		t.Fatal("a body that never came was read")
	}
	if body.most > 2*firstBuffer {
		t.Fatalf("%d bytes were made room for before one came", body.most)
	}
}

func TestBodyOfAnySizeIsReadWhole(t *testing.T) {
	t.Parallel()
	pool := new(buffers)
	for _, n := range []int{0, 1, minBuffer - 1, minBuffer, firstBuffer - 1, firstBuffer, firstBuffer + 1, 4*firstBuffer + 3, 5 << 20} {
		want := strings.Repeat("x", n)
		for _, announced := range []int64{int64(n), -1} {
			r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(want)))
			r.ContentLength = announced
			b, f := pool.read(httptest.NewRecorder(), r, int64(max(n, 1)))
			if f != nil || string(b.Bytes) != want {
				t.Fatalf("a body of %d bytes, announced %d: %v", n, announced, f)
			}
			b.release()
		}
		if n > 0 {
			r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader(want)))
			r.ContentLength = -1
			if _, f := pool.read(httptest.NewRecorder(), r, int64(n-1)); f == nil || f.Class != fault.BodyTooLarge {
				t.Fatalf("a body of %d bytes where %d are taken: %v", n, n-1, f)
			}
		}
	}
}

func TestBodyMayTakeAsLongAsItsSizeAllows(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	if got, want := bodyUntil(start, start, 0), start.Add(bodyIdle); !got.Equal(want) {
		t.Errorf("the first bytes are awaited until %v, want %v", got, want)
	}
	late := start.Add(10 * time.Minute)
	if got := bodyUntil(start, late, 100); got.After(late) {
		t.Errorf("100 bytes after 10 minutes may go on until %v", got)
	}
	if got, want := bodyUntil(start, late, 11*60*bodyRate), late.Add(bodyIdle); !got.Equal(want) {
		t.Errorf("a slow line is ended at %v, want %v", got, want)
	}
}

func dial(t *testing.T, url string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}
