package gemini_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// A signature is of the whole thought, wherever an SDK cut it. What is not signed stays
// as it came.
func TestPiecesOfASignedThoughtAreOne(t *testing.T) {
	t.Parallel()
	state := &llm.State{Kind: llm.GeminiSignature, Data: "c2ln"}
	thought := func(text string, s *llm.State) llm.Part {
		return llm.Part{Kind: llm.PartReasoning, Text: text, State: s}
	}
	const signature = `{"text":"","thought":true,"thoughtSignature":"c2ln"}`
	for name, tc := range map[string]struct {
		turns string
		want  []llm.Message
	}{
		"in contents of their own": {
			`{"role":"model","parts":[{"text":"One ","thought":true}]},{"role":"model","parts":[{"text":"two","thought":true}]},
			 {"role":"model","parts":[` + signature + `]},{"role":"model","parts":[{"text":"Hi"}]}`,
			[]llm.Message{assistant(thought("One two", state)), assistant(llm.Part{Text: "Hi"})},
		},
		"in parts of one content": {
			`{"role":"model","parts":[{"text":"One ","thought":true},{"text":"two","thought":true,"thoughtSignature":"c2ln"},{"text":"Hi"}]}`,
			[]llm.Message{assistant(thought("One two", state), llm.Part{Text: "Hi"})},
		},
		"of two thoughts": {
			`{"role":"model","parts":[{"text":"One","thought":true},` + signature + `,{"text":"Two","thought":true},` + signature + `]}`,
			[]llm.Message{assistant(thought("One", state), thought("Two", state))},
		},
		"not across what was said": {
			`{"role":"model","parts":[{"text":"One","thought":true},{"text":"Hi"},` + signature + `]}`,
			[]llm.Message{assistant(thought("One", nil), llm.Part{Text: "Hi"}, thought("", state))},
		},
		"not across turns": {
			`{"role":"model","parts":[{"text":"One","thought":true}]},{"role":"user","parts":[{"text":"So?"}]},{"role":"model","parts":[` + signature + `]}`,
			[]llm.Message{assistant(thought("One", nil)), user("So?"), assistant(thought("", state))},
		},
		"unsigned": {
			`{"role":"model","parts":[{"text":"One","thought":true},{"text":"two","thought":true}]}`,
			[]llm.Message{assistant(thought("One", nil), thought("two", nil))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := decode(t, `{"contents":[{"role":"user","parts":[{"text":"Go"}]},`+tc.turns+`]}`)
			if diff := cmp.Diff(tc.want, r.Messages[1:]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
