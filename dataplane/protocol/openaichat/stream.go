package openaichat

import (
	"io"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaiusage"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// NewStream returns a decoder of Chat chunks. Unless the caller asked for usage,
// the chunk that carries nothing else is UsageOnly.
//
// Terminated is true after [DONE]. Servers that never send it are told by
// Stop().Native, which is set once a finish_reason was seen.
func (*Codec) NewStream(asked bool) protocol.StreamDecoder {
	return &stream{state: state{asked: asked}}
}

// ReadAnswer reads a chat completion.
func (c *Codec) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	d, _ := c.answers.Get().(*stream)
	if d == nil {
		d = new(stream)
	}
	defer func() {
		d.state = state{}
		d.r.Release()
		c.answers.Put(d)
	}()
	d.r.ResetStream(src)
	found := d.chunk()
	return d.Answer(&d.r, found.object)
}

type stream struct {
	state
	r wirejson.Reader
}

// state is all that belongs to one answer.
type state struct {
	protocol.Seen
	asked bool
}

// Observe takes the next frame.
func (d *stream) Observe(f sse.Frame) protocol.Observation {
	switch {
	case f.Empty():
		return protocol.Observation{Kind: protocol.Ping}
	case string(f.Event) == "error":
		info, _ := protocol.ParseError(f.Data)
		return failed(info)
	case len(f.Data) < 32 && sse.IsDone(f.Data):
		d.Ended = true
		return protocol.Observation{Kind: protocol.Terminal}
	case d.Begun && !worthReading(f.Data):
		d.count(f.Data)
		return protocol.Observation{Kind: protocol.Semantic}
	}
	d.r.ResetLenient(f.Data)
	found := d.chunk()
	err := d.r.Done()
	d.r.Release()
	switch {
	case d.Failed:
		return failed(d.Failure)
	case err != nil && !d.Begun:
		return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
	case found.content || found.finish:
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	case found.usage && found.choices == 0 && !d.asked:
		return protocol.Observation{Kind: protocol.UsageOnly}
	case found.usage && found.choices == 0, d.Begun:
		return protocol.Observation{Kind: protocol.Other}
	}
	return protocol.Observation{Kind: protocol.Lifecycle}
}

func failed(info protocol.ErrorInfo) protocol.Observation {
	return protocol.Observation{Kind: protocol.Error, Fault: protocol.ClassifyError(info, 0, nil, time.Time{})}
}

var (
	finishName = []byte(`"finish_reason"`)
	usageName  = []byte(`"usage"`)
	errorName  = []byte(`"error"`)
	deltaName  = []byte(`"delta"`)

	// textNames are the members of a delta that hold output, the usual one first.
	textNames = [][]byte{[]byte(`"content"`), []byte(`"arguments"`), []byte(`"reasoning_content"`), []byte(`"reasoning"`), []byte(`"refusal"`)}
)

// worthReading reports whether a chunk holds more than a piece of content.
func worthReading(data []byte) bool {
	if v := wirejson.Find(data, finishName); v != nil && v[0] == '"' {
		return true
	}
	if v := wirejson.Find(data, usageName); v != nil && v[0] == '{' {
		return true
	}
	v := wirejson.Find(data, errorName)
	return v != nil && v[0] != 'n'
}

// count adds the text of the first output member that is not empty. Chunks hold
// one; where a server packs several, the rest goes uncounted, which only makes
// an estimate lower.
func (d *stream) count(data []byte) {
	delta := wirejson.Find(data, deltaName)
	if delta == nil {
		return
	}
	for _, name := range textNames {
		if raw, _, ok := wirejson.StringAt(wirejson.Find(delta, name)); ok && len(raw) > 0 {
			d.Text += int64(wirejson.TextLen(raw))
			return
		}
	}
}

// contents is what a chunk or completion held.
type contents struct {
	object                 bool // there was an object at all
	content, finish, usage bool
	choices                int
}

// chunk reads a chunk or a whole completion; they differ in delta and message alone.
func (d *stream) chunk() (found contents) {
	r := &d.r
	if !r.Enter('{') {
		return found
	}
	found.object = true
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			d.Keep(r, &d.ID)
		case "model":
			d.Keep(r, &d.Model)
		case "choices":
			if r.Enter('[') {
				for r.Next() {
					found.choices++
					d.choice(&found)
				}
			}
		case "usage":
			if r.Kind() == '{' {
				found.usage = d.usage()
			}
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		}
	}
	return found
}

func (d *stream) choice(found *contents) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "delta", "message":
			if d.message() {
				found.content = true
			}
		case "text": // legacy completions in chat clothes
			if n, ok := r.Len(); ok && n > 0 {
				d.Text += n
				found.content = true
			}
		case "finish_reason":
			if word, ok := r.String(64); ok && word != "" {
				found.finish = true
				d.How = llm.Stop{Reason: reasonOf(word), Native: word}
			}
		}
	}
}

// message reads a delta or a message and reports whether it holds content.
func (d *stream) message() (content bool) {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "role":
		case "content", "refusal", "reasoning_content", "reasoning":
			switch r.Kind() {
			case '"':
				n, _ := r.Len()
				d.Text += n
				content = content || n > 0
			case '[', '{':
				content = true
			}
		case "tool_calls":
			if r.Enter('[') {
				for r.Next() {
					content = true
					d.call()
				}
			}
		case "function_call", "audio", "images", "reasoning_details", "annotations":
			if k := r.Kind(); k == '{' || k == '[' {
				content = true
			}
		}
	}
	return content
}

func (d *stream) call() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "function", "custom":
			if r.Enter('{') {
				for r.Next() {
					switch string(r.Name()) {
					case "arguments", "input":
						d.AddText(r)
					}
				}
			}
		}
	}
}

// usage reads a usage object, which replaces an earlier one: servers that report
// in every chunk count up. It reports whether it held a count.
func (d *stream) usage() bool {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	var p llm.Prompt
	var c llm.Completion
	hit, counted := int64(0), false
	for r.Next() {
		switch string(r.Name()) {
		case "prompt_tokens":
			n, ok := r.Int()
			p.Total, counted = n, counted || ok
		case "completion_tokens":
			n, ok := r.Int()
			c.Total, counted = n, counted || ok
		case "prompt_cache_hit_tokens": // a compatible server's name for cached tokens
			hit, _ = r.Int()
		case "prompt_tokens_details":
			openaiusage.PromptDetails(r, &p)
		case "completion_tokens_details":
			openaiusage.CompletionDetails(r, &c)
		}
	}
	if !counted {
		return false
	}
	if p.CacheRead == 0 {
		p.CacheRead = hit
	}
	d.Tokens.SetPrompt(p)
	d.Tokens.SetCompletion(c)
	d.Reported = true
	return true
}

func reasonOf(word string) llm.StopReason {
	switch word {
	case "stop":
		return llm.StopEnd
	case "tool_calls", "function_call":
		return llm.StopToolUse
	case "length":
		return llm.StopMaxTokens
	case "content_filter":
		return llm.StopContentFilter
	}
	return llm.StopUnknown
}
