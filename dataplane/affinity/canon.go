package affinity

import (
	"bytes"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

const (
	// maxDepth is how deep a value is looked into. A body that was read strictly nests
	// less than that; what nests deeper stays as it is.
	maxDepth = wirejson.MaxDepth + 10

	// A message or tool of more members is hashed in the order in which they came.
	maxParts = 1024

	// A member in more pieces is read twice. To keep them all would take many times the
	// memory of the body.
	maxCuts = 64 << 10

	// streamCuts is how many pieces are gathered where they need no order.
	streamCuts = 1024
)

// canon finds and hashes the canonical form of JSON values: their bytes without white
// space between tokens and without the members that mark caches. It keeps ranges of the
// body and copies nothing. The body must have been found valid; the form of other bytes is
// of no use, but finding it ends and does not fail.
type canon struct {
	hash  xxh3.Hasher
	body  []byte
	end   int      // of what is looked at
	media []string // names of members whose values are media

	cuts  []protocol.Span // the canonical form of the value at hand
	parts []member        // of the message or tool at hand
	flow  bool            // cuts may be hashed at once
	size  int             // bytes of the block so far
	quiet bool            // inside media

	mediaBytes int // of them, bytes in media
	mediaCount int
	marked     bool          // the block has a cache marker
	ttl        time.Duration // the longest that a marker asks for
}

// member is a member of a message or tool: where its name stands, and the cuts that it
// consists of.
type member struct {
	name     protocol.Span // quotes included
	from, to int           // in canon.cuts; from is again if there were too many
}

// again stands for the cuts of a member that has too many to be kept.
const again = -1

// reset starts a block.
func (c *canon) reset() {
	c.cuts, c.parts, c.size, c.quiet = c.cuts[:0], c.parts[:0], 0, false
	c.mediaBytes, c.mediaCount, c.marked = 0, 0, false
}

func (c *canon) keep(from, to int) {
	c.size += to - from
	if n := len(c.cuts); n > 0 && c.cuts[n-1].To == from {
		c.cuts[n-1].To = to
		return
	}
	switch {
	case c.flow && len(c.cuts) == streamCuts:
		c.pour(c.cuts)
		c.cuts = c.cuts[:0]
	case len(c.cuts) == maxCuts:
		return // list finds them too many
	}
	c.cuts = append(c.cuts, protocol.Span{From: from, To: to})
}

func (c *canon) pour(cuts []protocol.Span) {
	for _, cut := range cuts {
		_, _ = c.hash.Write(cut.Of(c.body))
	}
}

// plain hashes the value that starts at at, its members in the order in which they came,
// and returns its end.
func (c *canon) plain(at int) int {
	c.cuts, c.flow = c.cuts[:0], true
	end := c.value(at, 0)
	c.pour(c.cuts)
	c.cuts, c.flow = c.cuts[:0], false
	return end
}

// ordered hashes the message or tool that list has found.
func (c *canon) ordered() {
	_, _ = c.hash.WriteString("{")
	for i, m := range c.parts {
		if i > 0 {
			_, _ = c.hash.WriteString(",")
		}
		if m.from == again {
			c.repeat(m)
			continue
		}
		c.pour(c.cuts[m.from:m.to])
	}
	_, _ = c.hash.WriteString("}")
}

// repeat reads a member once more, and hashes it meanwhile.
func (c *canon) repeat(m member) {
	size, media, count, cuts := c.size, c.mediaBytes, c.mediaCount, c.cuts
	c.cuts, c.flow = nil, true
	_, value := c.name(m.name.From)
	c.pair(m.name, value, 0)
	c.pour(c.cuts)
	c.size, c.mediaBytes, c.mediaCount, c.cuts, c.flow = size, media, count, cuts, false
}

// space is the first place from at on that is no white space.
func (c *canon) space(at int) int {
	for at < c.end && c.body[at] <= ' ' {
		at++
	}
	return at
}

// str is the end of the string that starts at at.
func (c *canon) str(at int) int {
	for from := at + 1; from < c.end; {
		i := bytes.IndexByte(c.body[from:c.end], '"')
		if i < 0 {
			break
		}
		quote := from + i
		slashes := 0
		for c.body[quote-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1
		}
		from = quote + 1
	}
	return c.end
}

// word is the end of the number or literal that starts at at. It moves by one at least.
func (c *canon) word(at int) int {
	for at++; at < c.end; at++ {
		switch b := c.body[at]; {
		case b <= ' ', b == ',', b == '}', b == ']', b == '"', b == '{', b == '[', b == ':':
			return at
		}
	}
	return min(at, c.end)
}

// skip is the end of the value that starts at at, which is not kept.
func (c *canon) skip(at int) int {
	for depth := 0; at < c.end; {
		switch c.body[at] {
		case '"':
			at = c.str(at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		default:
			at++
			if depth == 0 {
				return c.word(at - 1)
			}
			continue
		}
		if depth <= 0 {
			return at
		}
	}
	return c.end
}

// value keeps the value that starts at at and returns its end.
func (c *canon) value(at, depth int) int {
	if at >= c.end {
		return c.end
	}
	var end int
	switch c.body[at] {
	case '{':
		if depth < maxDepth {
			return c.object(at, depth)
		}
		end = c.skip(at)
	case '[':
		if depth < maxDepth {
			return c.array(at, depth)
		}
		end = c.skip(at)
	case '"':
		end = c.str(at)
	default:
		end = c.word(at)
	}
	c.keep(at, end)
	return end
}

func (c *canon) array(at, depth int) int {
	c.keep(at, at+1)
	for at++; ; {
		switch at = c.space(at); {
		case at >= c.end:
			return c.end
		case c.body[at] == ']':
			c.keep(at, at+1)
			return at + 1
		case c.body[at] == ',':
			c.keep(at, at+1)
			at++
		default:
			at = c.value(at, depth+1)
		}
	}
}

func (c *canon) object(at, depth int) int {
	c.keep(at, at+1)
	comma := -1 // before the member that comes next; its own if none was kept yet
	for first, next := true, at+1; ; {
		switch at = c.space(next); {
		case at >= c.end:
			return c.end
		case c.body[at] == '}':
			c.keep(at, at+1)
			return at + 1
		case c.body[at] == ',':
			comma, next = at, at+1
			continue
		}
		name, value := c.name(at)
		if c.marker(name) {
			next = c.mark(value)
			continue
		}
		if !first && comma >= 0 {
			c.keep(comma, comma+1)
		}
		first = false
		next = c.pair(name, value, depth)
	}
}

// name reads the name of a member and finds where its value starts.
func (c *canon) name(at int) (name protocol.Span, value int) {
	var end int
	if c.body[at] == '"' {
		end = c.str(at)
	} else {
		end = c.word(at)
	}
	name = protocol.Span{From: at, To: end}
	if at = c.space(end); at < c.end && c.body[at] == ':' {
		at = c.space(at + 1)
	}
	return name, at
}

// pair keeps a member, quotes, colon and all, and returns its end.
func (c *canon) pair(name protocol.Span, value, depth int) int {
	c.keep(name.From, name.To)
	if colon := c.space(name.To); colon < c.end && c.body[colon] == ':' {
		c.keep(colon, colon+1)
	}
	if c.quiet || !c.isMedia(name) {
		return c.value(value, depth+1)
	}
	before := c.size
	c.quiet = true
	end := c.value(value, depth+1)
	c.quiet = false
	if c.showsMedia(value, end) {
		c.mediaBytes += c.size - before
		c.mediaCount++
	}
	return end
}

func (c *canon) isMedia(name protocol.Span) bool {
	for _, m := range c.media {
		if name.Len() == len(m)+2 && string(c.body[name.From+1:name.To-1]) == m {
			return true
		}
	}
	return false
}

// showsMedia reports whether the value of such a member is media indeed. Anthropic's
// sources can be plain text, too.
func (c *canon) showsMedia(from, to int) bool {
	if from >= to || c.body[from] != '{' && c.body[from] != '"' {
		return false
	}
	raw, _, _ := wirejson.StringAt(wirejson.Find(c.body[from:to], []byte(`"type"`)))
	return string(raw) != "text" && string(raw) != "content"
}

func (c *canon) marker(name protocol.Span) bool {
	switch name.Len() {
	case len(`"cache_control"`):
		return string(name.Of(c.body)) == `"cache_control"`
	case len(`"prompt_cache_breakpoint"`):
		return string(name.Of(c.body)) == `"prompt_cache_breakpoint"`
	}
	return false
}

// mark takes note of a marker and returns its end. null is none.
func (c *canon) mark(value int) int {
	end := c.skip(value)
	if value >= end || c.body[value] == 'n' {
		return end
	}
	c.marked = true
	c.ttl = max(c.ttl, ttlOf(c.body[value:end]))
	return end
}

// ttlOf is the lifetime that a marker asks for, such as "1h"; 0 if it asks for none.
func ttlOf(marker []byte) time.Duration {
	raw, _, _ := wirejson.StringAt(wirejson.Find(marker, []byte(`"ttl"`)))
	if len(raw) == 0 || len(raw) > 8 {
		return 0
	}
	d, err := time.ParseDuration(string(raw))
	if err != nil || d < 0 {
		return 0
	}
	return min(d, maxTTL)
}

// list finds the canonical form of a message or a tool: of its own members in the order of
// their names. It reports false, and has found nothing, if the value is no object or one
// that is too large for that.
func (c *canon) list(at int) (end int, ok bool) {
	c.cuts, c.parts = c.cuts[:0], c.parts[:0]
	if at >= c.end || c.body[at] != '{' {
		return at, false
	}
	size, media, count := c.size, c.mediaBytes, c.mediaCount
	for next := at + 1; ; {
		switch at = c.space(next); {
		case at >= c.end:
			end = c.end
		case c.body[at] == '}':
			end = at + 1
		case c.body[at] == ',':
			next = at + 1
			continue
		default:
			name, value := c.name(at)
			if c.marker(name) {
				next = c.mark(value)
				continue
			}
			// No member's cuts run into those of the one before: a comma is between.
			from := len(c.cuts)
			next = c.pair(name, value, 0)
			c.parts = append(c.parts, member{name, from, len(c.cuts)})
			if len(c.cuts) == maxCuts {
				c.cuts = c.cuts[:from]
				c.parts[len(c.parts)-1].from = again
			}
			if len(c.parts) > maxParts {
				c.cuts, c.parts = c.cuts[:0], c.parts[:0]
				c.size, c.mediaBytes, c.mediaCount = size, media, count
				return at, false
			}
			continue
		}
		break
	}
	slices.SortStableFunc(c.parts, func(a, b member) int {
		return bytes.Compare(a.name.Of(c.body), b.name.Of(c.body))
	})
	c.size += 1 + max(len(c.parts), 1) // braces and commas
	return end, true
}

// text is the inside of the member of that name of the message or tool at hand, if it is
// a string.
func (c *canon) text(name string) []byte {
	for _, m := range c.parts {
		if m.name.Len() == len(name)+2 && string(c.body[m.name.From+1:m.name.To-1]) == name {
			_, value := c.name(m.name.From)
			if value < c.end && c.body[value] == '"' {
				return bytes.Trim(c.body[value:c.str(value)], `"`)
			}
		}
	}
	return nil
}
