package openairesponses

import (
	"math"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
)

// content reads a content: a string or a list of parts. Empty text is nothing.
func (d *requestDecoder) content(path string) []llm.Part {
	switch d.r.Kind() {
	case 'n':
		d.r.Skip()
		return nil
	case '"':
		if text := d.text(path); text != "" {
			return []llm.Part{{Kind: llm.PartText, Text: text}}
		}
		return nil
	case '[':
	default:
		d.wrong(path, "a string or a list of parts")
		d.r.Skip()
		return nil
	}
	var parts []llm.Part
	d.each(path, maxParts, func() {
		if p := d.part(path + "[]"); p.Kind != llm.PartText && p.Kind != llm.PartRefusal || p.Text != "" {
			parts = append(parts, p)
		}
	})
	return parts
}

// partMembers is what one part holds.
type partMembers struct {
	kind, text                  string
	imageURL, fileID, detail    string
	fileData, fileURL, filename string
	audio                       *llm.Media
	citations                   []llm.Citation
	cache                       llm.Cache
	texted, refused, imaged     bool // what there was
}

// part reads one part of a content. A part of a type that is not known is kept as it
// stands.
func (d *requestDecoder) part(path string) (p llm.Part) {
	switch d.r.Kind() {
	case '"':
		return llm.Part{Kind: llm.PartText, Text: d.text(path)}
	case '{':
	default:
		d.wrong(path, "an object")
		d.r.Skip()
		return p
	}
	from, before := d.r.Start(), d.mark()
	d.r.Enter('{')
	var m partMembers
	for d.r.Next() {
		d.partMember(path, &m)
	}
	switch m.kind {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		p = llm.Part{Kind: llm.PartText, Text: m.text, Citations: m.citations, Cache: m.cache}
		if !m.texted {
			d.refuse(path+".text", "is missing")
		}
	case "refusal":
		p = llm.Part{Kind: llm.PartRefusal, Text: m.text}
	case "input_image", "image_url", "computer_screenshot":
		p = llm.Part{Kind: llm.PartMedia, Media: d.image(path, &m), Cache: m.cache}
	case "input_file", "file":
		p = llm.Part{Kind: llm.PartMedia, Media: d.file(path, &m), Cache: m.cache}
	case "input_audio":
		p = llm.Part{Kind: llm.PartMedia, Media: m.audio}
		if m.audio == nil || m.audio.Data == "" {
			d.refuse(path+".input_audio.data", "is missing")
		}
	case "":
		if !m.texted || m.refused {
			d.refuse(path+".type", "is missing; expected one of input_text, input_image, input_file, output_text, refusal")
		}
		p = llm.Part{Kind: llm.PartText, Text: m.text, Cache: m.cache}
	default:
		d.forget(before)
		p = llm.Part{Kind: llm.PartNative, Native: &llm.Native{Type: m.kind, Raw: d.span(from)}}
	}
	return p
}

func (d *requestDecoder) partMember(path string, m *partMembers) {
	switch string(d.r.Name()) {
	case "type":
		m.kind = d.name(path + ".type")
	case "text":
		m.texted, m.text = true, d.text(path+".text")
	case "refusal":
		m.refused, m.text = true, d.text(path+".refusal")
	case "annotations":
		m.citations = d.annotations(path + ".annotations")
	case "logprobs": // of an answer that is sent back
	case "image_url":
		m.imaged = true
		if d.r.Kind() == '{' { // as Chat has it, and some clients send it
			d.r.Enter('{')
			for d.r.Next() {
				switch string(d.r.Name()) {
				case "url":
					m.imageURL = d.text(path + ".image_url.url")
				case "detail":
					m.detail = d.name(path + ".image_url.detail")
				}
			}
			return
		}
		m.imageURL = d.text(path + ".image_url")
	case "detail":
		m.detail = d.name(path + ".detail")
	case "file_id":
		m.fileID = d.text(path + ".file_id")
	case "file_data":
		m.fileData = d.text(path + ".file_data")
	case "file_url":
		m.fileURL = d.text(path + ".file_url")
	case "filename":
		m.filename = d.text(path + ".filename")
	case "input_audio":
		m.audio = d.audio(path + ".input_audio")
	case "prompt_cache_breakpoint":
		m.cache = d.breakpoint(path + ".prompt_cache_breakpoint")
	default:
		d.unknown(path)
	}
}

// breakpoint reads a mark of the prompt cache. 30 minutes is the default; another
// lifetime is kept beside the mark.
func (d *requestDecoder) breakpoint(path string) llm.Cache {
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
				d.add(llm.FeatureCacheLifetime, path+".ttl", d.span(from))
			}
		default:
			d.unknown(path)
		}
	}
	return mark
}

func (d *requestDecoder) image(path string, m *partMembers) *llm.Media {
	out := &llm.Media{Kind: llm.Image, Detail: m.detail, FileID: m.fileID}
	if out.Detail == "auto" { // the default
		out.Detail = ""
	}
	switch {
	case m.imageURL != "" && m.fileID != "":
		d.refuse(path, "must have one of image_url and file_id, and not both")
	case m.imageURL != "":
		d.place(out, m.imageURL, path+".image_url")
	case m.fileID == "":
		d.refuse(path, "must have image_url or file_id")
	}
	return out
}

// place puts a URL into m, or the content of a data URL.
func (d *requestDecoder) place(m *llm.Media, url, path string) {
	mime, data, ok := openaichat.CutDataURL(url)
	if !ok {
		m.URL = url
		return
	}
	m.MIME, m.Data = mime, data
	if data == "" {
		d.wrong(path, "a URL or a data URL with base64 content")
	}
}

func (d *requestDecoder) file(path string, m *partMembers) *llm.Media {
	out := &llm.Media{Kind: llm.Document, Name: m.filename, Detail: m.detail}
	if out.Detail == "auto" {
		out.Detail = ""
	}
	stated := 0
	for _, s := range [...]string{m.fileData, m.fileURL, m.fileID} {
		if s != "" {
			stated++
		}
	}
	if stated != 1 {
		d.refuse(path, "must have exactly one of file_data, file_url and file_id")
		return out
	}
	out.URL, out.FileID = m.fileURL, m.fileID
	if m.fileData == "" {
		return out
	}
	if _, _, ok := openaichat.CutDataURL(m.fileData); ok {
		d.place(out, m.fileData, path+".file_data")
	} else {
		out.Data = m.fileData
	}
	if out.MIME == "" {
		out.MIME = openaichat.DocumentMIME(out.Name, out.Data)
	}
	return out
}

// audio reads what no specification has, but clients send as in Chat.
func (d *requestDecoder) audio(path string) *llm.Media {
	m := &llm.Media{Kind: llm.Audio}
	if !d.object(path) {
		return nil
	}
	for d.r.Next() {
		switch string(d.r.Name()) {
		case "data":
			m.Data = d.text(path + ".data")
		case "format":
			if f := d.name(path + ".format"); f != "" {
				m.MIME = "audio/" + f
			}
		default:
			d.unknown(path)
		}
	}
	return m
}

// annotations reads the sources of a text. One that is no URL is kept as it stands.
func (d *requestDecoder) annotations(path string) (all []llm.Citation) {
	d.each(path, maxParts, func() {
		if d.r.Kind() != '{' {
			return
		}
		from := d.r.Start()
		c, kind := readAnnotation(d.r)
		if kind != urlCitation {
			c = llm.Citation{Raw: d.span(from)}
		}
		all = append(all, c)
	})
	return all
}

// clampIndex makes an int of a position in a text.
func clampIndex(n int64) int { return int(min(max(n, 0), math.MaxInt32)) }
