package endpoint

import (
	"errors"
	"io"
	"math"
	"strconv"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaiusage"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// ReadAnswer reads a whole answer to its end: what the provider says it cost, and
// where it says nothing, what the call came to by the gateway's own count, which is
// then not UsageReported.
func (c *Call) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	if c.opaque() {
		return c.readOpaque(src)
	}
	r := new(wirejson.Reader)
	defer r.Release()
	r.ResetStream(src)
	var a account
	object := a.read(r)
	a.settle(c)
	return a.Answer(r, object)
}

// opaque reports answers that are no JSON: sound, moving pictures, a plain transcript.
func (c *Call) opaque() bool {
	switch c.target.Op {
	case protocol.OpSpeech, protocol.OpVideoContent:
		return true
	case protocol.OpTranscribe, protocol.OpTranslate:
		return c.ask.format == "text" || c.ask.format == "srt" || c.ask.format == "vtt"
	}
	return false
}

// readOpaque reads an answer that says nothing of its cost. How long speech lasts is
// estimated by its bytes.
func (c *Call) readOpaque(src io.Reader) (protocol.Answer, *fault.Error) {
	a := protocol.Answer{Usage: c.Estimate()}
	head := make([]byte, soundHead)
	n, err := io.ReadFull(src, head)
	size := int64(n)
	if err == nil {
		var more int64
		more, err = io.Copy(io.Discard, src)
		size += more
	} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if c.target.Op == protocol.OpSpeech && size > 0 {
		a.Usage.AudioSeconds = soundLength(c.ask.format, head[:n], size)
	}
	if err != nil {
		return a, fault.Wrap(fault.Reset, err)
	}
	return a, nil
}

// account is what an answer of any of the endpoints tells of itself. The names do not
// collide, so that one reader serves all.
type account struct {
	protocol.Seen

	prompt     llm.Prompt
	completion llm.Completion
	kind       string  // what the object is, as OpenAI's answers say
	total      int64   // tokens, where only their sum is told
	counted    bool    // tokens were told
	seconds    float64 // of audio, as the usage has it
	duration   float64 // of audio, as the transcript has it
	length     float64 // of a video
	search     int64   // search units
	things     int64   // pictures, or whatever else the answer is a list of
	tokens     int64   // the answer of a count
	measured   bool    // there was one
}

// read reads the object that comes next and reports whether there was one.
func (a *account) read(r *wirejson.Reader) (object bool) {
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "error":
			a.Failed = a.Failure.ReadMember(r) || a.Failed
		case "model", "modelVersion":
			a.Keep(r, &a.Model)
		case "id", "name":
			a.Keep(r, &a.ID)
		case "object":
			a.kind, _ = r.String(64)
		case "usage":
			a.usage(r)
		case "usageMetadata":
			a.usageMetadata(r)
		case "meta": // Cohere
			a.meta(r)
		case "data", "predictions":
			a.things += elements(r)
		case "duration":
			a.duration = number(r)
		case "seconds":
			a.length = number(r)
		case "input_tokens", "totalTokens":
			a.tokens, a.measured = r.Int()
		}
	}
	return true
}

// usage reads the usage object of OpenAI and of those who answer like it.
func (a *account) usage(r *wirejson.Reader) {
	take := func(to *int64) {
		if n, ok := r.Int(); ok {
			*to, a.counted = n, true
		}
	}
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "prompt_tokens", "input_tokens":
			take(&a.prompt.Total)
		case "completion_tokens", "output_tokens":
			take(&a.completion.Total)
		case "total_tokens":
			take(&a.total)
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			openaiusage.PromptDetails(r, &a.prompt)
		case "completion_tokens_details", "output_tokens_details":
			openaiusage.CompletionDetails(r, &a.completion)
		case "seconds":
			a.seconds = number(r)
		}
	}
}

func (a *account) usageMetadata(r *wirejson.Reader) {
	for ok := r.Enter('{'); ok && r.Next(); {
		switch string(r.Name()) {
		case "promptTokenCount":
			if n, ok := r.Int(); ok {
				a.prompt.Total, a.counted = n, true
			}
		case "totalTokenCount":
			a.total, _ = r.Int()
		}
	}
}

func (a *account) meta(r *wirejson.Reader) {
	for ok := r.Enter('{'); ok && r.Next(); {
		if string(r.Name()) != "billed_units" {
			continue
		}
		for in := r.Enter('{'); in && r.Next(); {
			if string(r.Name()) == "search_units" {
				a.search = int64(math.Ceil(number(r)))
			}
		}
	}
}

// settle makes a usage of what was told, in the units by which the operation is sold.
func (a *account) settle(c *Call) {
	switch c.target.Op {
	case protocol.OpImage, protocol.OpImageEdit, protocol.OpImageVariation, protocol.OpPredict:
		made := a.completion
		if made.Image == 0 && made.Reasoning == 0 {
			made.Image = made.Total // all that is made is pictures, unless it is told apart
		}
		if a.settleTokens(made); !a.Reported && a.things > 0 {
			a.Tokens = llm.Usage{Images: a.things}
			return
		}
	case protocol.OpSpeech:
		a.settleTokens(llm.Completion{Total: a.completion.Total, Audio: a.completion.Total})
	case protocol.OpTranscribe, protocol.OpTranslate:
		a.settleTokens(a.completion)
		if heard := max(a.seconds, a.duration); !a.Reported && heard > 0 {
			a.Tokens, a.Reported = llm.Usage{AudioSeconds: int64(math.Ceil(heard))}, true
		}
	case protocol.OpVideo, protocol.OpVideoRemix:
		if a.length > 0 {
			a.Tokens, a.Reported = llm.Usage{VideoSeconds: int64(math.Ceil(a.length))}, true
		}
	case protocol.OpRerank:
		if a.search > 0 {
			a.Tokens, a.Reported = llm.Usage{Calls: a.search}, true
			break
		}
		a.settleTokens(a.completion)
	case protocol.OpEmbed, protocol.OpEmbedBatch, protocol.OpModerate, protocol.OpCompact:
		a.settleTokens(a.completion)
	}
	if !a.Reported && !a.Failed {
		a.Tokens = c.Estimate()
	}
}

// settleTokens takes tokens, where the provider told any.
func (a *account) settleTokens(made llm.Completion) {
	if !a.counted {
		return
	}
	a.Reported = true
	if a.prompt.Total == 0 {
		a.prompt.Total = max(a.total-made.Total, 0)
	}
	a.Tokens.SetPrompt(a.prompt)
	a.Tokens.SetCompletion(made)
}

// elements reads a list and returns how many elements it has.
func elements(r *wirejson.Reader) (n int64) {
	for ok := r.Enter('['); ok && r.Next(); {
		n++
	}
	return n
}

// number reads a number, which some write as a text; 0 if it is neither.
func number(r *wirejson.Reader) float64 {
	text := ""
	switch r.Kind() {
	case '0':
		text = string(r.Raw())
	case '"':
		text, _ = r.String(32)
	default:
		r.Skip()
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e9 {
		return 0
	}
	return n
}
