//go:build clients

package clients

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// scriptLimit is how long one task of an SDK may take. It catches a hang.
const scriptLimit = time.Minute

// sdk is a script that uses one SDK.
type sdk struct {
	name  string
	argv  []string // file of the script and its arguments
	own   fakeprovider.Protocol
	model string // one that the SDK takes for its vendor's

	// environment gives it address and key. It is nil for an SDK that does not take
	// its address from the environment.
	environment func(w *world) []string
}

func openaiEnvironment(w *world) []string {
	return []string{"OPENAI_BASE_URL=" + w.base + "/v1", "OPENAI_API_KEY=" + w.key}
}

func anthropicEnvironment(w *world) []string {
	return []string{"ANTHROPIC_BASE_URL=" + w.base, "ANTHROPIC_API_KEY=" + w.key}
}

func geminiEnvironment(w *world) []string {
	return []string{"GOOGLE_GEMINI_BASE_URL=" + w.base, "GEMINI_API_KEY=" + w.key}
}

func sdks() []sdk {
	return []sdk{
		{"openai-chat", []string{"openai-chat.mjs"}, fakeprovider.Chat, "gpt-4.1", openaiEnvironment},
		{"openai-responses", []string{"openai-responses.mjs"}, fakeprovider.Responses, "gpt-5", openaiEnvironment},
		{"anthropic", []string{"anthropic.mjs"}, fakeprovider.Anthropic, "claude-sonnet-4-5", anthropicEnvironment},
		{"genai", []string{"genai.mjs"}, fakeprovider.Gemini, "gemini-2.5-pro", geminiEnvironment},
		{"ai-openai-chat", []string{"aisdk.mjs", "openai-chat"}, fakeprovider.Chat, "gpt-4.1", openaiEnvironment},
		{"ai-openai-responses", []string{"aisdk.mjs", "openai-responses"}, fakeprovider.Responses, "gpt-5", openaiEnvironment},
		{"ai-anthropic", []string{"aisdk.mjs", "anthropic"}, fakeprovider.Anthropic, "claude-sonnet-4-5", anthropicEnvironment},
		{"ai-google", []string{"aisdk.mjs", "google"}, fakeprovider.Gemini, "gemini-2.5-pro", nil},
	}
}

// job is what a script is told to do; see sdk/job.mjs.
type job struct {
	Task   string `json:"task"`
	Base   string `json:"base"`
	Key    string `json:"key"`
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	// Environment tells the SDK to find its address and key in the environment.
	Environment bool   `json:"environment"`
	Retries     int    `json:"retries"`
	System      string `json:"system"`
	Prompt      string `json:"prompt"`
	Image       string `json:"image,omitempty"`
	Think       bool   `json:"think"`
}

// reply is what a script tells of its job; see sdk/job.mjs.
type reply struct {
	Text  string
	Usage struct{ Input, Output int64 }
	Calls []toolCall
	Value json.RawMessage

	Aborted bool
	Error   *struct {
		Name    string
		Status  int
		Message string
	}
}

type toolCall struct {
	Name string
	Args json.RawMessage
}

// talk is one task of one SDK in one world.
type talk struct {
	*world
	programs *programs
	scripts  string
	sdk      sdk
	stream   bool
}

// do runs the script and fails the test if it does not come to its end.
func (c *talk) do(t *testing.T, j job) reply {
	t.Helper()
	j.Base, j.Key, j.Model, j.Stream = c.base, c.key, c.sdk.model, c.stream
	j.System = system
	if j.Prompt == "" {
		j.Prompt = prompt
	}
	in, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{c.programs.node, filepath.Join(c.scripts, c.sdk.argv[0])}
	run := process{argv: append(argv, c.sdk.argv[1:]...), dir: c.scripts, env: []string{"AIDY_JOB=" + string(in)}, limit: scriptLimit}
	if j.Environment {
		run.env = append(run.env, c.sdk.environment(c.world)...)
	}
	if j.Task == "abort" {
		run.input = c.untilAsked(t)
	}
	out, err := run.run(t)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("the script said %q: %v", out, err)
	}
	return r
}

// untilAsked ends when the provider has got a request.
func (c *talk) untilAsked(t *testing.T) io.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	t.Cleanup(cancel)
	r, w := io.Pipe()
	go func() {
		_ = c.provider.Wait(ctx, func(s fakeprovider.Stats) bool { return s.Accepted > 0 }) // the test sees what is missing
		_ = w.Close()
	}()
	return r
}

// well is do for a task that must end without an error.
func (c *talk) well(t *testing.T, j job) reply {
	t.Helper()
	r := c.do(t, j)
	if r.Error != nil {
		t.Fatalf("the SDK raised %s (status %d): %s\nthe provider saw %s", r.Error.Name, r.Error.Status, r.Error.Message, c.seen())
	}
	return r
}

// What every question says, and with it letters that take more than one byte.
const (
	system = "You are terse — très concis."
	prompt = "Guten Morgen! What is new in Zürich? 今日は"
)

// TestSDKs runs every task of every SDK. A row's name tells the SDK, the task, whether
// it is streamed, and what the model is served in.
func TestSDKs(t *testing.T) {
	p := installed(t)
	g := startGateway(t)
	scripts := p.scriptFolder(t)
	for _, s := range sdks() {
		for _, task := range []struct {
			name string
			test func(t *testing.T, c *talk)
		}{
			{"text", textAnswer},
			{"environment", foundInEnvironment},
			{"tools", toolTurns},
			{"reasoning", reasonedTurns},
			{"image", imagePrompt},
			{"structured", structuredAnswer},
			{"abort", abortedCall},
			{"wait", awaitedCall},
			{"retry", retriedCall},
			{"refused", refusedCall},
		} {
			if task.name == "environment" && s.environment == nil {
				continue
			}
			for mode, stream := range map[string]bool{"whole": false, "streamed": true} {
				g.forUpstreams(t, s.name+"/"+task.name+"/"+mode, s.own, func(t *testing.T, w *world) {
					task.test(t, &talk{world: w, programs: p, scripts: scripts, sdk: s, stream: stream})
				})
			}
		}
	}
}

// textAnswer: the whole text and the provider's own counts arrive, and what was said to
// the model reached it.
func textAnswer(t *testing.T, c *talk) {
	const text = "Nothing new — “rien de nouveau” in Zürich, 今日は. "
	c.script(fakeprovider.Step{Text: text, Usage: &fakeprovider.Usage{Input: 1234, Output: 56}})
	r := c.well(t, job{Task: "text"})
	if r.Text != text {
		t.Errorf("text %q, want %q", r.Text, text)
	}
	if r.Usage.Input != 1234 || r.Usage.Output != 56 {
		t.Errorf("usage %+v, want 1234 in and 56 out", r.Usage)
	}
	c.wantRequests(t, 1)
	c.wantBody(t, 0, system, prompt)
}

// foundInEnvironment: variables are enough to point the SDK at the gateway.
func foundInEnvironment(t *testing.T, c *talk) {
	c.script(fakeprovider.Step{Text: "Found."})
	if r := c.well(t, job{Task: "text", Environment: true}); r.Text != "Found." {
		t.Errorf("text %q, want that of the provider", r.Text)
	}
	c.wantRequests(t, 1)
}

// toolTurns: two calls at once, then one more, then text. Arguments arrive as they were
// made, and each result goes back to the model.
func toolTurns(t *testing.T, c *talk) {
	c.script(toolSteps()...)
	c.wantToolTurns(t, c.well(t, job{Task: "tools"}))
}

// reasonedTurns: toolTurns with a model that thinks before each turn. Its thoughts are
// not taken for its answer, and what belongs to them comes back to it.
func reasonedTurns(t *testing.T, c *talk) {
	steps := toolSteps()
	think(steps)
	c.script(steps...)
	c.wantToolTurns(t, c.well(t, job{Task: "tools", Think: true}))
	c.wantState(t, 1)
	c.wantState(t, 2)
}

// think lets the model think before each of its turns.
func think(steps []fakeprovider.Step) {
	for i := range steps {
		steps[i].Reasoning = fmt.Sprintf("Thought %d: one thing after the other.", i+1)
	}
}

const toolText = "It is sunny, and noon."

func toolSteps() []fakeprovider.Step {
	return []fakeprovider.Step{
		{ToolCalls: []fakeprovider.ToolCall{
			{Name: "weather", Arguments: `{"city":"Zürich \"West\""}`},
			{Name: "clock", Arguments: `{"zone":"Asia/Tokyo","day":9007199254740991}`},
		}},
		{Text: "Again.", ToolCalls: []fakeprovider.ToolCall{{Name: "weather", Arguments: `{"city":"Oslo"}`}}},
		{Text: toolText},
	}
}

func (c *talk) wantToolTurns(t *testing.T, r reply) {
	t.Helper()
	if r.Text != toolText {
		t.Errorf("text %q, want %q", r.Text, toolText)
	}
	want := []toolCall{
		{"weather", json.RawMessage(`{"city":"Zürich \"West\""}`)},
		{"clock", json.RawMessage(`{"zone":"Asia/Tokyo","day":9007199254740991}`)},
		{"weather", json.RawMessage(`{"city":"Oslo"}`)},
	}
	if diff := cmp.Diff(want, r.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	c.wantRequests(t, 3)
	c.wantBody(t, 0, "Name of the city", "Tells the time of a zone.")
	c.wantBody(t, 1, "sunny in Zürich", "noon in Asia/Tokyo on day 9007199254740991")
	c.wantBody(t, 2, "sunny in Zürich", "noon in Asia/Tokyo on day 9007199254740991", "Again.", "sunny in Oslo")
}

// imagePrompt: the image reaches the model unchanged.
func imagePrompt(t *testing.T, c *talk) {
	picture := drawing(t)
	c.script(fakeprovider.Step{Text: "Stripes."})
	r := c.well(t, job{Task: "text", Image: picture})
	if r.Text != "Stripes." {
		t.Errorf("text %q, want that of the provider", r.Text)
	}
	c.wantRequests(t, 1)
	c.wantBody(t, 0, picture, "image/png", prompt)
}

// drawing is a small PNG, in base64.
func drawing(t *testing.T) string {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 32, 32))
	for i := range 32 * 32 {
		m.Set(i%32, i/32, color.RGBA{uint8(i * 7), uint8(i * 13), uint8(i * 29), 255})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// structuredAnswer: the schema reaches the model, and its answer is read as JSON.
func structuredAnswer(t *testing.T, c *talk) {
	const value = `{"city":"Oslo","degrees":-3,"warm":false}`
	c.script(fakeprovider.Step{Text: value})
	r := c.well(t, job{Task: "structured"})
	if diff := cmp.Diff(value, string(r.Value)); diff != "" {
		t.Errorf("value (-want +got):\n%s", diff)
	}
	c.wantRequests(t, 1)
	c.wantBody(t, 0, `"degrees"`, `"integer"`, `"warm"`)
}

// abortedCall: when the client leaves, the provider is left.
func abortedCall(t *testing.T, c *talk) {
	c.script(fakeprovider.Step{Pieces: []string{"one ", "two ", "three"}, Fault: fakeprovider.FaultStall, FaultAfter: 2})
	r := c.well(t, job{Task: "abort"})
	if !r.Aborted {
		t.Errorf("the call ended by itself with %q, want it aborted", r.Text)
	}
	if c.stream && !strings.HasPrefix(r.Text, "one ") {
		t.Errorf("the SDK got %q before it left, want the pieces that were sent", r.Text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptLimit)
	defer cancel()
	if err := c.provider.WaitCanceled(ctx, 1); err != nil {
		t.Errorf("the provider was not left: %v; it saw %s", err, c.seen())
	}
	c.wantRequests(t, 1)
}

// A single account that is at its limit for a moment is waited for by the gateway; a
// longer wait, above three seconds, is told to the client.
const (
	shortWait = time.Second
	longWait  = 4 * time.Second
)

// awaitedCall: an SDK that tries once gets its answer although the account was at its
// limit for a moment.
func awaitedCall(t *testing.T, c *talk) { c.limited(t, shortWait, 0) }

// retriedCall: an account at its limit is told to the SDK so that it waits, asks again
// and gets its answer.
func retriedCall(t *testing.T, c *talk) { c.limited(t, longWait, 3) }

func (c *talk) limited(t *testing.T, wait time.Duration, retries int) {
	t.Helper()
	c.script(fakeprovider.FailRetryAfter(fakeprovider.RateLimited, wait), fakeprovider.Step{Text: "Now."})
	r := c.well(t, job{Task: "text", Retries: retries})
	if r.Text != "Now." {
		t.Errorf("text %q, want that of the second try", r.Text)
	}
	c.wantRequests(t, 2)
}

// refusedCall: what the provider says is the caller's fault arrives as the SDK's error
// with its status and words, and is not tried again.
func refusedCall(t *testing.T, c *talk) {
	const words = "the prompt is 12 tokens too long"
	c.script(fakeprovider.Step{Fail: &fakeprovider.Failure{Kind: fakeprovider.ContextTooLong, Message: words}})
	r := c.do(t, job{Task: "text", Retries: 2})
	switch {
	case r.Error == nil:
		t.Errorf("the SDK got %q, want its error", r.Text)
	case r.Error.Status != 400 || !strings.Contains(r.Error.Message, words):
		t.Errorf("the SDK raised %s with status %d: %s; want 400 and %q", r.Error.Name, r.Error.Status, r.Error.Message, words)
	}
	c.wantRequests(t, 1)
}
