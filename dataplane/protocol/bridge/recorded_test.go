package bridge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// recording is a stream of an upstream as it was recorded or written down.
type recording struct {
	name string
	from protocol.Name
	body string
}

// packages are the folders of the codecs.
var packages = map[protocol.Name]string{chat: "openaichat", responses: "openairesponses", messages: "anthropic", generate: "gemini"}

// recordings are the streams of all codecs' corpora.
func recordings(t testing.TB) (all []recording) {
	t.Helper()
	prefixes := map[protocol.Name]string{chat: "chat_", responses: "responses_", messages: "anthropic_", generate: "gemini_"}
	for _, p := range protocols() {
		for _, pattern := range []string{"../testdata/" + prefixes[p] + "*.sse", "../" + packages[p] + "/testdata/streams/*.sse"} {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %d files, %v", pattern, len(files), err)
			}
			for _, file := range files {
				all = append(all, recording{filepath.Base(file), p, read(t, file)})
			}
		}
	}
	return all
}

// corpus are the requests of a codec's corpus.
func corpus(t testing.TB, p protocol.Name) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../" + packages[p] + "/testdata/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no requests (%v)", p, err)
	}
	all := make(map[string]string, len(files))
	for _, file := range files {
		all[filepath.Base(file)] = strings.TrimSpace(read(t, file))
	}
	return all
}

func read(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
