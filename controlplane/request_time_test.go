package controlplane

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
)

func TestRequestThatNeverEndsIsGivenUp(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	server := httptest.NewServer(within(50*time.Millisecond, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	})))
	defer server.Close()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the request ended with %v, want the deadline", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the request is still waited for")
	}
}

func TestAnswerMayTakeLongerThanItsRequest(t *testing.T) {
	t.Parallel()
	const d = 100 * time.Millisecond
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(within(d, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done(): // the deadline was taken for the end of the caller
			case <-time.After(3 * d):
				io.WriteString(w, "done")
			}
		})))
		server.EnableHTTP2 = h2
		server.StartTLS()
		resp, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("request"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		server.Close()
		if string(got) != "done" || err != nil {
			t.Errorf("%s: the answer is %q with %v", resp.Proto, got, err)
		}
	}
}
