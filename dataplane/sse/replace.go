package sse

import "bytes"

// AppendReplaced appends f to dst with other data: every other line, and the way
// lines end, stay as they stood on the wire. A frame without data stays whole.
func AppendReplaced(dst []byte, f Frame, data []byte) []byte {
	raw, written := f.Raw, false
	for len(raw) > 0 {
		line, end := raw, []byte(nil)
		if i := lineEndIn(raw); i >= 0 {
			n := i + 1
			if raw[i] == '\r' && n < len(raw) && raw[n] == '\n' {
				n++
			}
			line, end = raw[:i], raw[i:n]
		}
		raw = raw[len(line)+len(end):]
		mark, field := []byte(nil), line
		if bytes.HasPrefix(field, []byte(byteOrderMark)) {
			mark, field = field[:len(byteOrderMark)], field[len(byteOrderMark):]
		}
		name, value, _ := bytes.Cut(field, []byte(":"))
		if string(name) != "data" {
			dst = append(append(dst, line...), end...)
			continue
		}
		if written {
			continue
		}
		written = true
		dst = append(dst, mark...)
		tight := len(value) > 0 && value[0] != ' '
		for rest := data; ; {
			part, more, found := bytes.Cut(rest, []byte("\n"))
			dst = append(dst, "data:"...)
			if !tight || len(part) > 0 && part[0] == ' ' {
				dst = append(dst, ' ')
			}
			dst = append(dst, part...)
			if !found {
				break
			}
			dst, rest = append(dst, orLF(end)...), more
		}
		dst = append(dst, end...)
	}
	return dst
}

func orLF(end []byte) []byte {
	if len(end) == 0 {
		return []byte("\n")
	}
	return end
}
