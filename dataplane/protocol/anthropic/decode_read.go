package anthropic

import (
	"strconv"
	"strings"
	"sync"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Bounds on the lists of a request. Messages has the vendor's own; the others are far
// above what anybody sends.
const (
	maxMessages = 100_000
	maxBlocks   = 10_000 // of one content
	maxTools    = 1024
	maxStops    = 1024
	maxSources  = 1024 // citations of one text
	maxWord     = 512  // bytes of a name or a word
)

// readers keeps requestReaders for their buffers.
type readers struct{ pool sync.Pool }

func (p *readers) get(body []byte) *requestReader {
	d, _ := p.pool.Get().(*requestReader)
	if d == nil {
		d = new(requestReader)
	}
	d.req = new(llm.Request)
	d.r.ResetStrict(body)
	d.body = body
	return d
}

func (p *readers) put(d *requestReader) {
	d.r.Release()
	d.inner.Release()
	d.source.Release()
	*d = requestReader{r: d.r, inner: d.inner, source: d.source, at: d.at[:0]}
	p.pool.Put(d)
}

// requestReader reads one request. The first thing that cannot be understood is kept
// in fault; reading goes on, as loops over members must run to their end.
type requestReader struct {
	r      wirejson.Reader // of the body
	inner  wirejson.Reader // of a content inside a block
	source wirejson.Reader // of a small value inside a block
	body   []byte
	req    *llm.Request
	fault  *fault.Error
	at     []int // positions in the lists around what is read
}

// where is a path with the positions at hand in its brackets.
func (d *requestReader) where(path string) string {
	var b strings.Builder
	for _, n := range d.at {
		before, after, ok := strings.Cut(path, "[]")
		if !ok {
			break
		}
		b.WriteString(before)
		b.WriteString("[" + strconv.Itoa(n) + "]")
		path = after
	}
	return b.String() + path
}

// refuse tells what is wrong with the value at path.
func (d *requestReader) refuse(path, wrong string) {
	if d.fault != nil {
		return
	}
	at := d.where(path)
	d.fault = &fault.Error{Class: fault.InvalidRequest, Param: at, Public: "The field " + at + " " + wrong + "."}
}

func (d *requestReader) wrong(path, want string) { d.refuse(path, "must be "+want) }

// unknown names a field that the protocol does not have, and passes over it.
func (d *requestReader) unknown(parent, name string) {
	if parent != "" {
		name = parent + "." + name
	}
	d.req.AddUnknown(name)
}

// extra keeps a field that not all protocols have.
func (d *requestReader) extra(f llm.Feature, field string, raw []byte) {
	if len(raw) > 0 && raw[0] != 'n' {
		d.req.Extras = append(d.req.Extras, llm.Extra{Feature: f, Field: field, Raw: raw})
	}
}

// The readers of values: null means that nothing is stated.

func (d *requestReader) text(r *wirejson.Reader, path string) string {
	if r.Null() {
		return ""
	}
	s, ok := r.Text()
	if !ok {
		d.wrong(path, "a string")
	}
	return s
}

func (d *requestReader) word(r *wirejson.Reader, path string) string {
	if r.Null() {
		return ""
	}
	s, ok := r.String(maxWord)
	if !ok {
		d.wrong(path, "a string of at most "+strconv.Itoa(maxWord)+" bytes")
	}
	return s
}

func (d *requestReader) flag(r *wirejson.Reader, path string) *bool {
	if r.Null() {
		return nil
	}
	b, ok := r.Bool()
	if !ok {
		d.wrong(path, "true or false")
	}
	return &b
}

func (d *requestReader) integer(r *wirejson.Reader, path string) int64 {
	if r.Null() {
		return 0
	}
	n, ok := r.Int()
	if !ok || n < 0 {
		d.wrong(path, "a whole number that is not negative")
	}
	return max(n, 0)
}

func (d *requestReader) number(r *wirejson.Reader, path string) llm.Number {
	if r.Null() {
		return ""
	}
	n := r.Number()
	if n == "" {
		d.wrong(path, "a number")
	}
	return llm.Number(n)
}

// object enters an object. null is none; anything else is wrong.
func (d *requestReader) object(r *wirejson.Reader, path string) bool {
	if r.Null() {
		return false
	}
	if r.Kind() != '{' {
		d.wrong(path, "an object")
	}
	return r.Enter('{')
}

// schema takes an object as it stands.
func (d *requestReader) schema(r *wirejson.Reader, path string) []byte {
	if r.Null() {
		return nil
	}
	if r.Kind() != '{' {
		d.wrong(path, "an object")
	}
	return r.Value()
}

// each calls element for each element of a list of at most most.
func (d *requestReader) each(r *wirejson.Reader, path string, most int, element func()) {
	if r.Null() {
		return
	}
	if r.Kind() != '[' {
		d.wrong(path, "a list")
	}
	if !r.Enter('[') {
		return
	}
	d.at = append(d.at, 0)
	last := len(d.at) - 1
	for n := 0; r.Next(); n++ {
		d.at[last] = n
		switch {
		case d.fault != nil:
		case n >= most:
			d.at = d.at[:last]
			d.refuse(path, "has more than "+strconv.Itoa(most)+" elements")
			d.at = append(d.at, n)
		default:
			element()
		}
	}
	d.at = d.at[:last]
}

// cache reads a cache_control.
func (d *requestReader) cache(r *wirejson.Reader, path string) llm.Cache {
	if !d.object(r, path) {
		return llm.NoCache
	}
	mark := llm.CacheDefault
	for r.Next() {
		switch string(r.Name()) {
		case "type":
			if word := d.word(r, path+".type"); word != "ephemeral" {
				d.wrong(path+".type", `"ephemeral"`)
			}
		case "ttl":
			switch d.word(r, path+".ttl") {
			case "":
			case "5m":
				mark = llm.Cache5m
			case "1h":
				mark = llm.Cache1h
			default:
				d.wrong(path+".ttl", `"5m" or "1h"`)
			}
		default:
			d.unknown(path, string(r.Name()))
		}
	}
	return mark
}
