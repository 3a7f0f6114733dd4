package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// audioMIME is the MIME type of a format of input_audio.
func audioMIME(format string) string {
	if format == "" {
		return ""
	}
	return "audio/" + format
}

// audioFormat is the format of input_audio for a MIME type; empty if it has none.
// Source: ChatCompletionContentPartInputAudioParam of openai-go v3.99.
func audioFormat(mime string) string {
	switch strings.ToLower(mime) {
	case "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return "wav"
	case "audio/mp3", "audio/mpeg":
		return "mp3"
	}
	return ""
}

// magic are the first characters of the base64 of kinds of files.
var magic = [...]struct{ start, mime string }{
	{"JVBERi", "application/pdf"},
	{"iVBORw0KGgo", "image/png"},
	{"/9j/", "image/jpeg"},
	{"R0lGOD", "image/gif"},
	{"UklGR", "image/webp"},
}

func sniff(base64 string) string {
	for _, m := range magic {
		if strings.HasPrefix(base64, m.start) {
			return m.mime
		}
	}
	return ""
}

// documentTypes are the MIME types of file names.
var documentTypes = [...]struct{ suffix, mime string }{
	{".pdf", "application/pdf"},
	{".txt", "text/plain"},
	{".md", "text/markdown"},
	{".csv", "text/csv"},
	{".html", "text/html"},
	{".json", "application/json"},
}

// documentMIME is the MIME type of a file that came without one.
func documentMIME(name, base64 string) string {
	if mime := sniff(base64); mime != "" {
		return mime
	}
	name = strings.ToLower(name)
	for _, t := range documentTypes {
		if strings.HasSuffix(name, t.suffix) {
			return t.mime
		}
	}
	return "application/octet-stream"
}

// documentName is the name that a file needs, for one without.
func documentName(mime string) string {
	for _, t := range documentTypes {
		if t.mime == mime {
			return "document" + t.suffix
		}
	}
	return "document"
}

// appendDataURL appends a data URL as a JSON string.
func appendDataURL(b []byte, mime, base64 string) []byte {
	b = wirejson.AppendString(b, "data:"+mime+";base64,")
	at := len(b) - 1 // the closing quote, and then the opening one of the data
	b = wirejson.AppendString(b, base64)
	return append(b[:at], b[at+2:]...)
}

// grammar is what bounds the text of a custom tool.
type grammar struct{ syntax, definition string }

// readGrammar reads the format of a custom tool, in Chat's form
// {"type":"grammar","grammar":{"syntax","definition"}} or in that of Responses, where
// the inner members stand beside type. A format of any text has no definition.
func readGrammar(raw []byte) (g grammar) {
	var r wirejson.Reader
	r.ResetLenient(raw)
	g.read(&r, true)
	return g
}

func (g *grammar) read(r *wirejson.Reader, outer bool) {
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		switch string(r.Name()) {
		case "syntax":
			g.syntax, _ = r.Text()
		case "definition":
			g.definition, _ = r.Text()
		case "grammar":
			if outer {
				g.read(r, false)
			}
		}
	}
}

// sniffAudio is the MIME type of audio that came without one.
func sniffAudio(base64 string) string {
	switch {
	case strings.HasPrefix(base64, "UklGR"):
		return "audio/wav"
	case strings.HasPrefix(base64, "SUQz"), strings.HasPrefix(base64, "//"):
		return "audio/mpeg"
	}
	return "application/octet-stream"
}
