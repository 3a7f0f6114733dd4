package protocol_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

func TestMemberForTheGatewayIsCutWhereverItStands(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"model":"m","messages":[],"gateway":{"options":{"*":"drop"}}}`,
		`{"gateway":{"options":{"*":"drop"}},"model":"m","messages":[]}`,
		`{ "gateway" : {"options":{"*":"drop"}} , "model":"m","messages":[]}`,
		"{\"model\":\"m\",\n \"gateway\":{\"options\":{\"*\":\"drop\"}}\n, \"messages\":[]}",
	} {
		c := codec(protocol.OpenAIChat)
		s, f := c.Inspect([]byte(body), protocol.Target{})
		if f != nil {
			t.Fatal(f)
		}
		got := bytes.Join(protocol.Splice([]byte(body), protocol.CutGateway([]byte(body), s)), nil)
		var v map[string]any
		if err := json.Unmarshal(got, &v); err != nil {
			t.Fatalf("%s becomes %s: %v", body, got, err)
		}
		if diff := cmp.Diff(map[string]any{"model": "m", "messages": []any{}}, v); diff != "" {
			t.Errorf("%s becomes %s: %s", body, got, diff)
		}
		o, f := protocol.ReadOptions(nil, nil, []byte(body), s)
		if f != nil || o["*"] != protocol.Drop {
			t.Errorf("%s declares %v, %v", body, o, f)
		}
	}
}

func TestOptionsOfTheBodyComeBeforeTheHeadersAndThoseBeforeTheRoutes(t *testing.T) {
	t.Parallel()
	body := []byte(`{"model":"m","gateway":{"options":{"openai_chat.seed":"reject"}}}`)
	s, f := codec(protocol.OpenAIChat).Inspect(body, protocol.Target{})
	if f != nil {
		t.Fatal(f)
	}
	o, f := protocol.ReadOptions(
		[]*configv1.ConversionOption{
			{Feature: "openai_chat.seed", Action: "substitute"}, {Feature: "openai_chat.stop", Action: "drop"}, {Feature: "*", Action: "reject"},
		},
		[]string{"openai_chat.seed=drop, openai_chat.stop=substitute", "openai_chat.*=drop"}, body, s)
	if f != nil {
		t.Fatal(f)
	}
	for feature, want := range map[string]protocol.Action{"seed": protocol.Reject, "stop": protocol.Substitute, "n": protocol.Drop} {
		if got := o.Action(protocol.OpenAIChat, llm.Feature(feature)); got != want {
			t.Errorf("%s: %v, want %v", feature, got, want)
		}
	}
	if got := o.Action(protocol.Gemini, "seed"); got != protocol.Reject {
		t.Errorf("another protocol's option: %v, want that of *", got)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"seed=drop":               "no known name",
		"openai_chat.seed=ignore": "reject, drop or substitute",
		"openai_chat.seed":        "reject, drop or substitute",
		"martian.seed=drop":       "no known name",
		strings.Repeat("*=drop,", 9) + "openai_chat.=drop": "no known name",
	} {
		body := []byte(`{"model":"m"}`)
		s, _ := codec(protocol.OpenAIChat).Inspect(body, protocol.Target{})
		if _, f := protocol.ReadOptions(nil, []string{header}, body, s); f == nil || !strings.Contains(f.Text(), want) {
			t.Errorf("%s: %v, want a text with %q", header, f, want)
		}
	}
	for _, body := range []string{`{"model":"m","gateway":1}`, `{"model":"m","gateway":{"x":1}}`, `{"model":"m","gateway":{"options":{"a":1}}}`} {
		s, _ := codec(protocol.OpenAIChat).Inspect([]byte(body), protocol.Target{})
		if _, f := protocol.ReadOptions(nil, nil, []byte(body), s); f == nil || !strings.HasPrefix(f.Param, "gateway") {
			t.Errorf("%s: %v, want a fault that names the member", body, f)
		}
	}
}
