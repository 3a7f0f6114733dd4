package wirejson

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// TextLen is the length in bytes of the text that raw, the inside of a JSON
// string, stands for: each escape counts as the UTF-8 it stands for.
func TextLen(raw []byte) int {
	n := 0
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return n + len(raw)
		}
		n += i
		if raw[i+1] != 'u' || i+6 > len(raw) {
			n++
			raw = raw[i+2:]
			continue
		}
		switch code, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16); {
		case err != nil || code >= 0x800 && (code < 0xd800 || code > 0xdfff):
			n += 3
		case code >= 0xd800, code >= 0x80:
			n += 2 // one half of a surrogate pair, which makes four bytes
		default:
			n++
		}
		raw = raw[i+6:]
	}
}

// Find looks for a member in compact or spaced JSON without parsing it: quoted is
// the member's name with its quotes. It returns what follows the colon, from the
// first byte of the value on, or nil.
//
// A match cannot lie inside a string, whose quotes would be escaped, but it can
// lie at any depth, and a name written with escapes is not found: use it only to
// decide whether reading properly is worth while, or for rough counts.
func Find(data, quoted []byte) []byte {
	for {
		i := bytes.Index(data, quoted)
		if i < 0 {
			return nil
		}
		data = data[i+len(quoted):]
		rest := skipSpace(data)
		if len(rest) == 0 || rest[0] != ':' {
			continue // a string value, not a name
		}
		if rest = skipSpace(rest[1:]); len(rest) > 0 {
			return rest
		}
		return nil
	}
}

// StringAt returns the inside of the JSON string at the start of b and what
// follows it, or false if b starts with something else or the string has no end.
func StringAt(b []byte) (raw, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b, false
	}
	b = b[1:]
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return nil, nil, false
		}
		at += i
		slashes := 0
		for slashes < at && b[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return b[:at], b[at+1:], true
		}
		at++
	}
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\r' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// AppendString appends s as a JSON string to dst. Bytes that are no UTF-8 become
// replacement characters.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return quoted(dst, bytesOf(s))
}

// AppendMember appends a comma, unless dst ends where a member may stand first,
// and the name of a member with its colon.
func AppendMember(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' && dst[n-1] != '[' {
		dst = append(dst, ',')
	}
	return append(AppendString(dst, name), ':')
}

// AppendStringMember appends a member with a string value.
func AppendStringMember(dst []byte, name, value string) []byte {
	return AppendString(AppendMember(dst, name), value)
}

// AppendIntMember appends a member with an integer value.
func AppendIntMember(dst []byte, name string, value int64) []byte {
	return strconv.AppendInt(AppendMember(dst, name), value, 10)
}

// AppendRawMember appends a member whose value is JSON already.
func AppendRawMember(dst []byte, name string, value []byte) []byte {
	return append(AppendMember(dst, name), value...)
}

// AppendBoolMember appends a member with a truth value.
func AppendBoolMember(dst []byte, name string, value bool) []byte {
	return strconv.AppendBool(AppendMember(dst, name), value)
}

// AppendText appends text, which may hold invalid UTF-8, as a JSON string to dst.
func AppendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	return quoted(dst, text)
}

// AppendElement appends a comma, unless dst ends where an element may stand first.
func AppendElement(dst []byte) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '[' {
		dst = append(dst, ',')
	}
	return dst
}
