package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func TestConvertingTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for _, from := range protocols() {
		for name, body := range corpus(t, from) {
			for _, to := range protocols() {
				one, f := try(t, pair{from, to}, body, protocol.Options{"*": protocol.Drop})
				if f != nil {
					continue // refused each time
				}
				again, f := try(t, pair{from, to}, body, protocol.Options{"*": protocol.Drop})
				if f != nil || !bytes.Equal(one.conv.Body, again.conv.Body) || one.conv.Lossy() != again.conv.Lossy() {
					t.Errorf("%s of %s to %s: (%v)\n%s\n%s", name, from, to, f, one.conv.Body, again.conv.Body)
				}
				// The same call converted for a second candidate.
				second, f := one.call.Convert(one.target)
				if f != nil || !bytes.Equal(one.conv.Body, second.Body) {
					t.Errorf("%s of %s to %s: the second candidate gets\n%s\nwant\n%s (%v)", name, from, to, second.Body, one.conv.Body, f)
				}
			}
		}
	}
}

// step is what one turn of a conversation adds. Without an answer the tools' results are
// the end of the conversation.
type step struct {
	user, answer string
	tools        int  // calls in a row before the answer, each with its result
	parallel     bool // all in one turn
}

// conversation is a request of a caller's protocol with the steps and an open question.
func conversation(p protocol.Name, steps []step) string {
	var said []string
	add := func(form string, args ...any) { said = append(said, fmt.Sprintf(form, args...)) }
	id := 0
	for _, s := range steps {
		user(p, add, s.user)
		calls := make([]int, s.tools)
		for i := range calls {
			id++
			calls[i] = id
		}
		if s.parallel {
			called(p, add, calls)
		} else {
			for _, c := range calls {
				called(p, add, []int{c})
			}
		}
		if s.answer != "" {
			assistant(p, add, s.answer)
		}
	}
	if n := len(steps); n == 0 || steps[n-1].answer != "" {
		user(p, add, "And now?")
	}
	all := strings.Join(said, ",")
	switch p {
	case chat:
		return `{"model":"public","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"messages":[{"role":"system","content":"Be brief."},` + all + `]}`
	case responses:
		return `{"model":"public","store":false,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}],"instructions":"Be brief.","input":[` + all + `]}`
	case messages:
		return `{"model":"public","max_tokens":1000,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"system":"Be brief.","messages":[` + all + `]}`
	}
	return `{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"type":"object","properties":{}}}]}],"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[` + all + `]}`
}

func user(p protocol.Name, add func(string, ...any), text string) {
	if p == generate {
		add(`{"role":"user","parts":[{"text":%q}]}`, text)
		return
	}
	add(`{"role":"user","content":%q}`, text)
}

func assistant(p protocol.Name, add func(string, ...any), text string) {
	switch p {
	case responses:
		add(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`, text)
	case generate:
		add(`{"role":"model","parts":[{"text":%q}]}`, text)
	default:
		add(`{"role":"assistant","content":%q}`, text)
	}
}

func called(p protocol.Name, add func(string, ...any), ids []int) {
	list := func(form string) string {
		var b []string
		for _, id := range ids {
			b = append(b, fmt.Sprintf(form, id))
		}
		return strings.Join(b, ",")
	}
	if len(ids) == 0 {
		return
	}
	switch p {
	case chat:
		add(`{"role":"assistant","content":null,"tool_calls":[%s]}`, list(`{"id":"call_%d","type":"function","function":{"name":"f","arguments":"{}"}}`))
		add(`%s`, list(`{"role":"tool","tool_call_id":"call_%d","content":"ok"}`))
	case responses:
		add(`%s`, list(`{"type":"function_call","call_id":"call_%d","name":"f","arguments":"{}"}`))
		add(`%s`, list(`{"type":"function_call_output","call_id":"call_%d","output":"ok"}`))
	case messages:
		add(`{"role":"assistant","content":[%s]}`, list(`{"type":"tool_use","id":"call_%d","name":"f","input":{}}`))
		add(`{"role":"user","content":[%s]}`, list(`{"type":"tool_result","tool_use_id":"call_%d","content":"ok"}`))
	default:
		add(`{"role":"model","parts":[%s]}`, list(`{"functionCall":{"id":"call_%d","name":"f","args":{}}}`))
		add(`{"role":"user","parts":[%s]}`, list(`{"functionResponse":{"id":"call_%d","name":"f","response":{"output":"ok"}}}`))
	}
}

// parts are the pieces of a request that a provider caches, in its order: tools, system
// and each turn.
func parts(t interface{ Fatalf(string, ...any) }, p protocol.Name, body []byte) (head string, turns []json.RawMessage) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	name := map[protocol.Name]string{chat: "messages", responses: "input", messages: "messages", generate: "contents"}[p]
	if err := json.Unmarshal(in[name], &turns); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	for _, n := range []string{"tools", "system", "instructions", "systemInstruction"} {
		head += string(in[n]) + "\n"
	}
	return head, turns
}

// A conversation that grows keeps what was sent of it before byte for byte, so that the
// provider's prompt cache has it.
func TestGrowingConversationKeepsItsPrefix(t *testing.T) {
	t.Parallel()
	others(t, func(t *testing.T, p pair) {
		rapid.Check(t, func(rt *rapid.T) {
			var steps []step
			var before []json.RawMessage
			head := ""
			for range rapid.IntRange(1, 5).Draw(rt, "turns") {
				steps = append(steps, step{
					user:     rapid.StringMatching(`[a-zü" ]{1,12}[a-z]`).Draw(rt, "user"),
					answer:   rapid.StringMatching(`[a-zü\\" ]{1,12}[a-z]`).Draw(rt, "answer"),
					tools:    rapid.IntRange(0, 3).Draw(rt, "tools"),
					parallel: rapid.Bool().Draw(rt, "parallel"),
				})
				last := &steps[len(steps)-1]
				for _, answer := range []string{"", last.answer} {
					if answer == "" && last.tools == 0 {
						continue
					}
					last.answer = answer // first what is sent when the tools have run
					x, f := try(t, p, conversation(p.from, steps), nil)
					if f != nil {
						rt.Fatalf("%v (%s)", f, f.Public)
					}
					h, turns := parts(rt, p.to, x.conv.Body)
					if head != "" && h != head {
						rt.Fatalf("tools and instructions became\n%s\nof\n%s", h, head)
					}
					for i := range before {
						if i >= len(turns) || !bytes.Equal(before[i], turns[i]) {
							rt.Fatalf("turn %d was %s and became another in\n%s", i, before[i], x.conv.Body)
						}
					}
					// The last one may become longer: the open question has no answer yet.
					head, before = h, turns[:len(turns)-1]
				}
			}
		})
	})
}
