package openairesponses

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// urlCitation is the type of the annotation that other protocols have, too.
const urlCitation = "url_citation"

// readAnnotation reads an annotation, which is an object.
func readAnnotation(r *wirejson.Reader) (c llm.Citation, kind string) {
	if !r.Enter('{') {
		return c, ""
	}
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			kind, _ = r.String(maxName)
		case "url":
			c.URL, _ = r.Text()
		case "title":
			c.Title, _ = r.Text()
		case "start_index":
			n, _ := r.Int()
			c.Start = clampIndex(n)
		case "end_index":
			n, _ := r.Int()
			c.End = clampIndex(n)
		}
	}
	return c, kind
}

// appendAnnotation appends a source that has a URL.
func appendAnnotation(b []byte, c *llm.Citation) []byte {
	b = wirejson.AppendStringMember(append(b, '{'), "type", urlCitation)
	b = wirejson.AppendIntMember(b, "start_index", int64(c.Start))
	b = wirejson.AppendIntMember(b, "end_index", int64(c.End))
	b = wirejson.AppendStringMember(b, "url", c.URL)
	return append(wirejson.AppendStringMember(b, "title", c.Title), '}')
}
