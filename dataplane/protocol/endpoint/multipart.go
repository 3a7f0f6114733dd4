package endpoint

import (
	"bytes"
	"fmt"
	"mime"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Bounds of a multipart body.
const (
	MaxParts      = 256
	maxPartHeader = 8 << 10
	maxBoundary   = 70 // RFC 2046, section 5.1.1
)

// part is one part of a multipart body. Files are looked at, never decoded.
type part struct {
	name  string
	file  bool
	value protocol.Span
	coded bool // it has a transfer encoding
}

// readParts splits a multipart body. It is strict where readers differ: whoever reads
// the body after the gateway must see the same parts. The boundary may stand nowhere but
// where it parts.
func readParts(body []byte, boundary string) ([]part, *fault.Error) {
	if len(boundary) > maxBoundary {
		return nil, badForm("The boundary of the body is longer than 70 bytes.")
	}
	mark := []byte("--" + boundary)
	at := 0
	if bytes.HasPrefix(body, []byte("\r\n")) {
		at = 2
	}
	if !bytes.HasPrefix(body[at:], mark) {
		return nil, badForm("The body does not begin with the boundary that its Content-Type names.")
	}
	at += len(mark)
	var parts []part
	for {
		rest := bytes.TrimLeft(body[at:], " \t")
		if end, ok := bytes.CutPrefix(rest, []byte("--")); ok {
			if len(bytes.TrimSpace(end)) > 0 {
				return nil, badForm("The body goes on after its last boundary.")
			}
			return parts, nil
		}
		if !bytes.HasPrefix(rest, []byte("\r\n")) {
			return nil, badForm("A boundary does not end its line with CR LF, or stands inside a part. Choose another boundary.")
		}
		if len(parts) == MaxParts {
			return nil, badForm(fmt.Sprintf("The body has more than %d parts.", MaxParts))
		}
		from := len(body) - len(rest) + 2
		next := bytes.Index(body[from:], mark)
		if next < 2 || !bytes.HasSuffix(body[:from+next], []byte("\r\n")) {
			if next < 0 {
				return nil, badForm("The body ends before its last boundary does.")
			}
			return nil, badForm("The boundary stands inside a part. Choose another boundary.")
		}
		p, f := readPart(body, from, from+next-2)
		if f != nil {
			return nil, f
		}
		parts = append(parts, p)
		at = from + next + len(mark)
	}
}

// readPart reads the part between two offsets.
func readPart(body []byte, from, to int) (part, *fault.Error) {
	head := body[from:to]
	n := bytes.Index(head[:min(len(head), maxPartHeader)], []byte("\r\n\r\n"))
	if n < 0 {
		return part{}, badForm("A part has no headers, more than 8 KiB of them, or none that end with an empty line.")
	}
	p := part{value: protocol.Span{From: from + n + 4, To: to}}
	for line := range bytes.SplitSeq(head[:n], []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || bytes.ContainsAny(line, "\r\n\x00") || len(name) == 0 || name[0] == ' ' || name[0] == '\t' {
			return part{}, badForm("A part has a header that cannot be read. Write one header a line.")
		}
		switch strings.ToLower(string(name)) {
		case "content-disposition":
			kind, params, err := mime.ParseMediaType(string(value))
			if err != nil || kind != "form-data" || params["name"] == "" || p.name != "" || bytes.Contains(value, []byte("name*")) {
				return part{}, badForm(`A part has no Content-Disposition of the form: form-data; name="..."`)
			}
			p.name = params["name"]
			_, p.file = params["filename"]
		case "content-transfer-encoding":
			switch strings.ToLower(string(bytes.TrimSpace(value))) {
			case "7bit", "8bit", "binary":
			default:
				p.coded = true
			}
		}
	}
	if p.name == "" {
		return part{}, badForm(`A part has no Content-Disposition of the form: form-data; name="..."`)
	}
	return p, nil
}

func badForm(text string) *fault.Error {
	return fault.New(fault.InvalidRequest, text+" The body must be multipart/form-data as RFC 7578 has it.")
}
