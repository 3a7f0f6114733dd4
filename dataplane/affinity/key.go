package affinity

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// Kind is how firmly a request is tied to earlier ones.
type Kind uint8

// The kinds.
const (
	None   Kind = iota // nothing to go by
	Weak               // the prompt alone
	Strong             // it names its session
	Pinned             // it names an object that one upstream stores
)

var kindNames = [...]string{"none", "weak", "strong", "pinned"}

// String is the name used in records.
func (k Kind) String() string { return kindNames[k] }

// KindNamed returns the kind of that name.
func KindNamed(name string) (Kind, bool) {
	for k, n := range kindNames {
		if n == name {
			return Kind(k), true
		}
	}
	return None, false
}

// Block is a part of a prompt. Upstreams cache them in this order.
type Block uint8

// The blocks. A prompt has at most one of each but Message.
const (
	Tools Block = iota
	System
	Params // settings that upstreams render into the prompt
	Message
)

var blockNames = [...]string{"tools", "system", "params", "message"}

// String is the name that goes into the hashes.
func (b Block) String() string { return blockNames[b] }

// Hash is a keyed 128-bit hash.
type Hash struct{ Hi, Lo uint64 }

// IsZero reports that there is no hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// bytes is the hash, big endian.
func (h Hash) bytes() (b [16]byte) {
	binary.BigEndian.PutUint64(b[:8], h.Hi)
	binary.BigEndian.PutUint64(b[8:], h.Lo)
	return b
}

func (h Hash) hex() string {
	b := h.bytes()
	var text [32]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// MarshalText writes the hash as 32 hexadecimal digits; nothing for the zero hash.
func (h Hash) MarshalText() ([]byte, error) {
	if h.IsZero() {
		return nil, nil
	}
	return []byte(h.hex()), nil
}

// UnmarshalText reads what MarshalText wrote. It fails on anything else.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*h = Hash{}
		return nil
	}
	var b [16]byte
	if len(text) != 2*len(b) {
		return fmt.Errorf("a hash has %d hexadecimal digits, not %d", 2*len(b), len(text))
	}
	if _, err := hex.Decode(b[:], text); err != nil {
		return fmt.Errorf("read a hash: %w", err)
	}
	h.Hi, h.Lo = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	return nil
}

// Boundary is the end of a block.
type Boundary struct {
	Hash   Hash // of the tenant and of all blocks up to here
	Block  Block
	Tokens int64 // estimate of all blocks up to here
	Marked bool  // the block has an explicit cache marker
}

// Key is what a request shares with earlier ones. It holds hashes and numbers and the
// name of what it was taken from, never a text of the request.
type Key struct {
	Kind Kind

	// Source says what made the kind: "prefix", the name of a header, or that of a member
	// of the body such as "prompt_cache_key"; empty for None.
	Source string

	// Session is of tenant, consumer, end user, session and model; zero unless Strong.
	Session Hash

	// Root places a new conversation, the same on every node: the session, or the chain
	// up to the first message. Empty if Pinned, or if there is neither.
	Root string

	// Chain has the boundaries from the first to the last. Of more than maxChain, some in
	// the middle are left out.
	Chain []Boundary

	PromptTokens int64 // estimate of the whole prompt

	// PriorTokens is the estimate of what the request before this one sent: all before the
	// last turn of the assistant. 0 without such a turn.
	PriorTokens int64

	// Head is the chain up to the end of tools and system, zero without either, and
	// HeadTokens the estimate of its size.
	Head       Hash
	HeadTokens int64

	// Writes says that there are explicit cache markers.
	Writes bool

	// MinTTL is the longest lifetime that a cache marker asks for; 0 if none does.
	MinTTL time.Duration

	print     uint32
	unscaled  int64 // PromptTokens if a token were four bytes
	withMedia bool
}

// Fingerprint tells keys apart in records: 8 hexadecimal digits, the same for all
// requests of a session or, without one, of a conversation. Empty for None.
func (k *Key) Fingerprint() string {
	if k.Kind == None {
		return ""
	}
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], k.print)
	return hex.EncodeToString(b[:])
}
