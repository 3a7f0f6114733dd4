package stateid

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// form says how a text is packed. Vendors' ids and states are texts over small
// alphabets; written as the bits they hold they do not grow when the whole is
// written in base 64. The numbers are part of what clients hold.
type form byte

const (
	formText form = iota // as it is
	formHex              // lower-case hexadecimal
	formURL0             // characters of base64url, 0 to 3 short of a multiple of four
	formURL1
	formURL2
	formURL3
	formStd // base 64, padded; states alone
)

// strict refuses trailing bits that are not zero, of which one text would have many.
var (
	strictURL = base64.RawURLEncoding.Strict()
	strictStd = base64.StdEncoding.Strict()
)

// pack returns the shortest form of s.
func pack(s string) (form, []byte) {
	if b, err := hex.DecodeString(s); err == nil && hex.EncodeToString(b) == s {
		return formHex, b
	}
	if plain(s) {
		short := -len(s) & 3
		// 'A' stands for six zero bits.
		if b, err := strictURL.DecodeString(s + "AAA"[:short]); err == nil {
			return formURL0 + form(short), b
		}
	}
	if len(s) > 0 && len(s)%4 == 0 && !strings.ContainsAny(s, "\r\n") {
		if b, err := strictStd.DecodeString(s); err == nil {
			return formStd, b
		}
	}
	return formText, []byte(s)
}

// unpack returns the text that pack was given.
func unpack(f form, b []byte) (string, bool) {
	switch f {
	case formText:
		return string(b), true
	case formHex:
		return hex.EncodeToString(b), true
	case formURL0, formURL1, formURL2, formURL3:
		s := strictURL.EncodeToString(b)
		short := int(f - formURL0)
		if len(s)%4 != 0 || len(s) < short || strings.Trim(s[len(s)-short:], "A") != "" {
			return "", false
		}
		return s[:len(s)-short], true
	case formStd:
		return strictStd.EncodeToString(b), true
	}
	return "", false
}

func encode(b []byte) string { return strictURL.EncodeToString(b) }

// decode reads what encode wrote and nothing else: the library skips line breaks.
func decode(s string) ([]byte, bool) {
	if !plain(s) {
		return nil, false
	}
	b, err := strictURL.DecodeString(s)
	return b, err == nil
}

// plain reports whether s consists of A-Z, a-z, 0-9, _ and - alone.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
