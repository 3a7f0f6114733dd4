package gemini

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Bounds on the lists of a request. They are far above what anybody sends, and keep
// what one body can make of memory in proportion to its size.
const (
	maxContents = 100_000
	maxParts    = 10_000 // of one content, and of one result
	maxTools    = 1024
	maxStops    = 64
	maxNames    = 1024 // of functions that may be called
	maxPending  = 1024 // calls without a result that are looked through for one
	maxWord     = 512  // bytes of a name or a word
)

// requests keeps requestDecoders for the buffers of their readers.
type requests struct{ pool sync.Pool }

func (p *requests) get(body []byte) *requestDecoder {
	d, _ := p.pool.Get().(*requestDecoder)
	if d == nil {
		d = new(requestDecoder)
	}
	d.body, d.req = body, new(llm.Request)
	d.r.ResetStrict(body)
	return d
}

func (p *requests) put(d *requestDecoder) {
	d.r.Release()
	clear(d.pending[:cap(d.pending)])
	*d = requestDecoder{r: d.r, at: d.at[:0], camel: d.camel[:0], pending: d.pending[:0]}
	p.pool.Put(d)
}

// requestDecoder reads one request. The first thing that cannot be understood is kept
// in fault; reading goes on, as loops over members must run to their end.
type requestDecoder struct {
	r     wirejson.Reader
	body  []byte
	req   *llm.Request
	fault *fault.Error
	at    []int  // positions in the lists around what is read
	camel []byte // the last name that was written in another way

	mime    string    // generationConfig.responseMimeType
	pending []pending // calls without a result, oldest first
	calls   int       // calls so far that came without an id
}

// key is the name of the member at hand in camel case. Protobuf's JSON form takes the
// names of the .proto file too, such as inline_data. Valid until the value is read.
func (d *requestDecoder) key() []byte {
	name := d.r.Name()
	if bytes.IndexByte(name, '_') < 1 {
		return name
	}
	d.camel = appendCamel(d.camel[:0], name)
	return d.camel
}

func appendCamel(dst, name []byte) []byte {
	for i := 0; i < len(name); i++ {
		if name[i] == '_' && i > 0 && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z' {
			i++
			dst = append(dst, name[i]-'a'+'A')
			continue
		}
		dst = append(dst, name[i])
	}
	return dst
}

// where is a path with the positions at hand in its brackets.
func (d *requestDecoder) where(path string) string {
	var b strings.Builder
	for _, n := range d.at {
		before, after, ok := strings.Cut(path, "[]")
		if !ok {
			break
		}
		b.WriteString(before)
		b.WriteByte('[')
		b.WriteString(strconv.Itoa(n))
		b.WriteByte(']')
		path = after
	}
	return b.String() + path
}

// wrong tells that the value at path is not what it has to be.
func (d *requestDecoder) wrong(path, want string) { d.refuse(path, "must be "+want) }

func (d *requestDecoder) refuse(path, why string) {
	if d.fault == nil && d.r.Err() == nil { // a broken body is told as such
		at := d.where(path)
		d.fault = &fault.Error{Class: fault.InvalidRequest, Param: at, Public: "The field " + at + " " + why + "."}
	}
}

// unknown names the member at hand of the object at path.
func (d *requestDecoder) unknown(path string) {
	if d.r.Kind() == 'n' || len(d.req.Unknown) == llm.MaxUnknown {
		return
	}
	name := d.r.Name()
	if path != "" {
		path += "."
	}
	d.req.AddUnknown(path + strings.ToValidUTF8(string(name[:min(len(name), maxWord)]), "\uFFFD"))
}

// addExtra keeps a value for protocols that have the feature. Of a field that may stand
// in many contents the first value tells that it is used.
func (d *requestDecoder) addExtra(f llm.Feature, path string, raw []byte) {
	for _, e := range d.req.Extras {
		if e.Field == path {
			return
		}
	}
	d.req.Extras = append(d.req.Extras, llm.Extra{Feature: f, Field: path, Raw: raw})
}

// since is the body from an offset to what was read last. A broken body has none.
func (d *requestDecoder) since(from int) []byte {
	if d.r.Err() != nil || from > d.r.End() {
		return nil
	}
	return d.body[from:d.r.End()]
}

// The readers of values take a path in pieces, which are put together only if it is told.

// text reads a string; null is empty.
func (d *requestDecoder) text(path ...string) string {
	if d.r.Null() {
		return ""
	}
	s, ok := d.r.Text()
	if !ok {
		d.wrong(strings.Join(path, ""), "a string")
	}
	return s
}

// word reads a short string; null is empty.
func (d *requestDecoder) word(path ...string) string {
	if d.r.Null() {
		return ""
	}
	s, ok := d.r.String(6 * maxWord) // an escape has six bytes on the wire
	if !ok || len(s) > maxWord {
		d.wrong(strings.Join(path, ""), "a string of at most "+strconv.Itoa(maxWord)+" bytes")
		return ""
	}
	return s
}

// enum reads a word of an enum in capitals; null and the unspecified value are empty.
func (d *requestDecoder) enum(path string) string {
	s := strings.ToUpper(d.word(path))
	if unspecified(s) {
		return ""
	}
	return s
}

func unspecified(word string) bool {
	const end = "UNSPECIFIED"
	return len(word) >= len(end) && strings.EqualFold(word[len(word)-len(end):], end)
}

// flag reads a truth value; false for null.
func (d *requestDecoder) flag(path ...string) (value, stated bool) {
	if d.r.Null() {
		return false, false
	}
	v, ok := d.r.Bool()
	if !ok {
		d.wrong(strings.Join(path, ""), "true or false")
	}
	return v, ok
}

// number reads a number as it is written; empty for null.
func (d *requestDecoder) number(path string) llm.Number {
	if d.r.Null() {
		return ""
	}
	n := d.r.Number()
	if n == "" {
		d.wrong(path, "a number")
	}
	return llm.Number(n)
}

// integer reads an integer of at least least; stated is false for null.
func (d *requestDecoder) integer(path string, least int64) (n int64, stated bool) {
	if d.r.Null() {
		return 0, false
	}
	n, ok := d.r.Int()
	if !ok || n < least {
		d.wrong(path, "an integer of at least "+strconv.FormatInt(least, 10))
		return 0, false
	}
	return n, true
}

// object steps into an object; false for null.
func (d *requestDecoder) object(path string) bool {
	if d.r.Null() {
		return false
	}
	if d.r.Kind() != '{' {
		d.wrong(path, "an object")
	}
	return d.r.Enter('{')
}

// schema reads a JSON object as it stands; nil for null.
func (d *requestDecoder) schema(path ...string) []byte {
	switch d.r.Kind() {
	case 'n':
		d.r.Skip()
		return nil
	case '{':
	default:
		d.wrong(strings.Join(path, ""), "an object")
	}
	return d.r.Value()
}

// each reads the elements of a list; null is empty, and one object stands for a list
// of it, as protobuf's JSON form has it.
func (d *requestDecoder) each(path string, limit int, element func()) {
	if d.r.Null() {
		return
	}
	top := len(d.at)
	if d.r.Kind() == '{' {
		d.at = append(d.at, 0)
		element()
		d.at = d.at[:top]
		return
	}
	if d.r.Kind() != '[' {
		d.wrong(path, "a list")
	}
	if !d.r.Enter('[') {
		return
	}
	d.at = append(d.at, 0)
	for n := 0; d.r.Next(); n++ {
		if n == limit {
			d.at = d.at[:top]
			d.refuse(path, "has more than "+strconv.Itoa(limit)+" elements")
			d.at = append(d.at, n)
		}
		if d.fault == nil {
			d.at[top] = n
			element()
		}
	}
	d.at = d.at[:top]
}
