package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// The version that takes everything a conversion may send. With the later one,
// temperature, top_p and top_k are refused (anthropic-sdk-go v2.15).
const convertVersion = "2023-06-01"

// defaultMaxTokens is the output limit where neither the caller states one nor that
// of the model is known. The protocol demands one.
const defaultMaxTokens = 4096

// betas are the betas that fields of a request need, in the order of their names.
var betas = []struct{ field, beta string }{
	{"compaction", "compact-2026-09-04"},
	{"context_management", "context-management-2025-06-27"},
	{"fallback_credit_token", "fallback-credit-2026-07-01"},
	{"fallbacks", "server-side-fallback-2026-07-01"},
	{"mcp_servers", "mcp-client-2025-11-20"},
	{"output_config.task_budget", "task-budgets-2026-03-13"},
	{"thread", "message-threads-2026-08-12"},
}

// midSystemBeta lets system messages stand between turns.
const midSystemBeta = "mid-conversation-system-2026-04-07"

// UpstreamTarget is a call of /v1/messages in the version of a conversion, with the
// betas that what is sent needs. What a caller of the same protocol sends keeps its
// version, as far as the upstream knows it.
func (c *Codec) UpstreamTarget(r *llm.Request, conv *protocol.Conversion) (protocol.Target, map[string]string) {
	t := protocol.Target{Protocol: protocol.Anthropic, Op: protocol.OpGenerate, Stream: conv.Stream, Framing: protocol.FramingBody}
	if conv.Stream {
		t.Framing = protocol.FramingSSE
	}
	version := convertVersion
	if conv.From == protocol.Anthropic && conv.Version != "" {
		version = conv.Version
	}
	if newest := conv.Compat.GetMaxAnthropicVersion(); newest != "" && newest < version {
		version = newest // dates sort as texts
	}
	header := map[string]string{"Anthropic-Version": version}
	if conv.From == protocol.Anthropic {
		if names := betasOf(r); names != "" {
			header["Anthropic-Beta"] = names
		}
	}
	return t, header
}

func betasOf(r *llm.Request) string {
	var names []string
	for _, row := range betas {
		for _, e := range r.Extras {
			if e.Field == row.field {
				names = append(names, row.beta)
				break
			}
		}
	}
	turns := false
	for i := range r.Messages {
		if r.Messages[i].Role != llm.RoleSystem {
			turns = true
		} else if turns {
			names = append(names, midSystemBeta)
			break
		}
	}
	return strings.Join(names, ",")
}

// EncodeRequest writes a Messages request.
func (*Codec) EncodeRequest(r *llm.Request, c *protocol.Conversion) ([]byte, *fault.Error) {
	w := &requestWriter{r: r, c: c, own: c.From == protocol.Anthropic}
	steps := [...]func() *fault.Error{
		w.extras, w.arrange, w.plan, w.head, w.sampling, w.stops, w.meta, w.offer, w.instructions, w.conversation,
	}
	for _, step := range steps {
		if f := step(); f != nil {
			return nil, f
		}
	}
	return append(w.b, '}'), nil
}

// requestWriter writes one request.
type requestWriter struct {
	r   *llm.Request
	c   *protocol.Conversion
	own bool // the caller speaks this protocol too
	b   []byte

	kept   []llm.Extra // fields to be written as the caller wrote them
	system []*llm.Part
	turns  []turn
	last   int // the turn that is written last; -1 for a caller of this protocol

	think thinking
	limit int64 // max_tokens

	marks   int // of the prompt cache, all that were asked for
	marked  int // that were passed by
	results map[*llm.Result]llm.Cache
	ids     callIDs
	check   wirejson.Reader
	format  string // an instruction that stands for a format
}

// holds are values of fields by which a caller asks for what is so anyway.
func holds(e llm.Extra) bool {
	raw := string(bytes.TrimSpace(e.Raw))
	switch e.Feature {
	case llm.FeatureStore, llm.FeatureBackground, llm.FeatureLogprobs:
		return raw == "false"
	case llm.FeatureTruncation:
		return raw == `"disabled"`
	case llm.FeatureChoices:
		return raw == "1"
	case llm.FeatureVerbosity:
		return raw == `"medium"`
	case llm.FeatureOutputModality:
		return strings.EqualFold(raw, `["text"]`)
	}
	return false
}

// extras decides about the fields that not all protocols have.
func (w *requestWriter) extras() *fault.Error {
	rest := llm.Request{Unknown: w.r.Unknown}
	for _, e := range w.r.Extras {
		switch {
		case holds(e):
		case w.own && !strings.ContainsRune(e.Field, '['):
			w.kept = append(w.kept, e)
		default:
			rest.Extras = append(rest.Extras, e)
		}
	}
	return w.c.Extras(&rest, w.carry)
}

// carry takes a field of another protocol that can be expressed here.
func (w *requestWriter) carry(e llm.Extra) *fault.Error {
	if e.Feature == llm.FeatureServiceTier {
		switch string(e.Raw) {
		case `"auto"`:
			w.kept = append(w.kept, llm.Extra{Field: "service_tier", Raw: []byte(`"auto"`)})
			return nil
		case `"default"`, `"standard"`:
			w.kept = append(w.kept, llm.Extra{Field: "service_tier", Raw: []byte(`"standard_only"`)})
			return nil
		}
	}
	return w.c.Dropped(e.Feature, e.Field)
}

// keptField is a field that is written as the caller wrote it; nil if there is none.
func (w *requestWriter) keptField(name string) []byte {
	for _, e := range w.kept {
		if e.Field == name {
			return e.Raw
		}
	}
	return nil
}

func (w *requestWriter) head() *fault.Error {
	size := 4096
	for i := range w.r.Messages {
		for j := range w.r.Messages[i].Parts {
			size += sizeOf(&w.r.Messages[i].Parts[j])
		}
	}
	for i := range w.r.Tools {
		size += len(w.r.Tools[i].Description) + len(w.r.Tools[i].Schema) + len(w.r.Tools[i].Native) + 128
	}
	w.b = wirejson.AppendStringMember(append(make([]byte, 0, size+size/8), '{'), "model", w.c.Model)
	w.b = wirejson.AppendIntMember(w.b, "max_tokens", w.limit)
	if w.c.Stream {
		w.b = append(w.b, `,"stream":true`...)
	}
	return w.thinkingMembers()
}

// sizeOf is about how many bytes a part takes on the wire.
func sizeOf(p *llm.Part) int {
	n := len(p.Text) + 64
	switch {
	case p.Media != nil:
		n += len(p.Media.Data) + len(p.Media.Text) + len(p.Media.URL)
	case p.Call != nil:
		n += len(p.Call.Arguments)
	case p.Native != nil:
		n += len(p.Native.Raw)
	case p.Result != nil:
		n += len(p.Result.Raw)
		for i := range p.Result.Parts {
			n += sizeOf(&p.Result.Parts[i])
		}
	}
	if p.State != nil {
		n += len(p.State.Data)
	}
	return n
}

func (w *requestWriter) stops() *fault.Error {
	list := len(w.b)
	for _, s := range w.r.Stop {
		if s == "" {
			continue
		}
		if strings.TrimSpace(s) == "" && !w.own { // refused there
			if f := w.c.Dropped(llm.FeatureStop, w.at(llm.FeatureStop)); f != nil {
				return f
			}
			continue
		}
		if len(w.b) == list {
			w.b = append(wirejson.AppendMember(w.b, "stop_sequences"), '[')
		}
		w.b = wirejson.AppendString(wirejson.AppendElement(w.b), s)
	}
	if len(w.b) > list {
		w.b = append(w.b, ']')
	}
	return nil
}

func (w *requestWriter) meta() *fault.Error {
	if w.r.User != "" {
		w.b = append(wirejson.AppendStringMember(append(wirejson.AppendMember(w.b, "metadata"), '{'), "user_id", w.r.User), '}')
	}
	if w.r.CacheKey != "" {
		if f := w.c.Dropped(llm.FeatureCacheKey, w.at(llm.FeatureCacheKey)); f != nil {
			return f
		}
	}
	for _, e := range w.kept {
		switch e.Field {
		case "max_tokens", "thinking", "thinking.block_binding", "output_config.task_budget": // written elsewhere
		default:
			w.b = wirejson.AppendRawMember(w.b, e.Field, e.Raw)
		}
	}
	return nil
}

// sampling writes what the model's and the version's rules allow of temperature, top_p
// and top_k. What is not stated and what has no effect is left out without a word.
func (w *requestWriter) sampling() *fault.Error {
	r := w.r
	refused := w.c.Compat.GetNoSampling()
	thinks := w.think.on() && !w.own
	if f := w.temperature(refused || thinks); f != nil {
		return f
	}
	if p := r.TopP; p != "" && valueOf(p) != 1 {
		if refused || thinks && valueOf(p) < 0.95 {
			if f := w.c.Dropped(llm.FeatureTopP, w.at(llm.FeatureTopP)); f != nil {
				return f
			}
		} else {
			w.b = wirejson.AppendRawMember(w.b, "top_p", []byte(p))
		}
	} else if p != "" && w.own && !refused {
		w.b = wirejson.AppendRawMember(w.b, "top_p", []byte(p))
	}
	if r.TopK == "" {
		return nil
	}
	if refused || thinks {
		return w.c.Dropped(llm.FeatureTopK, w.at(llm.FeatureTopK))
	}
	w.b = wirejson.AppendRawMember(w.b, "top_k", []byte(r.TopK))
	return nil
}

func (w *requestWriter) temperature(refused bool) *fault.Error {
	t := w.r.Temperature
	v := valueOf(t)
	switch {
	case t == "":
		return nil
	case w.own && !refused:
	case refused && v == 1: // the vendor's default
		return nil
	case refused:
		return w.c.Dropped(llm.FeatureTemperature, w.at(llm.FeatureTemperature))
	case v > 1:
		return w.hot()
	}
	w.b = wirejson.AppendRawMember(w.b, "temperature", []byte(t))
	return nil
}

// hot decides about a temperature above 1, the most that the protocol takes. It is
// never lowered unless the caller said so: another scale makes other answers.
func (w *requestWriter) hot() *fault.Error {
	at := w.at(llm.FeatureTemperature)
	if w.c.Options.Action(w.c.From, llm.FeatureTemperature) == 0 {
		return &fault.Error{
			Class: fault.RequestNotSupported,
			Param: at,
			Public: "The field " + at + " is " + string(w.r.Temperature) + ", but the protocol in which this model is served takes at most 1. Send at most 1, or declare with the header x-gateway-options: " +
				string(w.c.From) + ".temperature=substitute that 1 may be sent instead, or =drop that it may be left out.",
		}
	}
	action, f := w.c.Lose(llm.FeatureTemperature, at)
	if f == nil && action == protocol.Substitute {
		w.b = append(w.b, `,"temperature":1`...)
	}
	return f
}

func valueOf(n llm.Number) float64 {
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return 0
	}
	return v
}
