package gemini

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// EncodeAnswer writes a whole answer: the one chunk of a stream that has only one.
func (*Codec) EncodeAnswer(a *llm.Answer, c *protocol.Conversion) ([]byte, *fault.Error) {
	w := answerWriter{c: c, model: a.Model, usage: a.Usage, reported: a.Reported, stop: a.Stop}
	size := 1024
	for i := range a.Parts {
		size += len(a.Parts[i].Text) + len(a.Parts[i].Text)/16 + 128
	}
	parts := make([]byte, 0, size)
	for i := range a.Parts {
		p := &a.Parts[i]
		for k := range p.Citations {
			w.cite(&p.Citations[k], isASCII(p.Text))
		}
		var f *fault.Error
		if p.Kind == llm.PartCall {
			parts, f = w.call(parts, p.Call, p.Call.Arguments, p.State)
		} else {
			parts, f = w.part(parts, p)
		}
		if f != nil {
			return nil, f
		}
	}
	if len(parts) == 0 {
		parts = w.nothing(parts)
	}
	return w.chunk(make([]byte, 0, len(parts)+1024), parts, true), nil
}

// answerWriter writes pieces of one answer.
type answerWriter struct {
	c        *protocol.Conversion
	model    string
	usage    llm.Usage
	reported bool
	stop     llm.Stop
	sources  []llm.Citation
	called   bool // a call was told
}

// chunk writes a GenerateContentResponse with the parts; the last one has how the answer
// ended and what it cost.
func (w *answerWriter) chunk(dst, parts []byte, last bool) []byte {
	dst = append(dst, `{"candidates":[{`...)
	if len(parts) > 0 {
		dst = append(append(append(dst, `"content":{"parts":[`...), parts...), `],"role":"model"}`...)
	}
	if last {
		dst = wirejson.AppendStringMember(dst, "finishReason", finishReason(w.stop, w.c.To))
		if w.stop.Explanation != "" {
			dst = wirejson.AppendStringMember(dst, "finishMessage", w.stop.Explanation)
		}
		if w.stop.Sequence != "" {
			w.c.LoseAnswer(llm.AnswerStopWord)
		}
		if w.stop.Category != "" {
			w.c.LoseAnswer(llm.AnswerRefusalInfo)
		}
	}
	dst = wirejson.AppendIntMember(dst, "index", 0)
	if last {
		dst = w.grounding(dst)
	}
	dst = append(dst, `}]`...)
	if w.reported {
		dst = appendUsage(dst, w.usage)
	}
	model := w.model
	if model == "" {
		model = w.c.Public
	}
	dst = wirejson.AppendStringMember(dst, "modelVersion", model)
	return append(wirejson.AppendStringMember(dst, "responseId", w.c.RequestID), '}')
}

// nothing is the part of an answer that says nothing but that it is over. One that was
// blocked has no content at all, as the vendor's.
func (w *answerWriter) nothing(parts []byte) []byte {
	if finishReason(w.stop, w.c.To) != "STOP" {
		return parts
	}
	return append(parts, `{"text":""}`...)
}

// part writes any part but a call.
func (w *answerWriter) part(dst []byte, p *llm.Part) ([]byte, *fault.Error) {
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		return appendText(dst, p.Text, false, p.State), nil
	case llm.PartReasoning:
		return appendThought(dst, p.Text, p.State), nil
	case llm.PartRedacted:
		return appendThought(dst, "", p.State), nil
	case llm.PartMedia:
		return w.media(dst, p)
	case llm.PartNative:
		if w.c.To != protocol.Gemini || p.Native.Type == besides {
			w.c.LoseAnswer(llm.AnswerServerTool)
			return dst, nil
		}
		dst = append(wirejson.AppendElement(dst), '{')
		dst = wirejson.AppendRawMember(dst, p.Native.Type, p.Native.Raw)
		return appendEnd(dst, p.State), nil
	}
	return dst, nil
}

// appendThought appends something that was thought. A token has a text beside it in any
// case: Google's SDK for Go takes a part of an empty text for nothing, and throws away
// the answer that has it.
func appendThought(dst []byte, text string, s *llm.State) []byte {
	if text == "" && s != nil && stateid.IsToken(s.Data) {
		text = blank
	}
	return appendText(dst, text, true, s)
}

// appendText appends a text; nothing for an empty one without a state.
func appendText(dst []byte, text string, thought bool, s *llm.State) []byte {
	if text == "" && (s == nil || s.Data == "") {
		return dst
	}
	dst = append(wirejson.AppendElement(dst), '{')
	dst = wirejson.AppendStringMember(dst, "text", text)
	if thought {
		dst = wirejson.AppendBoolMember(dst, "thought", true)
	}
	return appendEnd(dst, s)
}

// appendEnd ends a part with its signature.
func appendEnd(dst []byte, s *llm.State) []byte {
	if s != nil && s.Data != "" {
		dst = wirejson.AppendStringMember(dst, "thoughtSignature", wrapToken(s.Data))
	}
	return append(dst, '}')
}

func (w *answerWriter) media(dst []byte, p *llm.Part) ([]byte, *fault.Error) {
	m := p.Media
	mime := m.MIME
	dst = append(wirejson.AppendElement(dst), '{')
	switch {
	case m.Data != "":
		if mime == "" {
			mime = mimeOfData(m)
		}
		dst = append(wirejson.AppendMember(dst, "inlineData"), '{')
		dst = wirejson.AppendStringMember(dst, "mimeType", mime)
		dst = wirejson.AppendStringMember(dst, "data", m.Data)
	case m.URL != "":
		if mime == "" {
			mime = mimeOf(m.URL)
		}
		dst = append(wirejson.AppendMember(dst, "fileData"), '{')
		if mime != "" {
			dst = wirejson.AppendStringMember(dst, "mimeType", mime)
		}
		dst = wirejson.AppendStringMember(dst, "fileUri", m.URL)
	default:
		return dst, fault.Newf(fault.RequestNotSupported,
			"The model made a file of the kind %s that the gateway cannot hand on in the protocol %s: the provider tells only its own id of it. Use a model that is served in this protocol.", m.Kind, protocol.Gemini)
	}
	return appendEnd(append(dst, '}'), p.State), nil
}

// call writes a call. Arguments that break off because the answer was cut are no call that
// could be run, and this protocol has only whole ones: it is left out, as the vendor
// does, and the finish reason tells of the cut. Any others must be an object.
func (w *answerWriter) call(dst []byte, call *llm.Call, args string, s *llm.State) ([]byte, *fault.Error) {
	c := *call
	c.Arguments = args
	if !sound(&c) {
		switch w.stop.Reason {
		case llm.StopMaxTokens, llm.StopContextFull, llm.StopContentFilter, llm.StopRefusal:
			return dst, nil
		}
		return dst, &fault.Error{Class: fault.Malformed, Err: errNotObject}
	}
	dst = append(wirejson.AppendElement(dst), `{"functionCall":{`...)
	if c.ID != "" && !strings.HasPrefix(c.ID, made) {
		dst = wirejson.AppendStringMember(dst, "id", c.ID)
	}
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "." + name
	}
	dst = wirejson.AppendStringMember(dst, "name", name)
	dst = appendArguments(wirejson.AppendMember(dst, "args"), &c)
	if s == nil && !w.called && w.c.To != protocol.Gemini {
		// The next turn may be the vendor's, which wants a signature here.
		s = &llm.State{Kind: llm.GeminiSignature, Data: bypassBytes}
	}
	w.called = true
	return appendEnd(append(dst, '}'), s), nil
}

// sound reports whether a call can be told as it is.
func sound(c *llm.Call) bool {
	args := strings.TrimSpace(c.Arguments)
	if args == "null" {
		c.Arguments = ""
		return true
	}
	return c.Custom || args == "" || isObject(args)
}

// finishReason is the vendor's word for how an answer ended. A word of the vendor's own
// stays.
func finishReason(s llm.Stop, upstream protocol.Name) string {
	if upstream == protocol.Gemini && s.Native != "" && reasonOf(s.Native) != llm.StopUnknown {
		return s.Native
	}
	switch s.Reason {
	case llm.StopEnd, llm.StopToolUse, llm.StopSequence:
		return "STOP"
	case llm.StopMaxTokens, llm.StopContextFull:
		return "MAX_TOKENS"
	case llm.StopRefusal, llm.StopContentFilter:
		return "SAFETY"
	case llm.StopMalformedCall:
		return "MALFORMED_FUNCTION_CALL"
	}
	return "OTHER" // CONTINUATION would have the SDK ask again with a token there is none of
}

// appendUsage appends usageMetadata. Counts of zero are left out, as protobuf does.
func appendUsage(dst []byte, u llm.Usage) []byte {
	dst = append(wirejson.AppendMember(dst, "usageMetadata"), '{')
	count := func(name string, n int64) {
		if n > 0 {
			dst = wirejson.AppendIntMember(dst, name, n)
		}
	}
	candidates := u.CompletionTokens() - u.Reasoning
	count("promptTokenCount", u.PromptTokens())
	count("cachedContentTokenCount", u.CacheRead)
	count("candidatesTokenCount", candidates)
	count("thoughtsTokenCount", u.Reasoning)
	count("totalTokenCount", u.TotalTokens())
	dst = appendModalities(dst, "promptTokensDetails", u.PromptTokens(), u.InputAudio, u.InputImage)
	dst = appendModalities(dst, "candidatesTokensDetails", candidates, u.OutputAudio, u.OutputImage)
	return append(dst, '}')
}

// appendModalities splits a count where more than text is in it.
func appendModalities(dst []byte, name string, total, audio, image int64) []byte {
	if audio <= 0 && image <= 0 {
		return dst
	}
	dst = append(wirejson.AppendMember(dst, name), '[')
	for _, m := range [...]struct {
		name string
		n    int64
	}{{"TEXT", total - audio - image}, {"AUDIO", audio}, {"IMAGE", image}} {
		if m.n > 0 {
			dst = append(wirejson.AppendElement(dst), '{')
			dst = wirejson.AppendStringMember(dst, "modality", m.name)
			dst = append(wirejson.AppendIntMember(dst, "tokenCount", m.n), '}')
		}
	}
	return append(dst, ']')
}

// cite keeps a source for the end of the answer. Only addresses have a place there.
func (w *answerWriter) cite(c *llm.Citation, exact bool) {
	if c.URL == "" || len(w.sources) >= maxSources {
		w.c.LoseAnswer(llm.AnswerCitations)
		return
	}
	kept := llm.Citation{URL: c.URL, Title: c.Title, Text: c.Text}
	if exact { // offsets on the wire count bytes
		kept.Start, kept.End = c.Start, c.End
	}
	w.sources = append(w.sources, kept)
}

func (w *answerWriter) grounding(dst []byte) []byte {
	if len(w.sources) == 0 {
		return dst
	}
	dst = append(wirejson.AppendMember(dst, "groundingMetadata"), `{"groundingChunks":[`...)
	for _, s := range w.sources {
		dst = append(wirejson.AppendElement(dst), `{"web":{`...)
		dst = wirejson.AppendStringMember(dst, "uri", s.URL)
		if s.Title != "" {
			dst = wirejson.AppendStringMember(dst, "title", s.Title)
		}
		dst = append(dst, `}}`...)
	}
	dst = append(dst, `],"groundingSupports":[`...)
	for i, s := range w.sources {
		if s.Text == "" && s.End == 0 {
			continue
		}
		dst = append(wirejson.AppendElement(dst), `{"segment":{`...)
		if s.Start > 0 {
			dst = wirejson.AppendIntMember(dst, "startIndex", int64(s.Start))
		}
		if s.End > 0 {
			dst = wirejson.AppendIntMember(dst, "endIndex", int64(s.End))
		}
		if s.Text != "" {
			dst = wirejson.AppendStringMember(dst, "text", s.Text)
		}
		dst = append(append(dst, '}'), `,"groundingChunkIndices":[`...)
		dst = append(strconv.AppendInt(dst, int64(i), 10), `]}`...)
	}
	return append(dst, `]}`...)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
