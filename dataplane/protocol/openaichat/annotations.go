package openaichat

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// maxCitations is how many sources of one answer are kept.
const maxCitations = 1000

// readAnnotations appends the sources in a list of annotations to dst. Anything else
// is passed over. The members of url_citation may stand beside type, as some servers
// have it.
func readAnnotations(r *wirejson.Reader, dst []llm.Citation) []llm.Citation {
	if !r.Enter('[') {
		return dst
	}
	for r.Next() {
		var c llm.Citation
		if r.Enter('{') {
			for r.Next() {
				if string(r.Name()) == "url_citation" && r.Kind() == '{' {
					r.Enter('{')
					for r.Next() {
						citationMember(r, &c)
					}
					continue
				}
				citationMember(r, &c)
			}
		}
		if c.URL != "" && len(dst) < maxCitations {
			dst = append(dst, c)
		}
	}
	return dst
}

func citationMember(r *wirejson.Reader, c *llm.Citation) {
	switch string(r.Name()) {
	case "url":
		c.URL, _ = r.Text()
	case "title":
		c.Title, _ = r.Text()
	case "start_index":
		c.Start = index(r)
	case "end_index":
		c.End = index(r)
	}
}

func index(r *wirejson.Reader) int {
	n, _ := r.Int()
	return int(max(n, 0))
}

// appendAnnotations appends the list of annotations.
func appendAnnotations(b []byte, sources []llm.Citation) []byte {
	b = append(wirejson.AppendMember(b, "annotations"), '[')
	for i := range sources {
		c := &sources[i]
		b = append(wirejson.AppendElement(b), `{"type":"url_citation","url_citation":{`...)
		b = wirejson.AppendIntMember(b, "end_index", int64(c.End))
		b = wirejson.AppendIntMember(b, "start_index", int64(c.Start))
		b = wirejson.AppendStringMember(b, "title", c.Title)
		b = append(wirejson.AppendStringMember(b, "url", c.URL), "}}"...)
	}
	return append(b, ']')
}
