package stateid

import "strings"

// lengthSize is how many characters at the end of a joined call id give the length
// of its token: 24 bits in base64url.
const lengthSize = 4

// JoinCallID returns a call id that carries a token, for protocols with no field
// for it:
//
//	<call id>_<token><length of the token>
//
// It has no other characters than its parts have. The length stands at the end
// because both parts may contain anything the other has, call ids that carry
// another gateway's token included. Without a token the call id comes back as it is.
func JoinCallID(callID, token string) string {
	if token == "" {
		return callID
	}
	n := len(token)
	return callID + "_" + token + encode([]byte{byte(n >> 16), byte(n >> 8), byte(n)})
}

// SplitCallID returns the parts of a call id that JoinCallID made. ok is false, and
// callID is id, if it carries no token. Whether the token opens is for Open to say.
func SplitCallID(id string) (callID, token string, ok bool) {
	end := len(id) - lengthSize
	if end < 0 {
		return id, "", false
	}
	b, ok := decode(id[end:])
	if !ok {
		return id, "", false
	}
	from := end - (int(b[0])<<16 | int(b[1])<<8 | int(b[2]))
	if from < 1 || id[from-1] != '_' || !strings.HasPrefix(id[from:end], tokenMarker) || !IsToken(id[from:end]) {
		return id, "", false
	}
	return id[:from-1], id[from:end], true
}
