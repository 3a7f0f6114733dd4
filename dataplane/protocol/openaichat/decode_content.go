package openaichat

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// content reads the content of a message: a string or a list of parts. Empty text is
// nothing.
func (d *requestDecoder) content() []llm.Part {
	const path = "messages[].content"
	switch d.r.Kind() {
	case 'n':
		return nil
	case '"':
		if text := d.text(path); text != "" {
			return []llm.Part{{Kind: llm.PartText, Text: text}}
		}
		return nil
	case '[':
	default:
		d.wrong(path, "a string or a list of parts")
		return nil
	}
	var parts []llm.Part
	d.each(path, maxParts, func() {
		if p := d.part(); p.Kind != llm.PartText || p.Text != "" {
			parts = append(parts, p)
		}
	})
	return parts
}

const partPath = "messages[].content[]"

// part reads one part of a content.
func (d *requestDecoder) part() (p llm.Part) {
	switch d.r.Kind() {
	case '"':
		return llm.Part{Kind: llm.PartText, Text: d.text(partPath)}
	case '{':
	default:
		d.wrong(partPath, "an object")
		return p
	}
	d.r.Enter('{')
	kind := ""
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "type":
			kind = d.word(partPath+".type", "text", "image_url", "input_audio", "file", "refusal")
		case "text":
			p.Text = d.text(partPath + ".text")
		case "refusal":
			p.Kind, p.Text = llm.PartRefusal, d.text(partPath+".refusal")
		case "image_url":
			p.Kind, p.Media = llm.PartMedia, d.image()
		case "input_audio":
			p.Kind, p.Media = llm.PartMedia, d.audio()
		case "file":
			p.Kind, p.Media = llm.PartMedia, d.file()
		case "prompt_cache_breakpoint":
			p.Cache = d.breakpoint()
		default:
			d.unknown(partPath)
		}
	}
	if kind != "" && p.Kind == llm.PartMedia && p.Media == nil || kind == "" && p.Kind == llm.PartText && p.Text == "" {
		d.refuse(partPath, "is empty; a part is {\"type\":\"text\",\"text\":…} or holds what its type says")
	}
	return p
}

// breakpoint reads a mark of the prompt cache. 30 minutes is the default; another
// lifetime is kept beside the mark.
func (d *requestDecoder) breakpoint() llm.Cache {
	const path = partPath + ".prompt_cache_breakpoint"
	if !d.object(path) {
		return llm.NoCache
	}
	mark := llm.CacheDefault
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "mode":
			d.name(path + ".mode")
		case "ttl":
			from := d.r.Start()
			if ttl := d.name(path + ".ttl"); ttl != "" && ttl != "30m" {
				mark = llm.Cache1h
				d.req.Extras = append(d.req.Extras, llm.Extra{Feature: llm.FeatureCacheLifetime, Field: d.where(path + ".ttl"), Raw: d.since(from)})
			}
		default:
			d.unknown(path)
		}
	}
	return mark
}

func (d *requestDecoder) image() *llm.Media {
	const path = partPath + ".image_url"
	m := &llm.Media{Kind: llm.Image}
	if d.r.Kind() == '"' { // as some clients send it
		d.place(m, d.text(path), path)
		return m
	}
	if !d.object(path) {
		return nil
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "url":
			d.place(m, d.text(path+".url"), path+".url")
		case "detail":
			m.Detail = d.name(path + ".detail")
		default:
			d.unknown(path)
		}
	}
	if m.Data == "" && m.URL == "" {
		d.refuse(path+".url", "is missing")
	}
	return m
}

// place puts a URL into m, or the content of a data URL.
func (d *requestDecoder) place(m *llm.Media, url, path string) {
	if mime, data, ok := cutDataURL(url); ok {
		m.MIME, m.Data = mime, data
		if data == "" {
			d.wrong(path, "a URL or a data URL with base64 content")
		}
		return
	}
	m.URL = url
}

// cutDataURL splits data:image/png;base64,…. data is empty if the content is not
// base64. ok is false for another URL.
func cutDataURL(url string) (mime, data string, ok bool) {
	if len(url) < 5 || !strings.EqualFold(url[:5], "data:") {
		return "", "", false
	}
	head, data, _ := strings.Cut(url[5:], ",")
	mime, is64 := strings.CutSuffix(head, ";base64")
	if !is64 {
		return "", "", true
	}
	mime, _, _ = strings.Cut(mime, ";")
	return mime, data, true
}

func (d *requestDecoder) audio() *llm.Media {
	const path = partPath + ".input_audio"
	m := &llm.Media{Kind: llm.Audio}
	if !d.object(path) {
		return nil
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "data":
			m.Data = d.text(path + ".data")
		case "format":
			m.MIME = audioMIME(d.name(path + ".format"))
		default:
			d.unknown(path)
		}
	}
	if m.Data == "" {
		d.refuse(path+".data", "is missing")
	}
	return m
}

func (d *requestDecoder) file() *llm.Media {
	const path = partPath + ".file"
	m := &llm.Media{Kind: llm.Document}
	if !d.object(path) {
		return nil
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "file_data":
			data := d.text(path + ".file_data")
			if _, _, ok := cutDataURL(data); ok {
				d.place(m, data, path+".file_data")
			} else {
				m.Data = data
			}
		case "file_id":
			m.FileID = d.text(path + ".file_id")
		case "filename":
			m.Name = d.text(path + ".filename")
		default:
			d.unknown(path)
		}
	}
	switch {
	case m.Data == "" && m.FileID == "":
		d.refuse(path, "must have file_data or file_id")
	case m.Data != "" && m.FileID != "":
		d.refuse(path, "must have one of file_data and file_id, and not both")
	case m.Data != "" && m.MIME == "":
		m.MIME = documentMIME(m.Name, m.Data)
	}
	return m
}
