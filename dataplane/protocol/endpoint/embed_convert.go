package endpoint

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// maxGeminiBatch is how many texts Gemini embeds at once, as its API says in the
// refusal of more.
const maxGeminiBatch = 100

// embedding is what both protocols have of an embeddings request. Texts are JSON
// strings as they came.
type embedding struct {
	texts      [][]byte
	dimensions int64 // 0 if not stated
	base64     bool
	told       bool // the provider told the usage
}

// embedToGemini makes OpenAI's request one of Gemini's.
func (c *Call) embedToGemini(body []byte, to To, conv *protocol.Conversion) (*protocol.Converted, *fault.Error) {
	e, f := readOpenAIEmbed(body, conv)
	switch {
	case f != nil:
		return nil, f
	case len(e.texts) > maxGeminiBatch:
		return nil, &fault.Error{
			Class: fault.RequestNotSupported, Param: "input",
			Public: fmt.Sprintf("This model is served by Gemini, which embeds at most %d texts at once; the request has %d. Send several requests.", maxGeminiBatch, len(e.texts)),
		}
	}
	t := protocol.Target{Protocol: protocol.Gemini, Op: protocol.OpEmbed, Model: to.Model, Version: "v1beta"}
	up := c.upstream(to, t)
	var out []byte
	if len(e.texts) == 1 {
		out = appendGeminiEmbed(nil, up.resource(to.Model), e.texts[0], e.dimensions)
	} else {
		up.target.Op = protocol.OpEmbedBatch
		out = append(out, `{"requests":[`...)
		for _, text := range e.texts {
			out = appendGeminiEmbed(wirejson.AppendElement(out), up.resource(to.Model), text, e.dimensions)
		}
		out = append(out, "]}"...)
	}
	return &protocol.Converted{
		Codec: up, Target: up.target, Body: out,
		Answer: func(answer []byte) ([]byte, *fault.Error) { return c.openAIEmbeddings(answer, e, to.Public) },
		Lossy: func() string {
			if !e.told {
				conv.LoseAnswer(featureUsage)
			}
			return conv.LossyHeader()
		},
	}, nil
}

func appendGeminiEmbed(b []byte, model string, text []byte, dimensions int64) []byte {
	b = wirejson.AppendStringMember(append(b, '{'), "model", model)
	b = append(wirejson.AppendMember(b, "content"), `{"parts":[{"text":`...)
	b = append(append(b, text...), "}]}"...)
	if dimensions > 0 {
		b = wirejson.AppendIntMember(b, "outputDimensionality", dimensions)
	}
	return append(b, '}')
}

// readOpenAIEmbed reads an OpenAI request for another protocol.
func readOpenAIEmbed(body []byte, conv *protocol.Conversion) (*embedding, *fault.Error) {
	var e embedding
	var f *fault.Error
	fail := func(bad *fault.Error) {
		if f == nil {
			f = bad
		}
	}
	r := new(wirejson.Reader)
	r.ResetStrict(body)
	for ok := r.Enter('{'); ok && r.Next(); {
		switch name := string(r.Name()); name {
		case "model":
		case "input":
			fail(e.inputs(r))
		case "dimensions":
			if r.Null() {
				continue
			}
			n, ok := r.Int()
			if !ok || n < 1 {
				fail(invalid(name, "The member dimensions must be a number above 0."))
			}
			e.dimensions = n
		case "encoding_format":
			if r.Null() {
				continue
			}
			switch format, _ := r.String(16); format {
			case "float":
			case "base64":
				e.base64 = true
			default:
				fail(invalid(name, "The member encoding_format must be float or base64."))
			}
		case "user":
			fail(conv.Dropped(llm.FeatureUser, name))
		case "gateway":
		default:
			fail(conv.Dropped(llm.FeatureUnknown, name))
		}
	}
	if f != nil {
		return nil, f
	}
	if r.Done() != nil || len(e.texts) == 0 {
		return nil, invalid("input", "The member input holds no text.")
	}
	return &e, nil
}

func (e *embedding) inputs(r *wirejson.Reader) *fault.Error {
	take := func() *fault.Error {
		if r.Kind() != '"' {
			return &fault.Error{
				Class: fault.RequestNotSupported, Param: "input",
				Public: "This model is served in a protocol that takes texts alone, and the input has token ids, which only the model that they are for can read. Send the text.",
			}
		}
		e.texts = append(e.texts, r.Value())
		return nil
	}
	if r.Kind() != '[' {
		return take()
	}
	for ok := r.Enter('['); ok && r.Next(); {
		if f := take(); f != nil {
			return f
		}
	}
	return nil
}

// openAIEmbeddings makes OpenAI's answer of Gemini's. The usage in it is the gateway's
// estimate unless the provider told one.
func (c *Call) openAIEmbeddings(answer []byte, e *embedding, public string) ([]byte, *fault.Error) {
	out := append(make([]byte, 0, len(answer)+256), `{"object":"list","data":[`...)
	n, tokens := 0, c.ask.tokens
	r := new(wirejson.Reader)
	r.ResetLenient(answer)
	one := func() {
		out = wirejson.AppendIntMember(append(wirejson.AppendElement(out), `{"object":"embedding"`...), "index", int64(n))
		out = appendVector(wirejson.AppendMember(out, "embedding"), r, "values", e.base64)
		out = append(out, '}')
		n++
	}
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "embedding":
			one()
		case "embeddings":
			for in := r.Enter('['); in && r.Next(); {
				one()
			}
		case "usageMetadata":
			var a account
			if a.usageMetadata(r); a.counted {
				tokens, e.told = a.prompt.Total, true
			}
		}
	}
	if f := complete(r, n, len(e.texts)); f != nil {
		return nil, f
	}
	out = wirejson.AppendStringMember(append(out, ']'), "model", public)
	out = append(wirejson.AppendMember(out, "usage"), '{')
	out = wirejson.AppendIntMember(out, "prompt_tokens", tokens)
	return append(wirejson.AppendIntMember(out, "total_tokens", tokens), "}}"...), nil
}

// appendVector reads a list of numbers, which may be a member of an object, and appends
// it as JSON or as base64 of little-endian float32 values.
func appendVector(out []byte, r *wirejson.Reader, member string, asBase64 bool) []byte {
	var packed []byte
	list := func() {
		if r.Kind() == '"' { // base64 already, from a server that knows nothing else
			text, _ := r.String(math.MaxInt)
			packed, _ = base64.StdEncoding.DecodeString(text)
			return
		}
		for ok := r.Enter('['); ok && r.Next(); {
			number := r.Raw()
			if asBase64 {
				v, _ := strconv.ParseFloat(string(number), 32) // what is no number is 0
				packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(v)))
				continue
			}
			out = append(wirejson.AppendElement(out), number...)
		}
	}
	if !asBase64 {
		out = append(out, '[')
	}
	if member == "" {
		list()
	}
	for ok := member != "" && r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) == member {
			list()
		}
	}
	if asBase64 {
		return wirejson.AppendString(out, base64.StdEncoding.EncodeToString(packed))
	}
	for ; len(packed) >= 4; packed = packed[4:] {
		v := math.Float32frombits(binary.LittleEndian.Uint32(packed))
		out = strconv.AppendFloat(wirejson.AppendElement(out), float64(v), 'g', -1, 32)
	}
	return append(out, ']')
}

// embedToOpenAI makes Gemini's request one of OpenAI's.
func (c *Call) embedToOpenAI(body []byte, to To, conv *protocol.Conversion) (*protocol.Converted, *fault.Error) {
	g := geminiEmbed{conv: conv}
	r := new(wirejson.Reader)
	r.ResetStrict(body)
	if c.target.Op == protocol.OpEmbed {
		g.request(r, "")
	} else {
		for ok := r.Enter('{'); ok && r.Next(); {
			switch name := string(r.Name()); name {
			case "requests":
				n := 0
				for in := r.Enter('['); in && r.Next(); n++ { //nolint:staticcheck // SA4008: ok only guards the entry
					g.request(r, fmt.Sprintf("requests[%d].", n))
				}
			case "gateway":
			default:
				g.fail(conv.Dropped(llm.FeatureUnknown, name))
			}
		}
	}
	if g.fault == nil && (r.Done() != nil || len(g.texts) == 0) {
		g.fail(invalid("content", "The request holds no text."))
	}
	if g.fault != nil {
		return nil, g.fault
	}
	out := wirejson.AppendStringMember([]byte{'{'}, "model", to.Model)
	out = append(wirejson.AppendMember(out, "input"), '[')
	for _, text := range g.texts {
		out = append(wirejson.AppendElement(out), text...)
	}
	out = wirejson.AppendStringMember(append(out, ']'), "encoding_format", "float")
	if g.dimensions > 0 {
		out = wirejson.AppendIntMember(out, "dimensions", g.dimensions)
	}
	t := protocol.Target{Protocol: protocol.OpenAIChat, Op: protocol.OpEmbed}
	return &protocol.Converted{
		Codec: c.upstream(to, t), Target: t, Body: append(out, '}'),
		Answer: func(answer []byte) ([]byte, *fault.Error) { return c.geminiEmbeddings(answer, len(g.texts)) },
		Lossy:  conv.LossyHeader,
	}, nil
}

// geminiEmbed gathers the requests of one call, which OpenAI can answer together only if
// they want vectors of one size.
type geminiEmbed struct {
	embedding
	conv  *protocol.Conversion
	sized bool // the size was looked at
	fault *fault.Error
}

func (g *geminiEmbed) fail(f *fault.Error) {
	if g.fault == nil {
		g.fault = f
	}
}

// request reads one request, whose fields are named after where it stands.
func (g *geminiEmbed) request(r *wirejson.Reader, where string) {
	var text []byte
	size := int64(0)
	for ok := r.Enter('{'); ok && r.Next(); {
		switch name := string(r.Name()); name {
		case "model", "gateway":
		case "content":
			text = g.content(r, where+name)
		case "taskType", "task_type":
			if kind, ok := r.String(64); ok && kind != "" && kind != "TASK_TYPE_UNSPECIFIED" {
				g.fail(g.conv.Dropped(featureTaskType, where+name))
			}
		case "title":
			g.fail(g.conv.Dropped(featureTitle, where+name))
		case "outputDimensionality", "output_dimensionality":
			size, _ = r.Int()
		default:
			g.fail(g.conv.Dropped(llm.FeatureUnknown, where+name))
		}
	}
	if len(text) == 0 {
		g.fail(invalid(where+"content", "The content holds no text."))
	}
	if g.sized && size != g.dimensions {
		g.fail(&fault.Error{
			Class: fault.RequestNotSupported, Param: where + "outputDimensionality",
			Public: "This model is served by OpenAI's protocol, which makes vectors of one size in a request. Send a request for each size.",
		})
	}
	g.texts, g.dimensions, g.sized = append(g.texts, text), size, true
}

// content is the text of all parts as one JSON string, a line for each.
func (g *geminiEmbed) content(r *wirejson.Reader, field string) []byte {
	var all []byte
	n := 0
	part := func() {
		for ok := r.Enter('{'); ok && r.Next(); {
			switch name := string(r.Name()); name {
			case "text":
				if n++; n > 1 {
					all = append(all, '\n')
				}
				all, _ = r.AppendText(all)
			default:
				g.fail(&fault.Error{
					Class: fault.RequestNotSupported, Param: field,
					Public: "This model is served by OpenAI's protocol, which embeds texts alone; the content has a part with " + name + ".",
				})
			}
		}
	}
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "parts" {
			continue // the role says nothing
		}
		if r.Kind() == '{' {
			part()
			continue
		}
		for in := r.Enter('['); in && r.Next(); {
			part()
		}
	}
	if n == 0 {
		return nil
	}
	return wirejson.AppendText(nil, all)
}

// geminiEmbeddings makes Gemini's answer of OpenAI's, in the order of the indexes.
func (c *Call) geminiEmbeddings(answer []byte, want int) ([]byte, *fault.Error) {
	vectors := make([][]byte, want)
	r := new(wirejson.Reader)
	r.ResetLenient(answer)
	n := 0
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "data" {
			continue
		}
		for in := r.Enter('['); in && r.Next(); n++ { //nolint:staticcheck // SA4008: ok only guards the entry
			at := int64(n)
			var vector []byte
			for each := r.Enter('{'); each && r.Next(); {
				switch string(r.Name()) {
				case "index":
					at, _ = r.Int()
				case "embedding":
					vector = appendVector(nil, r, "", false)
				}
			}
			if at >= 0 && at < int64(want) {
				vectors[at] = vector
			}
		}
	}
	if f := complete(r, n, want); f != nil {
		return nil, f
	}
	batch := c.target.Op == protocol.OpEmbedBatch
	out := make([]byte, 0, len(answer))
	if batch {
		out = append(out, `{"embeddings":[`...)
	} else {
		out = append(out, `{"embedding":`...)
	}
	for i, v := range vectors {
		if v == nil {
			return nil, fault.Wrap(fault.Malformed, fmt.Errorf("the answer has no embedding of index %d", i))
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"values":`...), v...), '}')
	}
	if batch {
		out = append(out, ']')
	}
	return append(out, '}'), nil
}

// complete fails unless an answer was read whole and has an embedding for every text.
func complete(r *wirejson.Reader, n, want int) *fault.Error {
	if err := r.Done(); err != nil {
		return fault.Wrap(fault.Malformed, err)
	}
	if n != want {
		return fault.Wrap(fault.Malformed, fmt.Errorf("the answer has %d embeddings for %d texts", n, want))
	}
	return nil
}
