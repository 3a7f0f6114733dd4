package gemini

import (
	"bytes"
	"io"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// maxStash is the largest chunk that is kept for reading its usage later, in bytes.
const maxStash = 16 << 10

// NewStream returns a decoder of streamed chunks. Usage is always reported, so it
// does not matter who asked. The protocol has no event that ends a stream:
// Terminated is true from the chunk with a finish reason on, which need not be
// the last, and no event is Terminal.
func (*Codec) NewStream(bool) protocol.StreamDecoder { return new(stream) }

// ReadAnswer reads an answer, or an array of partial ones.
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
	shaped := true
	switch d.r.Kind() {
	case '{':
		d.chunk()
	case '[':
		d.r.Enter('[')
		for d.r.Next() {
			d.chunk()
		}
	default:
		shaped = false
	}
	return d.Answer(&d.r, shaped)
}

type stream struct {
	state
	r wirejson.Reader
}

// state is all that belongs to one answer.
type state struct {
	protocol.Seen
	called bool   // a function call was seen: a later STOP means it is to be run
	stash  []byte // the last chunk with usage, not read yet
}

var (
	errorName  = []byte(`"error"`)
	finishName = []byte(`"finishReason"`)
	callName   = []byte(`"functionCall"`)
	usageName  = []byte(`"usageMetadata"`)
	textName   = []byte(`"text"`)
)

// Observe takes the next frame.
func (d *stream) Observe(f sse.Frame) protocol.Observation {
	if len(bytes.TrimSpace(f.Data)) == 0 {
		return protocol.Observation{Kind: protocol.Ping}
	}
	if f.Tail && !bytes.HasSuffix(bytes.TrimSpace(f.Data), []byte("}")) { // half an event is no end
		return protocol.Observation{Kind: protocol.Other}
	}
	if d.Begun && !worthReading(f.Data) {
		d.skim(f.Data)
		return protocol.Observation{Kind: protocol.Semantic}
	}
	d.readStash()
	d.r.ResetLenient(f.Data)
	found := d.chunk()
	err := d.r.Done()
	d.r.Release()
	switch {
	case d.Failed:
		return protocol.Observation{Kind: protocol.Error, Fault: protocol.ClassifyError(d.Failure, 0, nil, time.Time{})}
	case err != nil && !d.Begun:
		return protocol.Observation{Kind: protocol.Error, Fault: fault.Wrap(fault.Malformed, err)}
	case !d.Begun && !found.content && d.How.Reason == llm.StopMalformedCall:
		// Nothing but a call the model botched: another attempt may do better.
		return protocol.Observation{Kind: protocol.Error, Fault: &fault.Error{Class: fault.Malformed, UpstreamCode: d.How.Native}}
	case found.content || found.finish:
		d.Begun = true
		return protocol.Observation{Kind: protocol.Semantic}
	case d.Begun:
		return protocol.Observation{Kind: protocol.Other}
	}
	return protocol.Observation{Kind: protocol.Lifecycle}
}

// Usage is the usage reported last.
func (d *stream) Usage() (llm.Usage, bool) {
	d.readStash()
	return d.Seen.Usage()
}

// worthReading reports whether a chunk holds more than text and usage. A chunk with
// a function call is read properly because its arguments are JSON of the model's
// choosing, in which a name proves nothing.
func worthReading(data []byte) bool {
	return bytes.Contains(data, finishName) || bytes.Contains(data, callName) || wirejson.Find(data, errorName) != nil
}

// skim counts the text of a chunk and keeps it if it holds usage: usage comes with
// most chunks, counts up, and only the last one matters.
func (d *stream) skim(data []byte) {
	for rest := wirejson.Find(data, textName); rest != nil; rest = wirejson.Find(rest, textName) {
		raw, after, ok := wirejson.StringAt(rest)
		if !ok {
			break
		}
		d.Text += int64(wirejson.TextLen(raw))
		rest = after
	}
	if v := wirejson.Find(data, usageName); v == nil || v[0] != '{' {
		return
	}
	if len(data) > maxStash {
		d.readUsage(data)
		d.stash = d.stash[:0]
		return
	}
	d.stash = append(d.stash[:0], data...)
}

func (d *stream) readStash() {
	if len(d.stash) > 0 {
		d.readUsage(d.stash)
		d.stash = d.stash[:0]
	}
}

// readUsage reads only the usage of a chunk.
func (d *stream) readUsage(data []byte) {
	r := &d.r
	r.ResetLenient(data)
	if r.Enter('{') {
		for r.Next() {
			if string(r.Name()) == "usageMetadata" {
				d.usage()
			}
		}
	}
	r.Release()
}

// contents is what a chunk held.
type contents struct{ content, finish bool }

func (d *stream) chunk() (found contents) {
	r := &d.r
	if !r.Enter('{') {
		return found
	}
	for r.Next() {
		switch string(r.Name()) {
		case "responseId":
			d.Keep(r, &d.ID)
		case "modelVersion":
			d.Keep(r, &d.Model)
		case "candidates":
			if r.Enter('[') {
				for r.Next() {
					d.candidate(&found)
				}
			}
		case "promptFeedback":
			if r.Enter('{') {
				for r.Next() {
					if string(r.Name()) == "blockReason" {
						if word, ok := r.String(64); ok && word != "" && !strings.HasSuffix(word, "_UNSPECIFIED") {
							found.finish, d.Ended = true, true
							d.How = llm.Stop{Reason: llm.StopContentFilter, Native: word}
						}
					}
				}
			}
		case "usageMetadata":
			d.usage()
		case "error":
			d.Failed = d.Failure.ReadMember(r) || d.Failed
		}
	}
	if d.called && d.How.Reason == llm.StopEnd {
		d.How.Reason = llm.StopToolUse // the reason may stand before the parts
	}
	return found
}

func (d *stream) candidate(found *contents) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "content":
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				if string(r.Name()) == "parts" && r.Enter('[') {
					for r.Next() {
						if d.part() {
							found.content = true
						}
					}
				}
			}
		case "finishReason":
			if word, ok := r.String(64); ok && word != "" && !strings.HasSuffix(word, "_UNSPECIFIED") {
				found.finish, d.Ended = true, true
				d.How = llm.Stop{Reason: reasonOf(word), Native: word}
			}
		}
	}
}

// part reads a part and reports whether it is content; an empty text is none.
func (d *stream) part() (content bool) {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "text":
			n, _ := r.Len()
			d.Text += n
			content = content || n > 0
		case "functionCall":
			content, d.called = true, true
			d.call()
		case "inlineData", "fileData", "executableCode", "codeExecutionResult":
			content = true
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
		if string(r.Name()) == "args" {
			d.values()
		}
	}
}

// values counts the texts in a call's arguments, which are an object and not a text.
func (d *stream) values() {
	r := &d.r
	switch kind := r.Kind(); kind {
	case '{', '[':
		r.Enter(kind)
		for r.Next() {
			if kind == '{' {
				d.Text += int64(len(r.Name()))
			}
			d.values()
		}
	case '"':
		d.AddText(r)
	default:
		d.Text += int64(len(r.Raw()))
	}
}

// usage reads usageMetadata, which replaces what an earlier chunk said. The
// prompt's count includes cached tokens; those of tools come on top of it, as do
// thoughts on top of the candidates'.
func (d *stream) usage() {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	var prompt, tools, candidates, thoughts int64
	var p llm.Prompt
	var c llm.Completion
	counted := false
	take := func(to *int64) {
		if n, ok := r.Int(); ok {
			*to, counted = n, true
		}
	}
	for r.Next() {
		switch string(r.Name()) {
		case "promptTokenCount":
			take(&prompt)
		case "toolUsePromptTokenCount":
			take(&tools)
		case "cachedContentTokenCount":
			take(&p.CacheRead)
		case "candidatesTokenCount":
			take(&candidates)
		case "thoughtsTokenCount":
			take(&thoughts)
		case "promptTokensDetails", "toolUsePromptTokensDetails":
			d.modalities(&p.Audio, &p.Image)
		case "cacheTokensDetails":
			d.modalities(&p.CachedAudio, &p.CachedImage)
		case "candidatesTokensDetails":
			d.modalities(&c.Audio, &c.Image)
		}
	}
	if !counted {
		return
	}
	p.Total = prompt + tools
	c.Total, c.Reasoning = candidates+thoughts, thoughts
	d.Tokens.SetPrompt(p)
	d.Tokens.SetCompletion(c)
	d.Reported = true
}

// modalities adds up a list of counts by modality.
func (d *stream) modalities(audio, image *int64) {
	r := &d.r
	if !r.Enter('[') {
		return
	}
	for r.Next() {
		kind, n := "", int64(0)
		if r.Enter('{') {
			for r.Next() {
				switch string(r.Name()) {
				case "modality":
					kind, _ = r.String(32)
				case "tokenCount":
					n, _ = r.Int()
				}
			}
		}
		switch kind {
		case "AUDIO":
			*audio += n
		case "IMAGE", "VIDEO":
			*image += n
		}
	}
}

func reasonOf(word string) llm.StopReason {
	switch word {
	case "STOP":
		return llm.StopEnd
	case "MAX_TOKENS":
		return llm.StopMaxTokens
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER":
		return llm.StopContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return llm.StopMalformedCall
	case "CONTINUATION":
		return llm.StopPause
	}
	return llm.StopUnknown
}
