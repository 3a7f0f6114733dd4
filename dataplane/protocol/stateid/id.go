package stateid

import (
	"strings"

	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Bounds on ids, in bytes.
const (
	// MaxID is the longest id that is wrapped. The vendors' have about 60 bytes.
	MaxID = 512
	// MaxWrapped is the longest text that Unwrap looks at.
	MaxWrapped = 2048

	maxOwner = 255 // of either part of an Owner; one byte holds the length
)

// marker begins what follows a wrapped id's prefix. Its digit is the version of
// the layout.
const marker = "gw1_"

// Owner says to whom an object at a provider belongs.
type Owner struct {
	Scope    string // state scope: all accounts that see the object share it
	Upstream string // id of the upstream through which it was made
}

// Wrap returns the id of a provider's object with its owner in it:
//
//	resp_abc            -> resp_gw1_<payload>
//	file-abc            -> file_gw1_<payload>
//	cachedContents/abc  -> cachedContents/gw1_<payload>
//
// What follows the last slash has the characters A-Z, a-z, 0-9, _ and - alone. The
// same input gives the same text, on any node. An id that is empty or longer than
// MaxID, or whose owner is longer than 255 bytes, comes back as it is, and so does
// every id if k is nil.
func (k *Key) Wrap(id string, o Owner) string {
	if k == nil || id == "" || len(id) > MaxID || len(o.Scope) > maxOwner || len(o.Upstream) > maxOwner {
		return id
	}
	place, name := cutPlace(id)
	kind, sep, tail := cutKind(name)
	if kind != "" && !alphabetic(kind) || tail == "" {
		kind, sep, tail = "", 0, name
	}
	if tail == "" {
		return id // a collection, not an object in one
	}
	payload := make([]byte, 1, 128)
	var head byte
	payload, head = appendOwner(payload, o)
	form, packed := pack(tail)
	payload = append(payload, packed...)
	head |= byte(form) << formShift
	if sep == '-' {
		head |= dashed
	}
	payload[0] = head

	kept := place + kindPrefix(kind) + marker
	sum, ok := mac(k.ids, bound(kept), payload)
	if !ok {
		return id
	}
	return kept + encode(append(payload, sum[:]...))
}

// Unwrap returns what Wrap was given. ok is false for an id that is not wrapped, was
// changed, or belongs to another tenant; it is then to be taken for an id that the
// gateway did not make.
func (k *Key) Unwrap(wrapped string) (id string, o Owner, ok bool) {
	if k == nil || len(wrapped) > MaxWrapped {
		return "", Owner{}, false
	}
	kept, place, kind, text, ok := cutMarker(wrapped)
	if !ok {
		return "", Owner{}, false
	}
	sealed, ok := decode(text)
	if !ok {
		return "", Owner{}, false
	}
	payload, ok := verify(k.ids, bound(kept), sealed)
	if !ok || len(payload) < 1 {
		return "", Owner{}, false
	}
	head := payload[0]
	o, rest, ok := cutOwner(payload)
	if !ok {
		return "", Owner{}, false
	}
	tail, ok := unpack(form(head>>formShift&formMask), rest)
	if !ok {
		return "", Owner{}, false
	}
	switch {
	case kind == "":
		return place + tail, o, true
	case head&dashed != 0:
		return place + kind + "-" + tail, o, true
	}
	return place + kind + "_" + tail, o, true
}

// IsWrapped reports whether s looks like a wrapped id, whoever made it.
func IsWrapped(s string) bool {
	if len(s) > MaxWrapped {
		return false
	}
	_, _, _, text, ok := cutMarker(s)
	return ok && len(text) >= 4*(1+macSize)/3 && plain(text)
}

// The bits of a payload's first byte. Two bits each say how scope and upstream
// are written.
const (
	scopeShift    = 0
	upstreamShift = 2
	formShift     = 4
	formMask      = 7
	dashed        = 1 << 7 // a dash follows the kind, not an underscore

	partText       = 0 // a length byte and the text
	partUpstream   = 1 // the 16 bytes of an upstream's id
	partCredential = 2 // the 16 bytes of a credential's id; of a scope alone
	partSame       = 3 // a scope that is the upstream's id; an upstream that is empty
)

func appendOwner(b []byte, o Owner) ([]byte, byte) {
	var scope, upstream byte
	if o.Scope == o.Upstream && o.Scope != "" {
		scope = partSame
	} else {
		b, scope = appendPart(b, o.Scope)
	}
	if o.Upstream == "" {
		upstream = partSame
	} else {
		b, upstream = appendPart(b, o.Upstream)
	}
	return b, scope<<scopeShift | upstream<<upstreamShift
}

// appendPart writes an id of ours as its 16 bytes, which is less than half of it.
func appendPart(b []byte, s string) ([]byte, byte) {
	if p, uuid, err := ident.Parse(s); err == nil {
		switch p {
		case ident.Upstream:
			return append(b, uuid[:]...), partUpstream
		case ident.UpstreamCredential:
			return append(b, uuid[:]...), partCredential
		}
	}
	return append(append(b, byte(len(s))), s...), partText
}

// cutOwner reads what appendOwner wrote after the first byte of payload.
func cutOwner(payload []byte) (o Owner, rest []byte, ok bool) {
	head, rest := payload[0], payload[1:]
	scope, upstream := head>>scopeShift&3, head>>upstreamShift&3
	if scope != partSame {
		if o.Scope, rest, ok = cutPart(rest, scope); !ok {
			return Owner{}, nil, false
		}
	}
	if upstream != partSame {
		if o.Upstream, rest, ok = cutPart(rest, upstream); !ok {
			return Owner{}, nil, false
		}
	}
	if scope == partSame {
		o.Scope = o.Upstream
	}
	return o, rest, true
}

func cutPart(b []byte, how byte) (s string, rest []byte, ok bool) {
	if how == partText {
		if len(b) < 1 || len(b) < 1+int(b[0]) {
			return "", nil, false
		}
		n := 1 + int(b[0])
		return string(b[1:n]), b[n:], true
	}
	if len(b) < 16 {
		return "", nil, false
	}
	p := ident.Upstream
	if how == partCredential {
		p = ident.UpstreamCredential
	}
	return ident.Format(p, [16]byte(b[:16])), b[16:], true
}

// cutPlace splits a resource name or URL after its last slash.
func cutPlace(id string) (place, name string) {
	i := strings.LastIndexByte(id, '/') + 1
	return id[:i], id[i:]
}

// cutKind splits resp_abc and file-abc at their first separator. sep is 0 if there
// is none.
func cutKind(name string) (kind string, sep byte, tail string) {
	i := strings.IndexAny(name, "_-")
	if i <= 0 {
		return "", 0, name
	}
	return name[:i], name[i], name[i+1:]
}

func kindPrefix(kind string) string {
	if kind == "" {
		return ""
	}
	return kind + "_"
}

// cutMarker splits a wrapped id at its marker. kept is all that stands before the
// payload.
func cutMarker(wrapped string) (kept, place, kind, text string, ok bool) {
	place, name := cutPlace(wrapped)
	if text, ok = strings.CutPrefix(name, marker); !ok {
		var sep byte
		if kind, sep, name = cutKind(name); sep != '_' || !alphabetic(kind) {
			return "", "", "", "", false
		}
		if text, ok = strings.CutPrefix(name, marker); !ok {
			return "", "", "", "", false
		}
	}
	return wrapped[:len(wrapped)-len(text)], place, kind, text, true
}

// bound is the part of kept that the MAC binds: kind and collection. A service
// names one object both files/abc and https://host/version/files/abc, and clients
// make the one from the other.
func bound(kept string) string {
	at := strings.LastIndexByte(kept, '/')
	if at < 0 {
		return kept
	}
	return kept[strings.LastIndexByte(kept[:at], '/')+1:]
}

func alphabetic(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return s != ""
}
