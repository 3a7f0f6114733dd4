package anthropic

import (
	"encoding/base64"
	"strings"
)

// safePrefix begins call ids that stand for ids which the protocol does not take.
const safePrefix = "gwx_"

// SafeID is a call id with A-Z, a-z, 0-9, _ and - alone, which is all that the
// protocol takes. An id that is like that already stays; any other one becomes
// gwx_ and its bytes in base64url, so that PlainID finds it again. Two ids never
// become one: an id that only looks like a mapped one is mapped too.
func SafeID(id string) string {
	if id != "" && idBytes(id) && !strings.HasPrefix(id, safePrefix) {
		return id
	}
	return safePrefix + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// PlainID undoes SafeID. An id that SafeID did not make stays.
func PlainID(id string) string {
	text, ok := strings.CutPrefix(id, safePrefix)
	if !ok {
		return id
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || SafeID(string(plain)) != id {
		return id
	}
	return string(plain)
}

func idBytes(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
