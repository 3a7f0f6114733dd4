package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"go.uber.org/goleak"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/cli"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/devstate"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience only catches a hang: everything here takes seconds.
const patience = 2 * time.Minute

// folder is a --dir that the database's account can reach too.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "aidy-dev-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h := &home{dir: filepath.Join(dir, ".aidy"), data: filepath.Join(dir, ".aidy")}
		if err := h.reset(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, ".aidy")
}

func anyPorts(dir string) Options {
	const free = "127.0.0.1:0"
	return Options{Dir: dir, InferenceAddr: free, AdminAddr: free, SyncAddr: free, OpsAddr: free, LogLevel: "error"}
}

// buffer may be written while it is read.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// running is an aidy dev at work.
type running struct {
	devstate.State
	out, errout *buffer
	stop        func() error
}

// start runs aidy dev until it is ready.
func start(t *testing.T, o Options) *running {
	t.Helper()
	r := &running{out: new(buffer), errout: new(buffer)}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan devstate.State, 1), make(chan error, 1)
	o.Ready = func(s devstate.State) { ready <- s }
	go func() { done <- Run(ctx, o, r.out, r.errout) }()
	var once sync.Once
	r.stop = func() (err error) {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(patience):
				t.Fatalf("it did not stop\n%s", r.errout)
			}
		})
		return err
	}
	t.Cleanup(func() { _ = r.stop() })
	select {
	case r.State = <-ready:
	case err := <-done:
		cancel()
		t.Fatalf("it did not start: %v\n%s", err, r.errout)
	case <-time.After(patience):
		t.Fatalf("it is not ready\n%s", r.errout)
	}
	return r
}

func (r *running) mustStop(t *testing.T) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Fatalf("it did not stop in good order: %v\n%s", err, r.errout)
	}
}

// call puts a question in one of the protocols and returns what came.
func call(t *testing.T, url string, header http.Header, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func (r *running) chat(t *testing.T) {
	t.Helper()
	status, answer := call(t, r.InferenceURL+"/v1/chat/completions", http.Header{"Authorization": {"Bearer " + r.APIKey}},
		`{"model": "gpt-5", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}`)
	if status != http.StatusOK || !strings.Contains(answer, "data: [DONE]") {
		t.Fatalf("a streamed call: %d %s", status, answer)
	}
}

// rpc is the admin API as people reach it.
func (r *running) rpc() *connect.Client {
	transport := connecthttp.NewTransport(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, r.AdminURL)
	return connect.NewClient(transport, cli.Bearer(r.AdminToken))
}

// processes lists those whose command line names a folder.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && bytes.Contains(line, []byte(dir)) {
			out = append(out, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// ownGemini is what a person configures who has a provider of that name already.
const ownGemini = `
owner: me
resources:
  - project: {tenant_id: dev, name: kept}
  - provider: {name: gemini, capabilities: [{protocol: gemini_generate_content, base_url: "https://gemini.example.com"}]}
`

// One run from the first start to starting over: what a person does on the first day.
func TestTheFirstDay(t *testing.T) {
	dir := folder(t)
	first := start(t, anyPorts(dir))
	first.chat(t)
	for name, ask := range map[string]struct {
		path, header, body string
	}{
		"responses": {"/v1/responses", "Authorization: Bearer ", `{"model": "gpt-5-mini", "input": "hi"}`},
		"anthropic": {"/v1/messages", "x-api-key: ", `{"model": "claude-sonnet-4-5", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}`},
		"gemini":    {"/v1beta/models/gemini-2.5-pro:generateContent", "x-goog-api-key: ", `{"contents": [{"parts": [{"text": "hi"}]}]}`},
	} {
		header, value, _ := strings.Cut(ask.header, ": ")
		status, answer := call(t, first.InferenceURL+ask.path, http.Header{http.CanonicalHeaderKey(header): {value + first.APIKey}}, ask.body)
		if status != http.StatusOK || !strings.Contains(answer, "built-in provider") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}

	t.Run("dev.json is for its owner alone and says everything", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(dir, devstate.File))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, devstate.File))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"inference_url", "admin_url", "sync_url", "ops_urls", "admin_token", "api_key"} {
			if got[key] == nil || got[key] == "" {
				t.Errorf("%s is missing", key)
			}
		}
		if urls := got["ops_urls"].([]any); len(urls) != 2 {
			t.Errorf("ops_urls %v", urls)
		}
	})
	t.Run("the banner has what to paste", func(t *testing.T) {
		for _, want := range []string{
			"curl -N " + first.InferenceURL + "/v1/chat/completions", "OPENAI_BASE_URL=" + first.InferenceURL + "/v1", "ANTHROPIC_BASE_URL=" + first.InferenceURL,
			"GOOGLE_GEMINI_BASE_URL=" + first.InferenceURL, "buf curl --http2-prior-knowledge", "Bearer " + first.AdminToken, first.AdminURL + "/aidy.admin.v1.TenantService/ListTenants",
		} {
			if !strings.Contains(first.out.String(), want) {
				t.Errorf("the banner lacks %q:\n%s", want, first.out)
			}
		}
	})
	t.Run("a second one on the same folder says so", func(t *testing.T) {
		err := Run(t.Context(), anyPorts(dir), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another aidy dev (process %d) runs on %s", os.Getpid(), dir)) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("commands find it by its folder", func(t *testing.T) {
		var out, errout bytes.Buffer
		code := cli.Main(t.Context(), cli.Env{Stdin: strings.NewReader(ownGemini), Stdout: &out, Stderr: &errout},
			[]string{"--dir", dir, "apply", "-f", "-", "--wait"})
		if code != cli.ExitOK || !strings.Contains(out.String(), "2 created") || !strings.Contains(errout.String(), "nodes: 1 run it") {
			t.Errorf("exit code %d\n%s%s", code, out.String(), errout.String())
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	first.mustStop(t)
	if left := processes(t, dir); len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}

	// The second day: the key, what was made, and the port of the provider are kept,
	// and what was deleted stays deleted.
	second := start(t, anyPorts(dir))
	second.chat(t)
	if second.APIKey != first.APIKey || second.AdminToken != first.AdminToken || second.BuiltinURL != first.BuiltinURL {
		t.Errorf("the second run has other keys: %+v, the first %+v", second.State, first.State)
	}
	kinds, err := resource.Kinds()
	if err != nil {
		t.Fatal(err)
	}
	projects, err := resource.Find(kinds, "project")
	if err != nil {
		t.Fatal(err)
	}
	client := resource.NewClient(second.rpc())
	if _, err := client.Find(t.Context(), projects, resource.Scope{}, "kept"); err != nil {
		t.Errorf("what was made on the first day is gone: %v", err)
	}
	nodes, err := adminv1connect.NewNodeServiceClient(second.rpc()).ListNodes(t.Context(), &adminv1.ListNodesRequest{})
	if err != nil || len(nodes.GetNodes()) != 1 {
		t.Errorf("the node joined again: %v %v", nodes, err)
	}
	second.mustStop(t)

	// The port of the provider is taken by somebody else now: the configuration moves.
	// And the owner's token was lost.
	squatter, err := net.Listen("tcp", strings.TrimPrefix(second.BuiltinURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	if err := os.Remove(filepath.Join(dir, "owner.token")); err != nil {
		t.Fatal(err)
	}
	third := start(t, withKeys(anyPorts(dir), "OPENAI_API_KEY=sk-not-real", "ANTHROPIC_API_KEY="+second.APIKey, "GEMINI_API_KEY=not-real"))
	for _, want := range []string{"ANTHROPIC_API_KEY holds a key of a gateway", "GEMINI_API_KEY is not used"} {
		if !strings.Contains(third.errout.String(), want) {
			t.Errorf("what it says lacks %q:\n%s", want, third.errout)
		}
	}
	if third.BuiltinURL == second.BuiltinURL {
		t.Errorf("the provider is still at %s", third.BuiltinURL)
	}
	status, answer := call(t, third.InferenceURL+"/v1/chat/completions", http.Header{"Authorization": {"Bearer " + third.APIKey}},
		`{"model": "aidy-small", "messages": [{"role": "user", "content": "Hello"}]}`)
	if status != http.StatusOK {
		t.Errorf("after the provider moved: %d %s", status, answer)
	}
	if third.AdminToken == second.AdminToken {
		t.Error("the lost token is not replaced")
	}
	third.vendorStandsFirst(t, kinds)
	third.mustStop(t)

	o := anyPorts(dir)
	o.Reset = true
	fourth := start(t, o)
	fourth.chat(t)
	if fourth.APIKey == first.APIKey || fourth.AdminToken == third.AdminToken {
		t.Error("after --reset there are keys of before")
	}
	if _, err := resource.NewClient(fourth.rpc()).Find(t.Context(), projects, resource.Scope{}, "kept"); err == nil {
		t.Error("after --reset there is what was made before")
	}
	fourth.mustStop(t)
}

func withKeys(o Options, environ ...string) Options {
	o.Getenv = func(name string) string {
		for _, e := range environ {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
	return o
}

// vendorStandsFirst checks that the real upstream of a model is preferred.
func (r *running) vendorStandsFirst(t *testing.T, kinds []*resource.Kind) {
	t.Helper()
	upstreams, err := resource.Find(kinds, "upstream")
	if err != nil {
		t.Fatal(err)
	}
	priority := map[string]int32{}
	for m, err := range resource.NewClient(r.rpc()).All(t.Context(), upstreams, nil) {
		if err != nil {
			t.Fatal(err)
		}
		u := m.(*configv1.Upstream)
		priority[u.GetName()] = u.GetPriority()
	}
	if _, ok := priority["openai"]; !ok || priority["openai"] >= priority["builtin"] {
		t.Errorf("priorities are %v", priority)
	}
	for _, vendor := range []string{"anthropic", "gemini"} {
		if _, ok := priority[vendor]; ok {
			t.Errorf("%s is configured, with a key of the gateway or against what people configured: %v", vendor, priority)
		}
	}
}

func TestATakenPortNamesItsFlagAndItsHolder(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flag, set := range map[string]func(*Options, string){
		"--inference-addr": func(o *Options, a string) { o.InferenceAddr = a },
		"--admin-addr":     func(o *Options, a string) { o.AdminAddr = a },
		"--sync-addr":      func(o *Options, a string) { o.SyncAddr = a },
		"--ops-addr":       func(o *Options, a string) { o.OpsAddr = a },
	} {
		o := anyPorts(filepath.Join(t.TempDir(), "d"))
		set(&o, taken.Addr().String())
		err := Run(t.Context(), o, io.Discard, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), flag+": "+taken.Addr().String()+" is taken") {
			t.Errorf("%s: error %v", flag, err)
		}
		if _, serr := os.Stat("/proc/net/tcp"); serr == nil && err != nil && !strings.Contains(err.Error(), fmt.Sprintf("by process %d", os.Getpid())) {
			t.Errorf("%s: the holder is not named: %v", flag, err)
		}
	}
}

func TestWrongFlagsAreToldBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Options){
		"is not HOST:PORT":       func(o *Options) { o.AdminAddr = "8081" },
		"no port after 65535":    func(o *Options) { o.OpsAddr = "127.0.0.1:65535" },
		"--database-url names":   func(o *Options) { o.Reset, o.DatabaseURL = true, "postgres://x" },
		"want trace, debug, inf": func(o *Options) { o.LogLevel = "loud" },
	} {
		o := anyPorts(filepath.Join(t.TempDir(), "d"))
		change(&o)
		if err := Run(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestResetDeletesWhatWasMadeAndNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h, err := open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	elsewhere, foreign := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		h.statePath(): "{}", h.rootKey(): "k", h.ownerToken(): "t", h.seededMark(): "", filepath.Join(dir, "mine.txt"): "keep",
		filepath.Join(h.node(), "x"): "n", filepath.Join(h.postgres(), "location"): elsewhere, filepath.Join(elsewhere, "origin"): h.postgres(),
		filepath.Join(foreign, "origin"): "/somewhere/else",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.reset(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if !slices.Equal(left, []string{"lock", "mine.txt"}) {
		t.Errorf("left are %v", left)
	}
	if _, err := os.Stat(elsewhere); !os.IsNotExist(err) {
		t.Errorf("the database elsewhere is left: %v", err)
	}

	// A folder that does not name this one back is somebody else's.
	if err := os.MkdirAll(h.postgres(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.locationOf(), []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a foreign folder was deleted: %v", err)
	}
}

func TestAddressesAreReachableFromThisMachine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if u := baseURL("http", l); !strings.HasPrefix(u, "http://127.0.0.1:") {
		t.Errorf("address %s", u)
	}
}
