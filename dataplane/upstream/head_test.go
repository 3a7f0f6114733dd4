package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
)

func TestAnswersAreFramed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, raw, want string
		reused          bool
	}{
		{"a length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", true},
		{"no body", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true},
		{"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "abc", true},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n", "abc", true},
		{"chunks with a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", "abc", true},
		{"chunks beat a length, and the connection goes", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc", false},
		{"interim answers first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", true},
		{"the end of the connection", "HTTP/1.1 200 OK\r\n\r\nabc", "abc", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nabc", "abc", false},
		{"HTTP/1.0 with a length", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", false},
		{"the upstream wants to close", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: x, Close\r\n\r\nabc", "abc", false},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "abc", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				for readRequest(r) == nil {
					_, _ = io.WriteString(c, tc.raw)
					if !tc.reused {
						return
					}
				}
			})
			tr := newTransport(t, Config{})
			for range 2 {
				if _, got := ask(t, tr, p.call(t, nil, "a")); got != tc.want {
					t.Fatalf("body %q, want %q", got, tc.want)
				}
			}
			if want := map[bool]int32{true: 1, false: 2}[tc.reused]; p.conns.Load() != want {
				t.Errorf("%d connections for two calls, want %d", p.conns.Load(), want)
			}
		})
	}
}

func TestBadHeadIsRefused(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"not HTTP":                "SSH-2.0-x\r\n\r\n",
		"HTTP/2":                  "HTTP/2.0 200 OK\r\n\r\n",
		"a status of two digits":  "HTTP/1.1 20 OK\r\n\r\n",
		"a status of letters":     "HTTP/1.1 abc OK\r\n\r\n",
		"no header name":          "HTTP/1.1 200 OK\r\n: a\r\n\r\n",
		"no colon":                "HTTP/1.1 200 OK\r\nabc\r\n\r\n",
		"space before the colon":  "HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
		"a folded header":         "HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\r\n",
		"a bare carriage return":  "HTTP/1.1 200 OK\r\nX-A: a\rX-B: b\r\n\r\n",
		"a NUL":                   "HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n\r\n",
		"two lengths":             "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"a list of lengths":       "HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc",
		"a length with a sign":    "HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
		"an empty length":         "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
		"a length beyond numbers": "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"an unknown coding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"chunked twice":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		"chunks in HTTP/1.0":      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a switch of protocols":   "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"interim without end":     strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 20),
		"nothing":                 "",
		"half a head":             "HTTP/1.1 200 OK\r\nContent-Le",
		"a huge header":           "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 300<<10) + "\r\n\r\n",
		"headers without end":     "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 2000) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				if readRequest(r) == nil {
					_, _ = io.WriteString(c, raw)
				}
			})
			end := new(bodyEnd)
			_, err := newTransport(t, Config{}).Do(t.Context(), p.call(t, end, "a"))
			if fault.Of(err) != fault.Reset || end.n.Load() != 1 {
				t.Errorf("error %v, BodyDone %d times; want class reset and one", err, end.n.Load())
			}
		})
	}
}

func TestBodyThatBreaksOffIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"before its length":        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
		"in a chunk":               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
		"before the last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"before the trailer's end": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer(t, func(_ int, c net.Conn, r *bufio.Reader, stop <-chan struct{}) {
				if readRequest(r) == nil {
					_, _ = io.WriteString(c, raw)
				}
			})
			resp, err := newTransport(t, Config{}).Do(t.Context(), p.call(t, nil, "a"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); string(b) != "abc" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("read %q, %v; want abc and an unexpected end", b, err)
			}
		})
	}
}

// What this reader accepts, net/http's accepts and understands in the same way.
func TestHeadReadsAsNetHTTPReadsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"Content-Type", "content-length", "X-A", "x-a", "Connection", "Transfer-Encoding", "Date", "openai-version", "Set-Cookie"})
		value := rapid.OneOf(
			rapid.SampledFrom([]string{"chunked", "close", "3", "0", "keep-alive", " a b ", "\tx", "ü", "", "4", "a, close"}),
			rapid.StringMatching(`[ -~]{0,20}`))
		var b strings.Builder
		fmt.Fprintf(&b, "HTTP/1.%d %d %s\r\n", rapid.SampledFrom([]int{1, 1, 1, 0}).Draw(t, "minor"),
			rapid.SampledFrom([]int{200, 201, 204, 304, 400, 429, 503}).Draw(t, "code"), rapid.SampledFrom([]string{"OK", "Not OK", ""}).Draw(t, "text"))
		for range rapid.IntRange(0, 8).Draw(t, "lines") {
			fmt.Fprintf(&b, "%s:%s\r\n", name.Draw(t, "name"), value.Draw(t, "value"))
		}
		compareHeads(t, b.String()+"\r\nabcdef")
	})
}

// compareHeads fails if a head is accepted here and refused, or understood otherwise,
// by net/http.
func compareHeads(t interface{ Fatalf(string, ...any) }, raw string) {
	h, err := readHead(bufio.NewReader(strings.NewReader(raw)), "POST", 64<<10)
	if err != nil {
		return
	}
	r := bufio.NewReader(strings.NewReader(raw))
	req := &http.Request{Method: "POST"}
	resp, err := http.ReadResponse(r, req)
	for err == nil && resp.StatusCode < 200 {
		resp, err = http.ReadResponse(r, req)
	}
	if err != nil {
		t.Fatalf("%q is accepted here and refused by net/http: %v", raw, err)
	}
	defer resp.Body.Close()
	for _, hop := range []string{"Trailer", "Connection"} { // of the connection, never relayed
		delete(resp.Header, hop)
		delete(h.header, hop)
	}
	if resp.StatusCode != h.code || resp.ContentLength != h.length && h.code != 204 && h.code != 304 || resp.Close && !h.last {
		t.Fatalf("%q: status %d, length %d, close %v here; %d, %d, %v there", raw, h.code, h.length, h.last, resp.StatusCode, resp.ContentLength, resp.Close)
	}
	if diff := cmp.Diff(resp.Header, h.header); diff != "" {
		t.Fatalf("%q: headers (-net/http +here):\n%s", raw, diff)
	}
}

func FuzzReadHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 503 \nRetry-After: 5\nX: \xff\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.Contains(bytes.ToLower(raw), []byte("pragma")) {
			return // net/http derives another header from it
		}
		compareHeads(t, string(raw))
	})
}

func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\nrest"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		src := bufio.NewReaderSize(bytes.NewReader(raw), 64)
		got, err := io.ReadAll(newChunked(src))
		if len(got) > len(raw) {
			t.Fatalf("%d bytes came out of %d", len(got), len(raw))
		}
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(src)
		if !bytes.HasSuffix(raw, rest) {
			t.Fatalf("what follows a body of %q is %q", raw, rest)
		}
	})
}
