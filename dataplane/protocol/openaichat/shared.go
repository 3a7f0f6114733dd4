package openaichat

import "github.com/aidy-gateway/aidy-gateway/dataplane/llm"

// What follows is the same in both of the vendor's protocols, and used by the codec of
// the other one.

// StrictSchema reports whether the vendor takes a schema with strict:true.
func StrictSchema(raw []byte) bool { return strictSchema(raw) }

// MentionsJSON reports whether the messages speak of JSON, which the vendor demands of
// who asks for a JSON object.
func MentionsJSON(r *llm.Request) bool { return (&requestEncoder{r: r}).mentionsJSON() }

// ReadGrammar reads the format of a custom tool, in Chat's form or in that of
// Responses. The definition is empty if any text will do.
func ReadGrammar(raw []byte) (syntax, definition string) {
	g := readGrammar(raw)
	return g.syntax, g.definition
}

// CutDataURL splits data:image/png;base64,…. data is empty if the content is not base64.
// ok is false for another URL.
func CutDataURL(url string) (mime, data string, ok bool) { return cutDataURL(url) }

// AppendDataURL appends a data URL as a JSON string.
func AppendDataURL(b []byte, mime, base64 string) []byte { return appendDataURL(b, mime, base64) }

// SniffMIME is the MIME type of an image or a PDF by its first characters; empty if it
// is not known.
func SniffMIME(base64 string) string { return sniff(base64) }

// DocumentMIME is the MIME type of a file that came without one.
func DocumentMIME(name, base64 string) string { return documentMIME(name, base64) }

// DocumentName is the name that a file needs, for one without.
func DocumentName(mime string) string { return documentName(mime) }

// DocumentText is a document that is a text, as the text of a message.
func DocumentText(m *llm.Media) string { return documentText(m) }
