package gemini

import (
	"encoding/base64"
	"strings"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// bypass is what the vendor documents in place of the signature of a call that it did
// not make itself or that was lost (ai.google.dev, "Thought signatures").
const bypass = "skip_thought_signature_validator"

// bypassBytes is bypass as the bytes that a signature is. It goes out with the first call
// of an answer that another vendor made, and is no state when it comes back.
const bypassBytes = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="

// blank is the text of a thought of which nothing may be shown.
const blank = " "

// A signature is bytes, in JSON base64 of the standard alphabet, and SDKs refuse a whole
// answer for one that is not. A token in its place is a text, so its bytes are written.

// wrapToken makes a token fit for thoughtSignature. A signature stays as it is.
func wrapToken(s string) string {
	if stateid.IsToken(s) {
		return base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

// tokenHead is how every wrapped token begins: base64 of the first bytes of its marker.
const tokenHead = "Z3dz"

// unwrapToken is the token that wrapToken wrapped. SDKs may send it back in the alphabet
// of URLs. A signature stays as it is.
func unwrapToken(s string) string {
	if !strings.HasPrefix(s, tokenHead) {
		return s
	}
	if b, err := base64.StdEncoding.DecodeString(standardBase64(s)); err == nil && stateid.IsToken(string(b)) {
		return string(b)
	}
	return s
}
