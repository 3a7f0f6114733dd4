package gemini

import (
	"encoding/base64"
	"net/http"
	"path"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

func (d *requestDecoder) inline(at string) *llm.Media {
	m := &llm.Media{}
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return m
	}
	for d.r.Next() {
		switch string(d.key()) {
		case "mimeType":
			m.MIME = d.word(at, ".mimeType")
		case "data":
			m.Data = standardBase64(d.text(at, ".data"))
		case "displayName":
			m.Name = d.text(at, ".displayName")
		default:
			d.unknown(at)
		}
	}
	if m.Data == "" {
		d.refuse(at+".data", "must be base64 of at least one byte")
	}
	m.Kind = mediaKind(m.MIME, "")
	return m
}

func (d *requestDecoder) file(at string) *llm.Media {
	m := &llm.Media{}
	if !d.object(at) {
		d.refuse(at, "must be an object")
		return m
	}
	for d.r.Next() {
		switch string(d.key()) {
		case "mimeType":
			m.MIME = d.word(at, ".mimeType")
		case "fileUri":
			m.URL = d.text(at, ".fileUri")
		case "displayName":
			m.Name = d.text(at, ".displayName")
		default:
			d.unknown(at)
		}
	}
	if m.URL == "" {
		d.refuse(at+".fileUri", "must be the URI of a file")
	}
	m.Kind = mediaKind(m.MIME, m.URL)
	return m
}

// standardBase64 is data in the standard alphabet. Protobuf's JSON form takes that of
// URLs too, which the vendor's Python SDK writes, and no padding.
func standardBase64(data string) string {
	if strings.IndexByte(data, '-') >= 0 || strings.IndexByte(data, '_') >= 0 {
		data = strings.NewReplacer("-", "+", "_", "/").Replace(data)
	}
	if short := -len(data) & 3; short > 0 {
		data += "==="[:short]
	}
	return data
}

// mediaKind is the modality by the type, or by what the address ends in.
func mediaKind(mime, url string) llm.MediaKind {
	if mime == "" {
		mime = mimeOf(url)
	}
	switch family, _, _ := strings.Cut(strings.ToLower(mime), "/"); family {
	case "image":
		return llm.Image
	case "audio":
		return llm.Audio
	case "video":
		return llm.Video
	}
	return llm.Document
}

// endings are the types of files by their names, of those that the provider takes.
var endings = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
	".heic": "image/heic", ".heif": "image/heif", ".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown",
	".html": "text/html", ".csv": "text/csv", ".json": "application/json", ".wav": "audio/wav", ".mp3": "audio/mpeg",
	".flac": "audio/flac", ".ogg": "audio/ogg", ".aac": "audio/aac", ".mp4": "video/mp4", ".mov": "video/quicktime",
	".webm": "video/webm",
}

// mimeOf guesses the type of a file by its address; empty if it does not tell.
func mimeOf(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i]
	}
	for _, host := range [...]string{"https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/"} {
		if strings.HasPrefix(url, host) {
			return "video/*"
		}
	}
	return endings[strings.ToLower(path.Ext(url))]
}

// mimeOfData tells the type of base64 data by its first bytes, for data that came
// without one.
func mimeOfData(m *llm.Media) string {
	head, _ := base64.StdEncoding.DecodeString(m.Data[:min(len(m.Data), 684)&^3])
	mime, _, _ := strings.Cut(http.DetectContentType(head), ";")
	if mime == "application/octet-stream" && m.Name != "" {
		if byName := mimeOf(m.Name); byName != "" {
			return byName
		}
	}
	return mime
}
