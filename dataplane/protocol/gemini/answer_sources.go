package gemini

import (
	"math"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// maxSources bounds the sources and citations of one chunk.
const maxSources = 1024

// media reads a piece of media that the model made; nil if it is none.
func (d *chunks) media() *llm.Media {
	r := &d.r
	if !r.Enter('{') {
		return nil
	}
	m := &llm.Media{}
	for r.Next() {
		switch string(r.Name()) {
		case "mimeType":
			m.MIME, _ = r.String(maxWord)
		case "data":
			s, _ := r.Text()
			m.Data = standardBase64(s)
		case "fileUri":
			m.URL, _ = r.Text()
		case "displayName":
			m.Name, _ = r.String(maxWord)
		}
	}
	if m.Data == "" && m.URL == "" {
		return nil
	}
	m.Kind = mediaKind(m.MIME, m.URL)
	return m
}

// cite tells a citation of the text that is open. Offsets on the wire count bytes; they
// are told where those are characters too.
func (d *chunks) cite(c *llm.Citation, emit func(llm.Event)) {
	if !d.isOpen || d.open != llm.PartText {
		d.c.LoseAnswer(llm.AnswerCitations)
		return
	}
	if d.wide || c.End <= c.Start {
		c.Start, c.End = 0, 0
	}
	emit(llm.Event{Kind: llm.EventCite, Index: d.index, Citation: c})
}

// citations reads citationMetadata. The list has two names (genai
// citationMetadataFromMldev and its Vertex AI counterpart).
func (d *chunks) citations(emit func(llm.Event)) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	for r.Next() {
		if name := string(r.Name()); name != "citations" && name != "citationSources" || !r.Enter('[') {
			continue
		}
		for n := 0; r.Next(); n++ {
			if n >= maxSources {
				continue
			}
			var c llm.Citation
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				switch string(r.Name()) {
				case "uri":
					c.URL, _ = r.Text()
				case "title":
					c.Title, _ = r.Text()
				case "startIndex":
					c.Start = d.offset()
				case "endIndex":
					c.End = d.offset()
				}
			}
			d.cite(&c, emit)
		}
	}
}

// offset reads an offset into a text.
func (d *chunks) offset() int {
	n, ok := d.r.Int()
	if !ok || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// support is a piece of text with the sources that it rests on.
type support struct {
	text       string
	start, end int
	sources    []int
}

// grounding reads groundingMetadata: a list of sources, and which piece of the text rests
// on which. Sources that nothing rests on are told for the text as a whole.
func (d *chunks) grounding(emit func(llm.Event)) {
	r := &d.r
	if !r.Enter('{') {
		return
	}
	var sources []llm.Citation
	var supports []support
	for r.Next() {
		switch string(r.Name()) {
		case "groundingChunks":
			if r.Enter('[') {
				for r.Next() {
					if c := d.source(); len(sources) < maxSources {
						sources = append(sources, c)
					}
				}
			}
		case "groundingSupports":
			if r.Enter('[') {
				for r.Next() {
					if s := d.support(); len(supports) < maxSources {
						supports = append(supports, s)
					}
				}
			}
		}
	}
	used := make([]bool, len(sources))
	told := 0
	for _, s := range supports {
		for _, i := range s.sources {
			if i < 0 || i >= len(sources) || sources[i].URL == "" || told == maxSources {
				continue
			}
			used[i] = true
			told++
			c := sources[i]
			c.Text, c.Start, c.End = s.text, s.start, s.end
			d.cite(&c, emit)
		}
	}
	for i, c := range sources {
		if !used[i] && c.URL != "" {
			d.cite(&c, emit)
		}
	}
}

// source reads a source; its URL is empty if it has none.
func (d *chunks) source() (c llm.Citation) {
	r := &d.r
	if !r.Enter('{') {
		return c
	}
	for r.Next() {
		switch string(r.Name()) {
		case "web", "maps", "retrievedContext":
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				switch string(r.Name()) {
				case "uri":
					c.URL, _ = r.Text()
				case "title":
					c.Title, _ = r.Text()
				}
			}
		}
	}
	return c
}

func (d *chunks) support() (s support) {
	r := &d.r
	if !r.Enter('{') {
		return s
	}
	for r.Next() {
		switch string(r.Name()) {
		case "segment":
			if !r.Enter('{') {
				continue
			}
			for r.Next() {
				switch string(r.Name()) {
				case "text":
					s.text, _ = r.Text()
				case "startIndex":
					s.start = d.offset()
				case "endIndex":
					s.end = d.offset()
				}
			}
		case "groundingChunkIndices":
			if r.Enter('[') {
				for r.Next() {
					if n, ok := r.Int(); ok && n >= 0 && n < maxSources && len(s.sources) < maxSources {
						s.sources = append(s.sources, int(n))
					}
				}
			}
		}
	}
	return s
}
