package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// content writes the content of a message: one text as a string, anything else as a
// list of parts.
func (e *requestEncoder) content(parts []*llm.Part) *fault.Error {
	e.b = wirejson.AppendMember(e.b, "content")
	switch {
	case len(parts) == 0:
		e.b = append(e.b, `""`...)
		return nil
	case len(parts) == 1 && parts[0].Kind == llm.PartText && parts[0].Cache == llm.NoCache:
		e.b = wirejson.AppendString(e.b, parts[0].Text)
		return nil
	}
	e.b = append(e.b, '[')
	for _, p := range parts {
		if f := e.part(p); f != nil {
			return f
		}
	}
	if e.b[len(e.b)-1] == '[' { // all was lost
		e.b = append(e.b[:len(e.b)-1], `""`...)
		return nil
	}
	e.b = append(e.b, ']')
	return nil
}

// part writes one part, or nothing if it is lost.
func (e *requestEncoder) part(p *llm.Part) *fault.Error {
	before := len(e.b)
	e.b = append(wirejson.AppendElement(e.b), '{')
	written := true
	switch p.Kind {
	case llm.PartMedia:
		var f *fault.Error
		if written, f = e.media(p.Media); f != nil {
			return f
		}
	case llm.PartRefusal:
		e.b = wirejson.AppendStringMember(e.b, "type", "refusal")
		e.b = append(wirejson.AppendStringMember(e.b, "refusal", p.Text), '}')
		return nil // refusals take no mark
	default:
		e.text(p.Text)
	}
	if !written {
		e.b = e.b[:before]
		return nil
	}
	f := e.mark(p.Cache)
	e.b = append(e.b, '}')
	return f
}

func (e *requestEncoder) text(s string) {
	e.b = wirejson.AppendStringMember(e.b, "type", "text")
	e.b = wirejson.AppendStringMember(e.b, "text", s)
}

// mark writes a breakpoint of the prompt cache.
func (e *requestEncoder) mark(c llm.Cache) *fault.Error {
	switch {
	case c == llm.NoCache:
		return nil
	case e.c.NoBreakpoints, e.c.Options[string(e.c.From)+"."+string(llm.FeatureCacheMark)] == protocol.Drop:
		// Declared for models that do not know breakpoints.
		return e.c.Dropped(llm.FeatureCacheMark, "")
	case c == llm.Cache1h && e.ttl == nil:
		if a, f := e.c.Lose(llm.FeatureCacheLifetime, ""); f != nil || a == protocol.Drop {
			return f
		}
	}
	e.b = wirejson.AppendStringMember(append(wirejson.AppendMember(e.b, "prompt_cache_breakpoint"), '{'), "mode", "explicit")
	if c == llm.Cache1h && e.ttl != nil {
		e.b = wirejson.AppendRawMember(e.b, "ttl", e.ttl)
	}
	e.b = append(e.b, '}')
	return nil
}

// media writes the members of a part that is no text. It reports false if the media
// is left out.
func (e *requestEncoder) media(m *llm.Media) (bool, *fault.Error) {
	lose := func(f llm.Feature) (bool, *fault.Error) { return false, e.c.Dropped(f, "") }
	if m.FileID != "" && (m.Kind != llm.Document || !e.own && e.c.From != protocol.OpenAIResponses) {
		return lose(llm.FeatureFileID)
	}
	switch m.Kind {
	case llm.Image:
		if m.URL != "" && !webURL(m.URL) {
			return lose(llm.FeatureImageURL)
		}
		e.image(m)
		return true, nil
	case llm.Audio:
		format := audioFormat(m.MIME)
		if e.own && format == "" {
			format = strings.TrimPrefix(m.MIME, "audio/")
		}
		if m.Data == "" || format == "" {
			return lose(llm.FeatureAudioInput)
		}
		e.b = wirejson.AppendStringMember(e.b, "type", "input_audio")
		e.b = wirejson.AppendStringMember(append(wirejson.AppendMember(e.b, "input_audio"), '{'), "data", m.Data)
		e.b = append(wirejson.AppendStringMember(e.b, "format", format), '}')
		return true, nil
	case llm.Document:
		return e.document(m)
	}
	return lose(llm.FeatureVideoInput)
}

func webURL(s string) bool {
	return len(s) > 8 && (strings.EqualFold(s[:8], "https://") || strings.EqualFold(s[:7], "http://"))
}

func (e *requestEncoder) image(m *llm.Media) {
	e.b = wirejson.AppendStringMember(e.b, "type", "image_url")
	e.b = wirejson.AppendMember(append(wirejson.AppendMember(e.b, "image_url"), '{'), "url")
	if m.URL != "" {
		e.b = wirejson.AppendString(e.b, m.URL)
	} else {
		mime := m.MIME
		if mime == "" {
			mime = sniff(m.Data)
		}
		e.b = appendDataURL(e.b, mime, m.Data)
	}
	if m.Detail != "" {
		e.b = wirejson.AppendStringMember(e.b, "detail", m.Detail)
	}
	e.b = append(e.b, '}')
}

// document writes a file, or a document that is a text as a text with its title.
func (e *requestEncoder) document(m *llm.Media) (bool, *fault.Error) {
	if m.Cite {
		if f := e.c.Dropped(llm.FeatureCitations, ""); f != nil {
			return false, f
		}
	}
	switch {
	case m.Text != "":
		e.text(documentText(m))
		return true, nil
	case m.Context != "":
		if f := e.c.Dropped(llm.FeatureDocumentMeta, ""); f != nil {
			return false, f
		}
	}
	if m.URL != "" {
		return false, e.c.Dropped(llm.FeatureDocumentURL, "")
	}
	e.b = wirejson.AppendStringMember(e.b, "type", "file")
	e.b = append(wirejson.AppendMember(e.b, "file"), '{')
	name := m.Name
	if m.FileID != "" {
		e.b = wirejson.AppendStringMember(e.b, "file_id", m.FileID)
	} else {
		e.b = appendDataURL(wirejson.AppendMember(e.b, "file_data"), m.MIME, m.Data)
		if name == "" && !e.own {
			name = documentName(m.MIME) // data without a name is refused
		}
	}
	if name != "" {
		e.b = wirejson.AppendStringMember(e.b, "filename", name)
	}
	e.b = append(e.b, '}')
	return true, nil
}

func documentText(m *llm.Media) string {
	head := "<document>\n"
	if m.Name != "" {
		head = "<document title=" + quoted(m.Name) + ">\n"
	}
	if m.Context != "" {
		head += "<context>" + m.Context + "</context>\n"
	}
	return head + m.Text + "\n</document>"
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, "&quot;") + `"` }
