package gemini

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// media writes an image, document, audio or video: data in line, addresses that the
// provider knows as files.
func (e *requestEncoder) media(p *llm.Part, signature string) *fault.Error {
	m := p.Media
	if f := e.manner(m); f != nil {
		return f
	}
	mime := m.MIME
	switch {
	case m.FileID != "":
		return e.c.Dropped(llm.FeatureFileID, "messages")
	case m.URL != "":
		if !e.own && !providersOwn(m.URL) {
			feature := llm.FeatureDocumentURL
			if m.Kind == llm.Image {
				feature = llm.FeatureImageURL
			}
			if a, f := e.c.Lose(feature, "messages"); f != nil || a == protocol.Drop {
				return f
			}
		}
		if mime == "" && !e.own {
			mime = mimeOf(m.URL)
		}
		e.b = append(wirejson.AppendElement(e.b), `{"fileData":{`...)
		if mime != "" {
			e.b = wirejson.AppendStringMember(e.b, "mimeType", mime)
		}
		e.b = wirejson.AppendStringMember(e.b, "fileUri", m.URL)
	case m.Data == "": // a document given as text
		e.b = append(wirejson.AppendElement(e.b), `{"inlineData":{`...)
		e.b = wirejson.AppendStringMember(e.b, "mimeType", "text/plain")
		e.b = append(wirejson.AppendMember(e.b, "data"), '"')
		e.b = base64.StdEncoding.AppendEncode(e.b, []byte(m.Text))
		e.b = append(e.b, '"')
	default:
		if mime == "" {
			mime = mimeOfData(m)
		}
		e.b = append(wirejson.AppendElement(e.b), `{"inlineData":{`...)
		e.b = wirejson.AppendStringMember(e.b, "mimeType", mime)
		e.b = wirejson.AppendStringMember(e.b, "data", m.Data)
	}
	if e.own && m.Name != "" {
		e.b = wirejson.AppendStringMember(e.b, "displayName", m.Name)
	}
	e.b = append(e.b, '}')
	e.close(p, signature)
	return nil
}

// manner decides on what is said of a piece of media that has no field.
func (e *requestEncoder) manner(m *llm.Media) *fault.Error {
	if m.Cite {
		if f := e.c.Dropped(llm.FeatureCitations, "messages[].content[].citations"); f != nil {
			return f
		}
	}
	if m.Detail != "" && m.Detail != "auto" {
		if f := e.c.Dropped(llm.FeatureImageDetail, "messages[].content[].detail"); f != nil {
			return f
		}
	}
	if m.Context != "" || m.Name != "" && !e.own {
		return e.c.Dropped(llm.FeatureDocumentMeta, "messages[].content[].title")
	}
	return nil
}

// providersOwn reports whether an address names a file that the provider keeps or
// reads itself.
func providersOwn(url string) bool {
	return strings.HasPrefix(url, "gs://") || strings.HasPrefix(url, "https://generativelanguage.googleapis.com/")
}

// appendArguments appends the arguments of a call as an object. What is none, because the
// model was cut short or the tool took free text, is kept as a text within one.
func appendArguments(dst []byte, call *llm.Call) []byte {
	args := strings.TrimSpace(call.Arguments)
	switch {
	case args == "" && !call.Custom:
		return append(dst, `{}`...)
	case !call.Custom && isObject(args):
		return append(dst, args...)
	}
	return append(wirejson.AppendStringMember(append(dst, '{'), "input", call.Arguments), '}')
}

// isObject reports whether s is one JSON object.
func isObject(s string) bool {
	if !strings.HasPrefix(s, "{") {
		return false
	}
	return jsontext.Value(s).IsValid()
}
