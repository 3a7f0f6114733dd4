package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

func TestConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always(plainOK))
	tr := newTransport(t, Config{})
	end := new(bodyEnd)
	for range 5 {
		if code, body := ask(t, tr, p.call(t, end, `{"a":`, `1}`)); code != 200 || body != "ok" {
			t.Fatalf("answer %d %q", code, body)
		}
	}
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections for 5 calls one after the other, want 1", n)
	}
	if n := end.n.Load(); n != 5 {
		t.Errorf("BodyDone came %d times for 5 calls", n)
	}
}

func TestRequestGoesOutAsItStands(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, inlineBody, inlineBody + 1, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			got := make(chan *http.Request, 1)
			body := make(chan string, 1)
			p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				b, _ := io.ReadAll(req.Body)
				got <- req
				body <- string(b)
				_, _ = io.WriteString(c, plainOK)
			})
			whole := strings.Repeat("0123456789", size/10+1)[:size]
			c := p.call(t, nil, whole[:size/3], whole[size/3:size/2], whole[size/2:])
			c.Header["X-Two"] = []string{"a", "b"}
			c.Header["Transfer-Encoding"] = []string{"chunked"} // the client's own affair
			c.URL.RawQuery = "alt=sse"
			ask(t, newTransport(t, Config{}), c)
			req := <-got
			if req.Method != "POST" || req.RequestURI != "/v1/chat?alt=sse" || req.Host != c.URL.Host || req.ContentLength != int64(size) {
				t.Errorf("request line %s %s, host %s, length %d", req.Method, req.RequestURI, req.Host, req.ContentLength)
			}
			if b := <-body; b != whole {
				t.Errorf("a body of %d bytes arrived as %d others", len(whole), len(b))
			}
			want := http.Header{"Content-Type": {"application/json"}, "X-Two": {"a", "b"}, "Content-Length": {fmt.Sprint(size)}}
			if diff := cmp.Diff(want, req.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadHeaderIsNotSent(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always(plainOK))
	tr := newTransport(t, Config{})
	for name, h := range map[string]http.Header{
		"line feed in a value":       {"X-A": {"a\nX-B: c"}},
		"carriage return in a value": {"X-A": {"a\rb"}},
		"NUL in a value":             {"X-A": {"a\x00"}},
		"line end in a name":         {"X-A\r\nX-B": {"a"}},
		"empty name":                 {"": {"a"}},
	} {
		end := new(bodyEnd)
		c := p.call(t, end, "body")
		c.Header = h
		_, err := tr.Do(t.Context(), c)
		if fault.Of(err) != fault.Connect || end.n.Load() != 1 {
			t.Errorf("%s: %v, BodyDone %d times; want a fault of class connect and one", name, err, end.n.Load())
		}
	}
	if n := p.conns.Load(); n != 0 {
		t.Errorf("%d connections were opened for calls that cannot be made", n)
	}
}

func TestEndedConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(net.Conn){
		"closed by the upstream": func(net.Conn) {},
		"garbage after the answer": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\n\r\n")
			_, _ = c.Read(make([]byte, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{}, 1)
			p := newPeer(t, func(n int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				if n > 1 {
					always(plainOK)(n, c, r, stop)
					return
				}
				if readRequest(r) == nil {
					_, _ = io.WriteString(c, plainOK)
					<-gone
					after(c)
				}
			})
			tr := newTransport(t, Config{})
			ask(t, tr, p.call(t, nil, "a"))
			gone <- struct{}{}
			// What the upstream does reaches this side a moment later.
			eventually(t, "the idle connection is seen to have ended", func() bool {
				tr.pool.mu.Lock()
				defer tr.pool.mu.Unlock()
				for _, list := range tr.pool.hosts {
					return len(list) == 0 || !list[0].alive(time.Now(), time.Hour)
				}
				return true
			})
			if code, body := ask(t, tr, p.call(t, nil, "b")); code != 200 || body != "ok" {
				t.Errorf("answer %d %q", code, body)
			}
			if n := p.conns.Load(); n != 2 {
				t.Errorf("%d connections, want a second one", n)
			}
		})
	}
}

func TestGarbageInTheSamePacketDropsTheConnection(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always(plainOK+"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"))
	tr := newTransport(t, Config{})
	for range 3 {
		if _, body := ask(t, tr, p.call(t, nil, "a")); body != "ok" {
			t.Fatalf("answer %q is not this call's", body)
		}
	}
	if n := p.conns.Load(); n != 3 {
		t.Errorf("%d connections for 3 calls, want 3: none may be used again", n)
	}
}

func TestAnswerBeforeTheRequestIsOut(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]bool{"the connection stays": false, "the connection is reset": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				_, _ = r.Peek(1 << 10)
				_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge")
				if reset {
					return
				}
				_, _ = c.Read(make([]byte, 1)) // and no more: the rest of the body is stuck
				<-stop
			})
			end := new(bodyEnd)
			tr := newTransport(t, Config{})
			c := p.call(t, end, big10MB())
			resp, err := tr.Do(t.Context(), c)
			if err != nil {
				if reset && fault.Of(err) == fault.Reset {
					return // the reset overtook the answer, which TCP allows
				}
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 413 || !reset && string(b) != "large" {
				t.Errorf("answer %d %q", resp.StatusCode, b)
			}
			end.waitOnce(t)
			if tr.pool.idle != 0 {
				t.Error("a connection with half a request on it was kept")
			}
		})
	}
}

// TestCancel ends a call in each of its stages: it returns at once with the cause, the
// body is let go of once, and neither goroutine nor connection is left.
func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("the client left")
	hang := func(_ int, _ net.Conn, r *bufio.Reader, stop <-chan struct{}) { _, _ = io.Copy(io.Discard, r) }
	for _, tc := range []struct {
		name  string
		serve func(int, net.Conn, *bufio.Reader, <-chan struct{})
		body  string
		class fault.Class
		read  bool // cancelled while the body is read
		first bool // cancelled before the call
	}{
		{name: "before the call", serve: hang, body: "a", class: fault.Connect, first: true},
		{name: "waiting for the head", serve: hang, body: "a", class: fault.Reset},
		{name: "in the middle of the head", serve: func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
			_, _ = io.Copy(io.Discard, r)
		}, body: "a", class: fault.Reset},
		{name: "in a blocked write", serve: func(_ int, c net.Conn, _ *bufio.Reader, stop <-chan struct{}) {
			<-stop
		}, body: big10MB(), class: fault.Reset},
		{name: "in the body", serve: func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
			_, _ = io.Copy(io.Discard, r)
		}, body: "a", read: true},
		{name: "in chunks, with the request stuck", serve: func(_ int, c net.Conn, _ *bufio.Reader, stop <-chan struct{}) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
			<-stop
		}, body: big10MB(), read: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, tc.serve)
			tr := newTransport(t, Config{})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tc.first {
				cancel(cause)
			}
			end := new(bodyEnd)
			call := p.call(t, end, tc.body)
			accepted := make(chan struct{})
			go func() {
				defer close(accepted)
				for ctx.Err() == nil && p.conns.Load() == 0 {
					time.Sleep(time.Millisecond)
				}
				time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
			}()
			defer func() { <-accepted }()
			start := time.Now()
			resp, err := tr.Do(ctx, call)
			if tc.read {
				if err != nil {
					t.Fatal(err)
				}
				var b []byte
				if b, err = io.ReadAll(resp.Body); string(b) != "abc" {
					t.Errorf("read %q before the end", b)
				}
				resp.Body.Close()
			} else if fault.Of(err) != tc.class {
				t.Errorf("class %v, want %v: %v", fault.Of(err), tc.class, err)
			}
			if !errors.Is(err, cause) {
				t.Errorf("error %v does not hold the cause", err)
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("it took %v to end", d)
			}
			end.waitOnce(t)
			if tr.pool.idle != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestClosedBodyTakesItsConnectionAlong(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"))
	tr := newTransport(t, Config{})
	resp, err := tr.Do(t.Context(), p.call(t, nil, "a"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(resp.Body, make([]byte, 3))
	resp.Body.Close()
	resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
		t.Errorf("reading a closed body gives %v", err)
	}
	ask(t, tr, p.call(t, nil, "b"))
	if n := p.conns.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

func TestSlowBodyComesAsItIsSent(t *testing.T) {
	t.Parallel()
	step := make(chan struct{})
	p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
		if readRequest(r) != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range 20 {
			fmt.Fprintf(c, "8\r\ndata: %02d\r\n", i)
			<-step
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	resp, err := newTransport(t, Config{}).Do(t.Context(), p.call(t, nil, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 4<<10)
	for i := range 20 {
		n, err := resp.Body.Read(buf)
		if want := fmt.Sprintf("data: %02d", i); err != nil || string(buf[:n]) != want {
			t.Fatalf("read %q, %v; want %q before the next is sent", buf[:n], err, want)
		}
		step <- struct{}{}
	}
	if n, err := resp.Body.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

func TestOldestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always(plainOK))
	tr := newTransport(t, Config{IdleTimeout: time.Millisecond})
	ask(t, tr, p.call(t, nil, "a"))
	tr.pool.mu.Lock()
	timer := tr.pool.timer
	tr.pool.mu.Unlock()
	eventually(t, "the pool is empty", func() bool {
		tr.pool.mu.Lock()
		defer tr.pool.mu.Unlock()
		return tr.pool.idle == 0 && len(tr.pool.hosts) == 0 && tr.pool.timer == nil
	})
	if timer == nil {
		t.Error("nothing was going to sweep the pool")
	}
}

func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	p := newPool(3, 2, time.Hour)
	defer p.empty(true)
	add := func(host string) *conn {
		a, b := net.Pipe()
		t.Cleanup(func() { b.Close() })
		c := &conn{Conn: a, tcp: a, key: hostKey{address: host}}
		p.put(c)
		return c
	}
	isClosed := func(c *conn) bool {
		_ = c.tcp.SetReadDeadline(longAgo)
		_, err := c.tcp.Read(make([]byte, 1))
		return errors.Is(err, io.ErrClosedPipe)
	}
	a1, a2 := add("a"), add("a")
	if a3 := add("a"); !isClosed(a3) {
		t.Error("a third connection to a host was kept, want at most 2")
	}
	add("b")
	b2 := add("b") // the fourth in all: the oldest of a has to go
	if !isClosed(a1) || isClosed(a2) || isClosed(b2) || p.idle != 3 {
		t.Errorf("oldest of the other host closed %v, newest closed %v, new one closed %v, %d idle; want true, false, false, 3",
			isClosed(a1), isClosed(a2), isClosed(b2), p.idle)
	}
	if c := p.get(hostKey{address: "b"}); c != b2 {
		t.Error("the connection used last does not come first")
	}
}

func TestPrivateAddressIsRefused(t *testing.T) {
	t.Parallel()
	p := newPeer(t, always(plainOK))
	c := p.call(t, nil, "a")
	c.Egress.AllowPrivate = false
	_, err := newTransport(t, Config{}).Do(t.Context(), c)
	if !errors.Is(err, errPrivate) || fault.Of(err) != fault.Connect {
		t.Errorf("error %v, want a refusal of class connect", err)
	}
	if n := p.conns.Load(); n != 0 {
		t.Errorf("%d connections came about", n)
	}
}

func TestRefusedConnectionIsClassConnect(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{url: "http://" + l.Addr().String()}
	l.Close()
	end := new(bodyEnd)
	if _, err = newTransport(t, Config{}).Do(t.Context(), p.call(t, end, "a")); fault.Of(err) != fault.Connect {
		t.Errorf("error %v, want class connect", err)
	}
	if end.n.Load() != 1 {
		t.Errorf("BodyDone came %d times", end.n.Load())
	}
}

func TestTLSConnectionsAreVerifiedAndUsedAgain(t *testing.T) {
	t.Parallel()
	cert, roots := testCA(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	p := servePeer(t, l, "https", always(plainOK))
	tr := newTransport(t, Config{TLS: &tls.Config{RootCAs: roots}})
	for _, body := range []string{"a", "b", strings.Repeat("c", 300<<10), "d"} {
		if code, got := ask(t, tr, p.call(t, nil, body)); code != 200 || got != "ok" {
			t.Fatalf("answer %d %q", code, got)
		}
	}
	if n := p.conns.Load(); n != 1 {
		t.Errorf("%d connections for 4 calls, want 1", n)
	}
	end := new(bodyEnd)
	if _, err = newTransport(t, Config{}).Do(t.Context(), p.call(t, end, "a")); fault.Of(err) != fault.Connect || end.n.Load() != 1 {
		t.Errorf("an unknown authority gives %v, BodyDone %d times; want class connect and one", err, end.n.Load())
	}
}

func TestTLSGarbageInARecordDropsTheConnection(t *testing.T) {
	t.Parallel()
	cert, roots := testCA(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	// More in one record than the buffer above TLS takes, so that the rest stays below.
	answer := "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("a", 5000)
	p := servePeer(t, l, "https", always(answer+strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 100)))
	tr := newTransport(t, Config{TLS: &tls.Config{RootCAs: roots}})
	for range 3 {
		if _, got := ask(t, tr, p.call(t, nil, "x")); len(got) != 5000 {
			t.Fatalf("an answer of %d bytes is not this call's", len(got))
		}
	}
}
