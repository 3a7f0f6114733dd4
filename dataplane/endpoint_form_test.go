package dataplane

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// formOf makes a multipart body of names and values; a value after @ is a file.
func formOf(pairs ...string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if file, ok := strings.CutPrefix(pairs[i+1], "@"); ok {
			p, _ := w.CreateFormFile(pairs[i], "file.wav") // a buffer takes everything
			_, _ = p.Write([]byte(file))
			continue
		}
		_ = w.WriteField(pairs[i], pairs[i+1])
	}
	_ = w.Close()
	return b.String(), w.FormDataContentType()
}

// A form that another reader could read otherwise goes to nobody.
func TestFormsThatCouldBeReadTwoWaysAreRefused(t *testing.T) {
	t.Parallel()
	part := func(headers, value string) string { return "--b\r\n" + headers + "\r\n\r\n" + value + "\r\n" }
	model := part(`Content-Disposition: form-data; name="model"`, "m")
	file := part("Content-Disposition: form-data; name=\"file\"; filename=\"a\"", "sound")
	for name, tc := range map[string]struct{ body, want string }{
		"two models":              {model + part(`Content-Disposition: form-data; name="model"`, "other") + file + "--b--", "must stand once"},
		"a model in other case":   {model + part(`Content-Disposition: form-data; name="MODEL"`, "other") + "--b--", "by case alone"},
		"a model that is a file":  {part(`Content-Disposition: form-data; name="model"; filename="x"`, "m") + "--b--", "must stand once"},
		"a model that is encoded": {part("Content-Disposition: form-data; name=\"model\"\r\nContent-Transfer-Encoding: base64", "bQ==") + "--b--", "must stand once"},
		"two names":               {part(`Content-Disposition: form-data; name="file"; name="model"`, "m") + "--b--", "Content-Disposition"},
		"two dispositions":        {part("Content-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"model\"", "m") + "--b--", "Content-Disposition"},
		"a name in two ways":      {part(`Content-Disposition: form-data; name="x"; name*=UTF-8''model`, "m") + "--b--", "Content-Disposition"},
		"a folded header":         {part("Content-Disposition: form-data;\r\n name=\"model\"", "m") + "--b--", "Content-Disposition"},
		"a boundary after LF":     {model + part(`Content-Disposition: form-data; name="file"; filename="a"`, "x\n--b\nContent-Disposition: form-data; name=\"model\"\n\nother") + "--b--", "boundary"},
		"a boundary in a line":    {model + part(`Content-Disposition: form-data; name="file"; filename="a"`, "x--b") + "--b--", "boundary"},
		"a longer boundary":       {model + part(`Content-Disposition: form-data; name="file"; filename="a"`, "x\r\n--bb") + "--b--", "boundary"},
		"no end":                  {model + file, "ends before"},
		"a tail":                  {model + "--b--\r\nmore", "goes on after"},
		"a preamble":              {"hello\r\n" + model + "--b--", "does not begin"},
		"no model":                {file + "--b--", "The member model is missing"},
		"an empty model":          {part(`Content-Disposition: form-data; name="model"`, "") + "--b--", "model is empty"},
		"a model with a line":     {part(`Content-Disposition: form-data; name="model"`, "m\r\nx") + "--b--", "control characters"},
		"a model that is no text": {part(`Content-Disposition: form-data; name="model"`, "m\xff") + "--b--", "UTF-8"},
		"a stream that is unsure": {model + part(`Content-Disposition: form-data; name="stream"`, "perhaps") + "--b--", "true or false"},
		"too many parts":          {strings.Repeat(part(`Content-Disposition: form-data; name="x"`, "1"), 257) + model + "--b--", "more than 256 parts"},
		"headers without an end":  {"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n--b--", "headers"},
		"endless headers":         {"--b\r\nX: " + strings.Repeat("x", 10000) + "\r\n\r\nm\r\n--b--", "headers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			resp, got := g.send(t, "POST", "/v1/audio/transcriptions", "multipart/form-data; boundary=b", tc.body)
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, tc.want) {
				t.Errorf("status %d: %s; want a 400 that says %q", resp.StatusCode, got, tc.want)
			}
			if n := len(g.provider.Requests()); n != 0 {
				t.Errorf("the provider got %d requests", n)
			}
		})
	}
}

func TestFormsWithoutABoundaryAreRefusedWhereAFileIsNeeded(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for _, kind := range []string{"application/json", "multipart/form-data", "", "multipart/mixed; boundary=b"} {
		resp, got := g.send(t, "POST", "/v1/audio/transcriptions", kind, `{"model":"m"}`)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "multipart/form-data") {
			t.Errorf("%q: status %d: %s", kind, resp.StatusCode, got)
		}
	}
	if resp, got := g.send(t, "POST", "/v1/audio/transcriptions", "multipart/form-data; boundary="+strings.Repeat("b", 71), "x"); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, "70 bytes") {
		t.Errorf("status %d: %s", resp.StatusCode, got)
	}
}

func TestFormsAreByteForByteBesideTheModel(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	body, kind := formOf("file", "@\x00\xff\r\nsound", "model", "m", "language", "en")
	if resp, got := g.send(t, "POST", "/audio/transcriptions", kind, body); resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", resp.StatusCode, got)
	}
	want := strings.Replace(body, "\r\n\r\nm\r\n", "\r\n\r\nfake-large\r\n", 1)
	if got := string(g.last(t).Body); got != want {
		t.Errorf("the upstream got %q, want %q", got, want)
	}
}

func TestBodiesOfEndpointsAreBoundedByTheRoute(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(ts *syncv1.TenantShard) { ts.Routes[0].MaxBodyBytes = 1000 })
	body, kind := formOf("model", "m", "file", "@"+strings.Repeat("x", 2000))
	if resp, got := g.send(t, "POST", "/v1/audio/transcriptions", kind, body); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", resp.StatusCode, got)
	}
}
