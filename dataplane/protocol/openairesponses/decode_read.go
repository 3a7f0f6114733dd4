package openairesponses

import (
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
	maxItems = 100_000
	maxParts = 10_000 // of one item
	maxTools = 1024
	maxWords = 64  // of a list of words
	maxName  = 512 // bytes of a name or a word
)

// decoders keeps requestDecoders for the buffers of their readers.
type decoders struct{ pool sync.Pool }

func (p *decoders) get(body []byte) *requestDecoder {
	d, _ := p.pool.Get().(*requestDecoder)
	if d == nil {
		d = new(requestDecoder)
	}
	d.req = new(llm.Request)
	d.outer.ResetStrict(body)
	d.r, d.base = &d.outer, body
	return d
}

func (p *decoders) put(d *requestDecoder) {
	d.outer.Release()
	d.inner.Release()
	*d = requestDecoder{outer: d.outer, inner: d.inner, at: d.at[:0], open: d.open[:0]}
	p.pool.Put(d)
}

// requestDecoder reads one request. What cannot be understood is kept in fault, the
// first of it; reading goes on, as a loop over members must run to its end.
type requestDecoder struct {
	outer, inner wirejson.Reader
	r            *wirejson.Reader // the one that reads
	base         []byte           // what it reads
	req          *llm.Request
	fault        *fault.Error
	at           []int // positions in the lists around what is read

	instructions  string
	user, endUser string
	userRaw       []byte
	stored        bool      // the conversation begins with what the provider keeps
	open          []pending // calls that wait for their results
}

// sub reads a value that was passed over before. Not within another one.
func (d *requestDecoder) sub(raw []byte, read func()) {
	r, base := d.r, d.base
	d.inner.ResetStrict(raw)
	d.r, d.base = &d.inner, raw
	read()
	d.r, d.base = r, base
}

// span is what was read since from; nothing where the body breaks off.
func (d *requestDecoder) span(from int) []byte {
	return d.base[min(from, d.r.End()):d.r.End()]
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
func (d *requestDecoder) wrong(path, want string) {
	d.refuse(path, "must be "+want)
}

func (d *requestDecoder) refuse(path, why string) {
	if d.fault == nil && d.r.Err() == nil { // a broken body is told as such
		at := d.where(path)
		d.fault = &fault.Error{Class: fault.InvalidRequest, Param: at, Public: "The member " + at + " " + why + "."}
	}
}

// unknown names the member at hand of the object at path.
func (d *requestDecoder) unknown(path string) {
	if d.r.Kind() == 'n' || len(d.req.Unknown) == llm.MaxUnknown {
		return
	}
	name := string(d.r.Name()[:min(len(d.r.Name()), maxName)])
	if path = d.where(path); path != "" {
		path += "."
	}
	d.req.AddUnknown(path + strings.ToValidUTF8(name, "\uFFFD"))
}

// mark is a place to go back to.
type mark struct {
	fault           *fault.Error
	unknown, extras int
}

func (d *requestDecoder) mark() mark {
	return mark{fault: d.fault, unknown: len(d.req.Unknown), extras: len(d.req.Extras)}
}

// forget takes back what was found since m: of a value that is kept as it stands,
// nothing has to be understood.
func (d *requestDecoder) forget(m mark) {
	d.fault = m.fault
	d.req.Unknown = d.req.Unknown[:m.unknown]
	d.req.Extras = d.req.Extras[:m.extras]
}

// add keeps a value for protocols that have the feature.
func (d *requestDecoder) add(f llm.Feature, path string, raw []byte) {
	d.req.Extras = append(d.req.Extras, llm.Extra{Feature: f, Field: d.where(path), Raw: raw})
}

// typed keeps the value at hand, which has to be of one of some kinds. null is nothing.
func (d *requestDecoder) typed(f llm.Feature, path, want string, kinds ...byte) {
	k := byte(d.r.Kind())
	if k == 'n' {
		d.r.Skip()
		return
	}
	for _, ok := range kinds {
		if k == ok {
			d.add(f, path, d.r.Value())
			return
		}
	}
	d.wrong(path, want)
	d.r.Skip()
}

// unless is typed for a string of which one says the same as nothing.
func (d *requestDecoder) unless(nothing string, f llm.Feature, path string) {
	from := d.r.Start()
	if v := d.name(path); v != "" && v != nothing {
		d.add(f, path, d.span(from))
	}
}

// text reads a string; null is empty.
func (d *requestDecoder) text(path string) string {
	if d.r.Null() {
		return ""
	}
	s, ok := d.r.Text()
	if !ok {
		d.wrong(path, "a string")
	}
	return s
}

// name reads a short string; null is empty.
func (d *requestDecoder) name(path string) string {
	if d.r.Null() {
		return ""
	}
	if d.r.Kind() != '"' {
		d.wrong(path, "a string")
		d.r.Skip()
		return ""
	}
	s, ok := d.r.String(6 * maxName) // an escape has six bytes on the wire
	if !ok || len(s) > maxName {
		d.wrong(path, "a string of at most "+strconv.Itoa(maxName)+" bytes")
	}
	return s
}

// word reads one of several words; null is empty.
func (d *requestDecoder) word(path string, words ...string) string {
	s := d.name(path)
	if s == "" {
		return ""
	}
	for _, w := range words {
		if s == w {
			return s
		}
	}
	d.wrong(path, "one of "+strings.Join(words, ", "))
	return ""
}

// flag reads a truth value; nil for null.
func (d *requestDecoder) flag(path string) *bool {
	if d.r.Null() {
		return nil
	}
	v, ok := d.r.Bool()
	if !ok {
		d.wrong(path, "true or false")
	}
	return &v
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

// count reads a positive integer; 0 for null.
func (d *requestDecoder) count(path string) int64 {
	if d.r.Null() {
		return 0
	}
	n, ok := d.r.Int()
	if !ok || n < 1 {
		d.wrong(path, "a positive integer")
		return 0
	}
	return n
}

// schema reads a JSON object as it stands; nil for null.
func (d *requestDecoder) schema(path string) []byte {
	switch d.r.Kind() {
	case 'n':
		d.r.Skip()
	case '{':
		return d.r.Value()
	default:
		d.wrong(path, "an object")
		d.r.Skip()
	}
	return nil
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

// each reads the elements of a list; null is empty.
func (d *requestDecoder) each(path string, limit int, element func()) {
	if d.r.Null() {
		return
	}
	if d.r.Kind() != '[' {
		d.wrong(path, "a list")
	}
	if !d.r.Enter('[') {
		return
	}
	d.at = append(d.at, 0)
	top := len(d.at) - 1
	for n := 0; d.r.Next(); n++ {
		if n == limit {
			at := d.at
			d.at = d.at[:top]
			d.refuse(path, "has more than "+strconv.Itoa(limit)+" elements")
			d.at = at
		}
		if d.fault == nil {
			d.at[top] = n
			element()
		}
	}
	d.at = d.at[:top]
}

// done is what is wrong with the request, if anything is.
func (d *requestDecoder) done() *fault.Error {
	if err := d.outer.Done(); err != nil {
		return &fault.Error{Class: fault.InvalidRequest, Public: "The body is not one valid JSON object.", Err: err}
	}
	return d.fault
}
