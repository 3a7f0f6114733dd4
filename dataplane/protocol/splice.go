package protocol

import "slices"

// Span is a range of bytes of a body: from From up to, not including, To. The
// zero Span stands for something that is not there.
type Span struct{ From, To int }

// IsZero reports whether the thing is not there.
func (s Span) IsZero() bool { return s == Span{} }

// Len is the number of bytes.
func (s Span) Len() int { return s.To - s.From }

// Of returns the bytes of body in the range.
func (s Span) Of(body []byte) []byte { return body[s.From:s.To] }

// Edit replaces a range of a body by other bytes. An empty range inserts.
type Edit struct {
	At   Span
	Text []byte
}

// Splice returns body with the edits applied, as parts to be written one after
// another. Parts alias body and the edits' texts; nothing is copied. Edits may
// come in any order and must not overlap; one that starts before the end of
// another is left out.
func Splice(body []byte, edits []Edit) [][]byte {
	if len(edits) == 0 {
		return [][]byte{body}
	}
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.At.From - b.At.From })
	parts := make([][]byte, 0, 2*len(edits)+1)
	at := 0
	for _, e := range edits {
		if e.At.From < at || e.At.To > len(body) || e.At.To < e.At.From {
			continue
		}
		parts = appendPart(parts, body[at:e.At.From])
		parts = appendPart(parts, e.Text)
		at = e.At.To
	}
	return appendPart(parts, body[at:])
}

func appendPart(parts [][]byte, p []byte) [][]byte {
	if len(p) == 0 {
		return parts
	}
	return append(parts, p)
}
