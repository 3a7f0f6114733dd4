package openairesponses

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// part writes a part of what somebody else than the model says, or nothing if it is lost
// or empty.
func (e *requestEncoder) part(p *llm.Part) *fault.Error {
	before := len(e.b)
	e.b = append(wirejson.AppendElement(e.b), '{')
	written := p.Text != ""
	if p.Kind == llm.PartMedia {
		var f *fault.Error
		if written, f = e.media(p.Media); f != nil {
			return f
		}
	} else {
		e.writeText("input_text", p.Text)
	}
	if !written {
		e.b = e.b[:before]
		return nil
	}
	f := e.mark(p.Cache)
	e.b = append(e.b, '}')
	return f
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
	if m.FileID != "" && !e.vendors() {
		return lose(llm.FeatureFileID)
	}
	switch m.Kind {
	case llm.Image:
		if m.URL != "" && !webURL(m.URL) {
			return lose(llm.FeatureImageURL)
		}
		e.image(m)
		return true, nil
	case llm.Document:
		return e.document(m)
	case llm.Audio:
		if !e.own || m.Data == "" { // no specification has it
			return lose(llm.FeatureAudioInput)
		}
		e.b = wirejson.AppendStringMember(e.b, "type", "input_audio")
		e.b = wirejson.AppendStringMember(append(wirejson.AppendMember(e.b, "input_audio"), '{'), "data", m.Data)
		e.b = append(wirejson.AppendStringMember(e.b, "format", strings.TrimPrefix(m.MIME, "audio/")), '}')
		return true, nil
	}
	return lose(llm.FeatureVideoInput)
}

func webURL(s string) bool {
	return len(s) > 8 && (strings.EqualFold(s[:8], "https://") || strings.EqualFold(s[:7], "http://"))
}

func (e *requestEncoder) image(m *llm.Media) {
	e.b = wirejson.AppendStringMember(e.b, "type", "input_image")
	switch {
	case m.FileID != "":
		e.b = wirejson.AppendStringMember(e.b, "file_id", m.FileID)
	case m.URL != "":
		e.b = wirejson.AppendStringMember(e.b, "image_url", m.URL)
	default:
		mime := m.MIME
		if mime == "" {
			mime = imageMIME(m.Data)
		}
		e.b = openaichat.AppendDataURL(wirejson.AppendMember(e.b, "image_url"), mime, m.Data)
	}
	if m.Detail != "" {
		e.b = wirejson.AppendStringMember(e.b, "detail", m.Detail)
	}
}

// imageMIME is the MIME type of an image that came without one.
func imageMIME(base64 string) string {
	if mime := openaichat.SniffMIME(base64); mime != "" {
		return mime
	}
	return "image/png"
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
		e.writeText("input_text", openaichat.DocumentText(m))
		return true, nil
	case m.Context != "":
		if f := e.c.Dropped(llm.FeatureDocumentMeta, ""); f != nil {
			return false, f
		}
	case m.URL != "" && !webURL(m.URL):
		return false, e.c.Dropped(llm.FeatureDocumentURL, "")
	}
	e.b = wirejson.AppendStringMember(e.b, "type", "input_file")
	name := m.Name
	switch {
	case m.FileID != "":
		e.b = wirejson.AppendStringMember(e.b, "file_id", m.FileID)
	case m.URL != "":
		e.b = wirejson.AppendStringMember(e.b, "file_url", m.URL)
		if !e.own {
			name = "" // which goes with data alone
		}
	default:
		if name == "" && !e.own {
			name = openaichat.DocumentName(m.MIME) // data without a name is refused
		}
		e.b = openaichat.AppendDataURL(wirejson.AppendMember(e.b, "file_data"), m.MIME, m.Data)
	}
	if name != "" {
		e.b = wirejson.AppendStringMember(e.b, "filename", name)
	}
	if m.Detail != "" {
		e.b = wirejson.AppendStringMember(e.b, "detail", m.Detail)
	}
	return true, nil
}

// output writes the result of a call.
func (e *requestEncoder) output(whole *llm.Part) *fault.Error {
	r, s := whole.Result, e.calls[whole.Result.CallID]
	s.answered++
	kind := itemCallOutput
	if s.custom {
		kind = itemCustomOutput
	}
	e.open(kind)
	e.b = wirejson.AppendStringMember(e.b, "call_id", callID(r.CallID, s.answered))
	e.b = wirejson.AppendMember(e.b, "output")
	parts, f := e.outputParts(whole)
	if f != nil {
		return f
	}
	if len(parts) == 0 || len(parts) == 1 && parts[0].Kind == llm.PartText && parts[0].Cache == llm.NoCache {
		text := ""
		if len(parts) == 1 {
			text = parts[0].Text
		}
		e.b = append(wirejson.AppendString(e.b, text), '}')
		return nil
	}
	e.b = append(e.b, '[')
	for _, p := range parts {
		if p.Kind == llm.PartNative {
			f = e.native(p.Native)
		} else {
			f = e.part(p)
		}
		if f != nil {
			return f
		}
	}
	if e.b[len(e.b)-1] == '[' { // all was lost
		e.b = append(e.b[:len(e.b)-1], `""}`...)
		return nil
	}
	e.b = append(e.b, "]}"...)
	return nil
}

// outputParts are the parts of a result with what has to be said beside.
func (e *requestEncoder) outputParts(whole *llm.Part) ([]*llm.Part, *fault.Error) {
	r := whole.Result
	var parts []*llm.Part
	if r.Raw != "" {
		parts = append(parts, &llm.Part{Kind: llm.PartText, Text: r.Raw})
	}
	for i := range r.Parts {
		parts = append(parts, &r.Parts[i])
	}
	if r.Error {
		a, f := e.c.Lose(llm.FeatureResultError, "")
		if f != nil {
			return nil, f
		}
		if a == protocol.Substitute {
			if len(parts) > 0 && parts[0].Kind == llm.PartText {
				first := *parts[0]
				first.Text = failedNote + "\n" + first.Text
				parts[0] = &first
			} else {
				parts = append([]*llm.Part{{Kind: llm.PartText, Text: failedNote}}, parts...)
			}
		}
	}
	if n := len(parts); whole.Cache != llm.NoCache && n > 0 {
		last := *parts[n-1]
		last.Cache = whole.Cache
		parts[n-1] = &last
	}
	return parts, nil
}

// failedNote stands before the result of a tool that failed.
const failedNote = "The tool failed:"

// native writes a piece of the protocol's own as it stands, and loses any other.
func (e *requestEncoder) native(n *llm.Native) *fault.Error {
	if e.own {
		e.b = append(wirejson.AppendElement(e.b), n.Raw...)
		return nil
	}
	feature := llm.FeatureServerTool
	switch kind := n.Type; {
	case strings.Contains(kind, "search_result") && !strings.Contains(kind, "web_search"):
		feature = llm.FeatureSearchResult
	case strings.Contains(kind, "mcp"):
		feature = llm.FeatureMCP
	case strings.Contains(kind, "container"):
		feature = llm.FeatureContainer
	case strings.Contains(kind, "compaction"):
		feature = llm.FeatureCompaction
	}
	return e.c.Dropped(feature, "")
}

// misplaced loses media that the model cannot have made in this protocol.
func (e *requestEncoder) misplaced(m *llm.Media, role string) *fault.Error {
	feature := [...]llm.Feature{llm.FeatureImage, llm.FeatureDocument, llm.FeatureAudioInput, llm.FeatureVideoInput}[m.Kind]
	f := e.c.Dropped(feature, "")
	if f == nil {
		return nil
	}
	told := *f
	told.Public = "This model is served in the protocol " + string(e.c.To) + ", in which a message of the " + role + " cannot hold such " + m.Kind.String() +
		" content: to leave it out, declare it with the header x-gateway-options: " + string(e.c.From) + "." + string(feature) + "=drop."
	return &told
}
