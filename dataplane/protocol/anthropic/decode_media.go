package anthropic

import (
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// media reads an image or a document. It returns nil for a document that is made of
// blocks, which only this protocol has, and if there is a fault.
func (d *requestReader) media(b *block, path string) *llm.Media {
	m := &llm.Media{Name: b.title, Context: b.context}
	if b.kind == "document" {
		m.Kind = llm.Document
		m.Cite = d.cites(b.citations, path)
	}
	if len(b.source) == 0 || b.source[0] != '{' {
		d.wrong(path+".source", "an object")
		return nil
	}
	r := &d.source
	r.ResetStrict(b.source)
	r.Enter('{')
	var kind, mime, data, url, file string
	blocks := false
	for r.Next() {
		switch name := string(r.Name()); name {
		case "type":
			kind = d.word(r, path+".source.type")
		case "media_type":
			mime = d.word(r, path+".source.media_type")
		case "data":
			data = d.text(r, path+".source.data")
		case "url":
			url = d.text(r, path+".source.url")
		case "file_id":
			file = d.word(r, path+".source.file_id")
		case "content":
			blocks = true
			r.Skip()
		default:
			d.unknown(path+".source", name)
		}
	}
	var missing string
	switch kind {
	case "base64":
		m.MIME, m.Data, missing = mime, data, "data"
	case "text":
		m.MIME, m.Text, missing = "text/plain", data, "data"
	case "url":
		m.URL, missing = url, "url"
	case "file":
		m.FileID, missing = file, "file_id"
	case "content":
		if blocks && b.kind == "document" {
			return nil
		}
		missing = "content"
	default:
		d.wrong(path+".source.type", `"base64", "url", "file", "text" or "content"`)
		return nil
	}
	if m.Data == "" && m.Text == "" && m.URL == "" && m.FileID == "" {
		d.refuse(path+".source."+missing, "is missing")
		return nil
	}
	if len(b.transformations) > 0 {
		d.extra(llm.FeatureImageDetail, d.where(path)+".transformations", b.transformations)
	}
	return m
}

// cites reports whether a document is to be cited.
func (d *requestReader) cites(raw []byte, path string) bool {
	if len(raw) == 0 {
		return false
	}
	r, enabled := &d.source, false
	r.ResetStrict(raw)
	if d.object(r, path+".citations") {
		for r.Next() {
			if string(r.Name()) == "enabled" {
				if b := d.flag(r, path+".citations.enabled"); b != nil {
					enabled = *b
				}
			} else {
				d.unknown(path+".citations", string(r.Name()))
			}
		}
	}
	return enabled
}
