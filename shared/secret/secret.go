// Package secret holds text that must not reach a log, an error, a diff or a
// dump: keys, tokens, passwords. A Text prints as "[redacted]" however it is
// printed; only Reveal gives the text away, so a search for Reveal finds every
// place that does.
package secret

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/rs/zerolog"
)

// Redacted is what every encoding of a Text shows.
const Redacted = "[redacted]"

// Text is a secret. The zero value is empty. Copies share one text, so Wipe on
// one empties all. Reading and wiping are safe for concurrent use; assigning a
// Text or unmarshalling into it is not.
type Text struct {
	// A function, because fmt cannot call methods on unexported fields of a
	// surrounding struct. It would follow a pointer there when a verb does not
	// fit; of a function it prints an address at most. Nil holds no text.
	load func() *payload
}

type payload struct {
	mu    sync.RWMutex
	bytes []byte // guarded by mu; nil after Wipe
}

// New returns s as a secret. The string s itself stays in memory for as long as
// somebody refers to it; use FromBytes where that matters.
func New(s string) Text {
	return FromBytes([]byte(s))
}

// FromBytes returns b as a secret and takes b over: Wipe overwrites it.
func FromBytes(b []byte) Text {
	if len(b) == 0 {
		return Text{}
	}
	p := &payload{bytes: b}
	return Text{func() *payload { return p }}
}

// Reveal returns a copy of the text, "" if it is empty or wiped. The copy cannot
// be wiped; keep it no longer than the call that needs it.
func (t Text) Reveal() string {
	var s string
	t.read(func(b []byte) { s = string(b) })
	return s
}

// Use calls f with the text itself, without a copy. f must not keep or change
// the slice, and must not call Wipe. f gets nil if the text is empty or wiped.
func (t Text) Use(f func([]byte)) { t.read(f) }

// IsZero reports whether the text is empty or wiped.
func (t Text) IsZero() bool {
	empty := true
	t.read(func(b []byte) { empty = len(b) == 0 })
	return empty
}

// Equal reports whether both texts are the same. Its time depends on the
// lengths alone.
func (t Text) Equal(o Text) bool {
	// Digests have one length, and comparing them holds no two locks at once.
	a, b := t.sum(), o.sum()
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// Fingerprint returns the first 8 hex digits of the text's SHA-256, by which
// people can tell two secrets apart in logs and consoles, or "" if the text is
// empty. It is meant for keys of high entropy: a guessable password can be
// confirmed from it.
func (t Text) Fingerprint() string {
	if t.IsZero() {
		return ""
	}
	sum := t.sum()
	return hex.EncodeToString(sum[:4])
}

// Wipe overwrites the text with zeros and empties it and all its copies.
func (t Text) Wipe() {
	if t.load == nil {
		return
	}
	p := t.load()
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.bytes)
	p.bytes = nil
}

func (t Text) read(f func([]byte)) {
	if t.load == nil {
		f(nil)
		return
	}
	p := t.load()
	p.mu.RLock()
	defer p.mu.RUnlock()
	f(p.bytes)
}

func (t Text) sum() [sha256.Size]byte {
	var sum [sha256.Size]byte
	t.read(func(b []byte) { sum = sha256.Sum256(b) })
	return sum
}

// String returns "[redacted]".
func (Text) String() string { return Redacted }

// GoString returns "[redacted]".
func (Text) GoString() string { return Redacted }

// Format writes "[redacted]" for every verb and flag.
func (Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// MarshalText returns "[redacted]"; encoding/json and others use it.
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// MarshalJSON returns "[redacted]" as a JSON string.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalBinary returns "[redacted]"; encoding/gob uses it.
func (Text) MarshalBinary() ([]byte, error) { return []byte(Redacted), nil }

// MarshalYAML returns "[redacted]".
func (Text) MarshalYAML() (any, error) { return Redacted, nil }

// LogValue returns "[redacted]" for log/slog.
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalZerologObject writes {"secret":"[redacted]"}.
func (Text) MarshalZerologObject(e *zerolog.Event) { e.Str("secret", Redacted) }

// UnmarshalText sets the text to a copy of b, so that a secret can be read from
// JSON, YAML and settings. The text "[redacted]" is refused: it is a value that
// was printed, not a secret.
func (t *Text) UnmarshalText(b []byte) error {
	if string(b) == Redacted {
		return fmt.Errorf("secret is the text %q: give the secret itself", Redacted)
	}
	*t = New(string(b))
	return nil
}
