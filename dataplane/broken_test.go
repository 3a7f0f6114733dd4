package dataplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// An answer that broke off on its way must not reach the client as a whole one,
// whatever the transport says.
func TestBrokenAnswerNeverLooksWhole(t *testing.T) {
	t.Parallel()
	const piece = `{"candidates":[{"content":{"parts":[{"text":"hello"}],"role":"model"},"index":0}]}`
	const last = `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":2,"candidatesTokenCount":1,"totalTokenCount":3}}`
	long := `{"candidates":[{"content":{"parts":[{"text":"` + strings.Repeat("x", 200<<10)
	for name, tc := range map[string]struct {
		path, answer string
		cut          bool // the connection, too
		want         string
	}{
		"array, connection cut":       {"streamGenerateContent", "[" + piece + ",\r\n" + piece, true, ""},
		"array, body ended":           {"streamGenerateContent", "[" + piece + ",\r\n" + piece, false, ""},
		"long answer, connection cut": {"generateContent", long, true, ""},
		"long answer, body ended":     {"generateContent", long, false, ""},
		"events, half of the last":    {"streamGenerateContent?alt=sse", "data: " + piece + "\r\n\r\ndata: " + last[:120], false, `"error"`},
		"events, none of the last":    {"streamGenerateContent?alt=sse", "data: " + piece + "\r\n\r\n", false, `"error"`},
		"whole array":                 {"streamGenerateContent", "[" + piece + ",\r\n" + last + "]", false, "STOP"},
		"whole events":                {"streamGenerateContent?alt=sse", "data: " + piece + "\r\n\r\ndata: " + last + "\r\n\r\n", false, "STOP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusOK)
				io.WriteString(w, tc.answer)
				http.NewResponseController(w).Flush()
				if tc.cut {
					panic(http.ErrAbortHandler)
				}
			}))
			defer up.Close()
			n, err := staticNode(testView(t, up.URL), t.TempDir(), zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			defer n.wal.Close()
			defer n.transport.Close()
			front := httptest.NewServer(n)
			defer front.Close()
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, front.URL+"/v1beta/models/m:"+tc.path, strings.NewReader(`{"contents":[]}`))
			req.Header.Set("X-Goog-Api-Key", testKey)
			client := &http.Client{Timeout: 20 * time.Second}
			resp, err := client.Do(req)
			if err != nil {
				if tc.want != "" {
					t.Fatal(err)
				}
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if tc.want == "" && resp.StatusCode == http.StatusBadGateway {
				return // it was found out before anything was committed to
			}
			switch {
			case tc.want == "" && err == nil:
				t.Errorf("%d bytes with status %d came as a whole answer, which breaks off", len(got), resp.StatusCode)
			case tc.want != "" && (err != nil || !strings.Contains(string(got), tc.want)):
				t.Errorf("got %q with %v, want %s in it", got, err, tc.want)
			}
			for line := range strings.SplitSeq(string(got), "\n") {
				if strings.Contains(line, `{"error"`) && !strings.HasPrefix(line, `data: {"error"`) {
					t.Errorf("the error event stands behind half an event: %q", line)
				}
			}
		})
	}
}
