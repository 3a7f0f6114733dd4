package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// agents are clients that hold conversations as coding agents do: with tools, each
// request with all that was said so far and the result of the last call.
type agents struct {
	// send is where the requests go, and name what the model is called there.
	send func(*http.Request) (*http.Response, error)
	base string
	key  string
	name string

	atOnce    int                     // conversations that are held at a time
	total     int                     // conversations; 0 for as many as the context lets them
	longest   int                     // turns of the longest
	protocols []fakeprovider.Protocol // that conversations take in turn: Anthropic or Chat
	think     time.Duration           // between two turns, on average

	mu      sync.Mutex
	outcome outcome // guarded by mu
}

// outcome is what clients saw.
type outcome struct {
	calls     int
	errors    []string
	fallbacks int            // answers that had failed attempts before them
	affinity  map[string]int // what the answers told of it
	first     []time.Duration
}

func (o *outcome) p99() time.Duration {
	if len(o.first) == 0 {
		return 0
	}
	slices.Sort(o.first)
	return o.first[len(o.first)*99/100]
}

// run holds the conversations. It returns when all are over, or the turns that are under
// way when ctx ends.
func (a *agents) run(ctx context.Context, t *testing.T) *outcome {
	t.Helper()
	a.outcome.affinity = map[string]int{}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range a.atOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if a.total > 0 && n >= a.total {
					return
				}
				a.converse(ctx, t, n)
			}
		})
	}
	wg.Wait()
	return &a.outcome
}

// converse holds conversation n, which is the same whoever answers.
func (a *agents) converse(ctx context.Context, t *testing.T, n int) {
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	d := dialogue{protocol: a.protocols[n%len(a.protocols)], model: a.name, head: rng.IntN(3), stream: n%2 == 0}
	session := ""
	if n%4 < 2 { // half of the agents name their session
		session = "session-" + strconv.Itoa(n)
	}
	d.open()
	d.say(rng, n, 200+rng.IntN(1200))
	for i := range a.longest/10 + rng.IntN(a.longest*9/10) + 1 {
		if ctx.Err() != nil {
			return
		}
		a.turn(t, &d, session)
		d.call(rng, fmt.Sprintf("call_%d_%d", n, i))
		if a.think > 0 {
			timer := time.NewTimer(time.Duration(rng.ExpFloat64() * float64(a.think)))
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	}
}

// turn sends what was said so far.
func (a *agents) turn(t *testing.T, d *dialogue, session string) {
	path := "/v1/messages"
	if d.protocol == fakeprovider.Chat {
		path = "/v1/chat/completions"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(d.body()))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if d.protocol == fakeprovider.Anthropic {
		req.Header.Set("X-Api-Key", a.key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	} else {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	if session != "" {
		req.Header.Set("X-Session-Id", session)
	}
	began := time.Now()
	resp, err := a.send(req)
	took := time.Since(began)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	switch {
	case err != nil:
	case resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	case !d.complete(body):
		err = fmt.Errorf("an answer that has no end: %s", body)
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcome.calls++
	if err != nil {
		a.outcome.errors = append(a.outcome.errors, err.Error())
		return
	}
	a.outcome.first = append(a.outcome.first, took)
	a.outcome.affinity[resp.Header.Get("X-Gateway-Cache-Affinity")]++
	if resp.Header.Get("X-Gateway-Fallback-Failures") != "" {
		a.outcome.fallbacks++
	}
}

// dialogue is a conversation in the form of its protocol.
type dialogue struct {
	protocol fakeprovider.Protocol
	model    string
	head     int // which of the agents it is: each has its own system text
	stream   bool
	begin    string // the body before the messages
	messages []message
}

// message is one as it is written, and how it is written where the cache is to end.
type message struct{ plain, marked string }

// both writes a message in its two forms.
func both(write func(mark string) string) message {
	return message{write(""), write(cacheMark)}
}

// words is text of so many bytes.
func words(rng *rand.Rand, bytes int) string {
	const letters = "abcdefghijklmnop"
	var b strings.Builder
	for b.Len() < bytes {
		for range 3 + rng.IntN(6) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// cacheMark is Anthropic's mark of what is to be cached.
const cacheMark = `,"cache_control":{"type":"ephemeral"}`

// say begins the conversation.
func (d *dialogue) say(rng *rand.Rand, n, bytes int) {
	text := fmt.Sprintf("task %d: %s", n, words(rng, bytes))
	d.messages = append(d.messages, both(func(mark string) string {
		if d.protocol == fakeprovider.Chat {
			return fmt.Sprintf(`{"role":"user","content":%q}`, text)
		}
		return fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%q%s}]}`, text, mark)
	}))
}

// call is the model's call of a tool and the result of it.
func (d *dialogue) call(rng *rand.Rand, id string) {
	thought, path, result := words(rng, 80+rng.IntN(200)), words(rng, 20), words(rng, 200+rng.IntN(800))
	d.messages = append(d.messages, both(func(string) string {
		if d.protocol == fakeprovider.Chat {
			return fmt.Sprintf(`{"role":"assistant","content":%q,"tool_calls":[{"id":%q,"type":"function","function":{"name":"read","arguments":%q}}]}`,
				thought, id, fmt.Sprintf(`{"path":%q}`, path))
		}
		return fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%q},{"type":"tool_use","id":%q,"name":"read","input":{"path":%q}}]}`, thought, id, path)
	}), both(func(mark string) string {
		if d.protocol == fakeprovider.Chat {
			return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, result)
		}
		return fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q%s}]}`, id, result, mark)
	}))
}

// open writes what stands before the messages: the tools, and the system text of the
// agent.
func (d *dialogue) open() {
	system := words(rand.New(rand.NewPCG(8, uint64(d.head))), 5000)
	const schema = `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`
	d.begin = fmt.Sprintf(`{"model":%q,"stream":%v,`, d.model, d.stream)
	if d.protocol == fakeprovider.Chat {
		d.begin += fmt.Sprintf(`"tools":[{"type":"function","function":{"name":"read","description":"reads a file","parameters":%s}}],"messages":[{"role":"system","content":%q},`, schema, system)
		return
	}
	d.begin += fmt.Sprintf(`"max_tokens":500,"tools":[{"name":"read","description":"reads a file","input_schema":%s}],"system":[{"type":"text","text":%q%s}],"messages":[`, schema, system, cacheMark)
}

// body is the next request.
func (d *dialogue) body() []byte {
	b := []byte(d.begin)
	for _, m := range d.messages[:len(d.messages)-1] {
		b = append(append(b, m.plain...), ',')
	}
	return append(append(b, d.messages[len(d.messages)-1].marked...), "]}"...)
}

// complete tells whether an answer has its end.
func (d *dialogue) complete(body []byte) bool {
	switch {
	case !d.stream:
		return bytes.HasSuffix(bytes.TrimSpace(body), []byte("}"))
	case d.protocol == fakeprovider.Chat:
		return bytes.HasSuffix(bytes.TrimSpace(body), []byte("data: [DONE]"))
	}
	return bytes.Contains(body, []byte("event: message_stop"))
}
