package sse

import "bytes"

// AppendEvent appends an event with the given name and data to dst. An empty
// name leaves the event line out. Data with line breaks becomes several data
// lines. The name must not contain a line break.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	for {
		line, rest := data, []byte(nil)
		i := lineEndIn(data)
		if i >= 0 {
			line, rest = data[:i], data[i+1:]
			if data[i] == '\r' && len(rest) > 0 && rest[0] == '\n' {
				rest = rest[1:]
			}
		}
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if i < 0 {
			break
		}
		data = rest
	}
	return append(dst, '\n')
}

// AppendComment appends a comment, which clients ignore, to dst. Line breaks in
// text become spaces. Gemini's Go SDK takes comments for errors: never write
// one to a Gemini stream.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	at := len(dst)
	dst = append(dst, text...)
	for i := range dst[at:] {
		if c := dst[at+i]; c == '\n' || c == '\r' {
			dst[at+i] = ' '
		}
	}
	return append(dst, "\n\n"...)
}

// IsDone reports whether data is the "[DONE]" that ends OpenAI's Chat streams.
func IsDone(data []byte) bool {
	return bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]"))
}
