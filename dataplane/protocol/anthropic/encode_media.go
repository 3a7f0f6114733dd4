package anthropic

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// media writes an image or a document, or nothing if it may be left out.
func (w *requestWriter) media(p *llm.Part) *fault.Error {
	switch m := p.Media; m.Kind {
	case llm.Image:
		return w.image(p)
	case llm.Document:
		return w.document(p)
	case llm.Audio:
		return w.c.Dropped(llm.FeatureAudioInput, w.at(llm.FeatureAudioInput))
	}
	return w.c.Dropped(llm.FeatureVideoInput, w.at(llm.FeatureVideoInput))
}

func (w *requestWriter) image(p *llm.Part) *fault.Error {
	m := p.Media
	if m.Detail != "" && m.Detail != "auto" {
		if f := w.c.Dropped(llm.FeatureImageDetail, w.at(llm.FeatureImageDetail)); f != nil {
			return f
		}
	}
	before := len(w.b)
	w.b = append(wirejson.AppendElement(w.b), `{"type":"image","source":{`...)
	if lost := w.source(m, llm.FeatureImage, llm.FeatureImageURL); lost != "" {
		w.b = w.b[:before]
		return w.c.Dropped(lost, w.at(lost))
	}
	w.b = append(w.b, '}')
	return w.end(p.Cache)
}

func (w *requestWriter) document(p *llm.Part) *fault.Error {
	m := p.Media
	before := len(w.b)
	w.b = append(wirejson.AppendElement(w.b), `{"type":"document","source":{`...)
	if lost := w.source(m, llm.FeatureDocument, llm.FeatureDocumentURL); lost != "" {
		w.b = w.b[:before]
		return w.c.Dropped(lost, w.at(lost))
	}
	w.b = append(w.b, '}')
	if m.Name != "" {
		w.b = wirejson.AppendStringMember(w.b, "title", m.Name)
	}
	if m.Context != "" {
		w.b = wirejson.AppendStringMember(w.b, "context", m.Context)
	}
	if m.Cite {
		w.b = append(w.b, `,"citations":{"enabled":true}`...)
	}
	return w.end(p.Cache)
}

// source writes the members of a source. It returns the feature that the protocol does
// not have, if so: inline for content that stands in the request, link for a URL.
func (w *requestWriter) source(m *llm.Media, inline, link llm.Feature) llm.Feature {
	switch {
	case m.FileID != "" && w.own:
		w.b = wirejson.AppendStringMember(wirejson.AppendStringMember(w.b, "type", "file"), "file_id", m.FileID)
	case m.FileID != "":
		return llm.FeatureFileID
	case m.URL != "":
		if !w.own && !strings.HasPrefix(m.URL, "https://") && !strings.HasPrefix(m.URL, "http://") {
			return link
		}
		w.b = wirejson.AppendStringMember(wirejson.AppendStringMember(w.b, "type", "url"), "url", m.URL)
	case m.Text != "":
		w.plain(m.Text)
	default:
		return w.inline(m, inline)
	}
	return ""
}

func (w *requestWriter) plain(text string) {
	w.b = wirejson.AppendStringMember(append(w.b, `"type":"text","media_type":"text/plain"`...), "data", text)
}

// inline writes content that stands in the request: images of the four types and PDF
// as they are, other text as text.
func (w *requestWriter) inline(m *llm.Media, inline llm.Feature) llm.Feature {
	mime := mediaType(m)
	ok := mime == "application/pdf"
	if m.Kind == llm.Image {
		ok = mime == "image/png" || mime == "image/jpeg" || mime == "image/gif" || mime == "image/webp"
	}
	if !ok && m.Kind == llm.Document && !w.own && textual(mime) {
		text, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil || !utf8.Valid(text) || len(text) == 0 {
			return inline
		}
		w.plain(string(text))
		return ""
	}
	if !ok && !w.own {
		return inline
	}
	w.b = wirejson.AppendStringMember(wirejson.AppendStringMember(w.b, "type", "base64"), "media_type", mime)
	w.b = wirejson.AppendStringMember(w.b, "data", m.Data)
	return ""
}

func textual(mime string) bool {
	return strings.HasPrefix(mime, "text/") || mime == "application/json" || mime == "application/xml"
}

// heads are how content of a type begins in base64.
var heads = [...]struct{ head, mime string }{
	{"iVBORw0KGgo", "image/png"},
	{"/9j/", "image/jpeg"},
	{"R0lGOD", "image/gif"},
	{"UklGR", "image/webp"},
	{"JVBERi", "application/pdf"},
}

// mediaType is the type of a media without parameters, found from its first bytes
// where the caller does not say.
func mediaType(m *llm.Media) string {
	mime, _, _ := strings.Cut(strings.ToLower(m.MIME), ";")
	switch mime = strings.TrimSpace(mime); mime {
	case "image/jpg":
		return "image/jpeg"
	case "", "application/octet-stream":
		for _, h := range heads {
			if strings.HasPrefix(m.Data, h.head) {
				return h.mime
			}
		}
	}
	return mime
}
