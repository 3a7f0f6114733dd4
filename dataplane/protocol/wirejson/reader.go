// Package wirejson reads JSON as it stands on the wire, without decoding it into
// values: a cursor over members and elements, byte ranges, and lengths of text.
//
// A request body is read strictly (duplicate member names, invalid UTF-8, data
// after the value and deep nesting are errors), because whoever reads it next may
// resolve such things otherwise and act on another request than the one that was
// judged. An upstream's answer is read leniently: the client decides what it makes
// of it. Tokens come from jsontext in both cases.
package wirejson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep a request body may nest.
const MaxDepth = 100

// maxAnswerDepth is how deep an upstream's answer may nest.
const maxAnswerDepth = 1000

// ErrDepth says that a value nests deeper than allowed.
var ErrDepth = errors.New("nested too deep")

// ErrTrailing says that data follows the value.
var ErrTrailing = errors.New("data after the end of the JSON value")

// Reader is a cursor over one JSON value. Ask Enter, then loop with Next and read
// each member or element with one of the value methods; a value that the loop
// body leaves alone is skipped. After the first error everything reports nothing,
// and Err tells what it was.
//
//	if r.Enter('{') {
//		for r.Next() {
//			switch string(r.Name()) {
//			case "model":
//				model, ok = r.String(512)
//			}
//		}
//	}
//
// A loop must run to its end. The zero value reads nothing until it is reset; a
// Reader is reused by resetting it. Not safe for concurrent use.
type Reader struct {
	dec      jsontext.Decoder
	buf      bytes.Buffer
	data     []byte
	elided   elider // cuts strings while streaming
	stream   bool   // reading through elided, not from data
	skeleton skeleton
	short    bool // reading the skeleton of data
	maxDepth int
	pending  bool // a value comes next and was not read yet
	name     []byte
	unquoted []byte
	err      error
}

// ResetStrict starts over on a request body.
func (r *Reader) ResetStrict(data []byte) {
	r.start(data, MaxDepth)
	if r.short = r.skeleton.of(data); r.short {
		r.buf = *bytes.NewBuffer(r.skeleton.buf)
	}
	r.dec.Reset(&r.buf)
}

// ResetLenient starts over on JSON that an upstream sent.
func (r *Reader) ResetLenient(data []byte) {
	r.start(data, maxAnswerDepth)
	r.dec.Reset(&r.buf, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// ResetStream starts over, leniently, on JSON that is still arriving. Strings are
// cut to their first bytes, so that memory stays bounded whatever the answer
// holds; their lengths stay known to Len. A *bytes.Buffer holds all there is: it is
// emptied, and its bytes are read where they are.
func (r *Reader) ResetStream(src io.Reader) {
	if all, ok := src.(*bytes.Buffer); ok {
		r.ResetLenient(all.Next(all.Len()))
		return
	}
	r.start(nil, maxAnswerDepth)
	r.stream = true
	r.elided.reset(src)
	r.dec.Reset(&r.elided, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

func (r *Reader) start(data []byte, depth int) {
	r.buf = *bytes.NewBuffer(data)
	r.data, r.maxDepth, r.stream, r.short, r.pending, r.err = data, depth, false, false, true, nil
}

// Release drops the reference to the bytes that were read, so that a kept Reader
// does not keep them, or the source of a stream, alive.
func (r *Reader) Release() {
	r.ResetLenient(nil)
	r.name = nil
	r.elided.release()
	r.skeleton.release()
}

// Err is the first error: a *jsontext.SyntacticError, ErrDepth, ErrTrailing or
// the error of the source.
func (r *Reader) Err() error { return r.err }

func (r *Reader) fail(err error) {
	if r.short && r.err == nil {
		// The body has the same fault. Its own offsets are what the caller can use.
		r.short = false
		r.buf = *bytes.NewBuffer(r.data)
		r.dec.Reset(&r.buf)
		r.pending = true
		if r.Done() != nil {
			return
		}
	}
	if r.err == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		r.err = err
	}
	r.pending = false
}

// Kind is the kind of the value that comes next: one of n f t " 0 { [, or 0 if
// there is none.
func (r *Reader) Kind() jsontext.Kind {
	if r.err != nil || !r.pending {
		return 0
	}
	return r.dec.PeekKind()
}

// Enter steps into the value that comes next if it is of the kind, '{' or '['.
// Otherwise it skips the value and reports false.
func (r *Reader) Enter(kind jsontext.Kind) bool {
	if r.Kind() != kind {
		r.Skip()
		return false
	}
	return r.token()
}

// Next moves to the next member or element. It skips the one before if nobody
// read it, and steps out at the end.
func (r *Reader) Next() bool {
	if r.pending {
		r.Skip()
	}
	if r.err != nil {
		return false
	}
	next := r.dec.PeekKind()
	switch next {
	case '}', ']':
		r.token()
		return false
	case 0:
		r.token() // takes the error
		return false
	}
	if kind, _ := r.dec.StackIndex(r.dec.StackDepth()); kind == '{' {
		if next != '"' {
			r.token() // takes the error: a name must be a string
			return false
		}
		raw, err := r.dec.ReadValue()
		if err != nil {
			r.fail(err)
			return false
		}
		r.cut(raw)
		r.name = raw[1 : len(raw)-1]
		if bytes.IndexByte(r.name, '\\') >= 0 {
			r.unquoted = unquote(r.unquoted[:0], raw)
			r.name = r.unquoted
		}
	}
	r.pending = true
	return true
}

// Name is the name of the member at hand, escapes resolved. It is valid until the
// member's value is read.
func (r *Reader) Name() []byte { return r.name }

// token reads one token, minding depth and cut strings.
func (r *Reader) token() bool {
	r.pending = false
	tok, err := r.dec.ReadToken()
	if err != nil {
		r.fail(err)
		return false
	}
	switch tok.Kind() {
	case '{', '[':
		if r.dec.StackDepth() > r.maxDepth {
			r.fail(fmt.Errorf("%w: more than %d levels, at byte %d", ErrDepth, r.maxDepth, r.dec.InputOffset()))
			return false
		}
	}
	return true
}

// Skip passes over the value that comes next, checking it as strictly as one that
// is read.
func (r *Reader) Skip() {
	if r.err != nil || !r.pending {
		return
	}
	depth := r.dec.StackDepth()
	for {
		if r.stream && r.dec.PeekKind() == '"' {
			r.Raw()
		} else {
			r.token()
		}
		if r.err != nil || r.dec.StackDepth() <= depth {
			return
		}
	}
}

// Raw reads the value that comes next, which must not be an object or an array,
// as it stands. The bytes are valid until the next call. It returns nil, and
// skips the value, if it is an object or an array.
func (r *Reader) Raw() []byte {
	switch {
	case r.err != nil:
		return nil
	case r.pending:
		switch r.dec.PeekKind() {
		case '{', '[':
			r.Skip()
			return nil
		}
	}
	r.pending = false
	from := 0
	if r.short {
		from = r.Start()
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
		return nil
	}
	if r.short {
		return r.data[from:r.End()]
	}
	if raw.Kind() == '"' {
		r.cut(raw)
	}
	return raw
}

// String reads a string of at most limit bytes on the wire. It reports false, and
// skips the value, if it is no string or a longer one.
func (r *Reader) String(limit int) (string, bool) {
	if r.Kind() != '"' {
		r.Skip()
		return "", false
	}
	raw := r.Raw()
	if len(raw) < 2 || len(raw)-2 > limit {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	text := unquote(nil, raw)
	return unsafe.String(unsafe.SliceData(text), len(text)), true // nobody else has the bytes
}

// Text reads a string of any length. It reports false, and skips the value, if it
// is no string.
func (r *Reader) Text() (string, bool) { return r.String(math.MaxInt) }

// AppendText appends the text of a string to dst.
func (r *Reader) AppendText(dst []byte) ([]byte, bool) {
	raw, ok := r.Bytes()
	if !ok {
		return dst, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw...), true
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	return unquote(dst, quoted), true
}

// Value reads the value that comes next, of any kind, and returns it as it stands:
// a part of the bytes that are read. Only over bytes.
func (r *Reader) Value() []byte {
	from := r.Start()
	r.Skip()
	if r.err != nil || from > r.End() {
		return nil
	}
	return r.data[from:r.End()]
}

// Number reads a number as it is written; empty if the value is none, which is
// skipped.
func (r *Reader) Number() string {
	if r.Kind() != '0' {
		r.Skip()
		return ""
	}
	return string(r.Raw())
}

// Bytes is String without a copy and without resolving escapes: the bytes between
// the quotes, valid until the next call.
func (r *Reader) Bytes() ([]byte, bool) {
	if r.Kind() != '"' {
		r.Skip()
		return nil, false
	}
	raw := r.Raw()
	if len(raw) < 2 {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// Len reads a string and returns the length of its text in bytes, or 0 and false
// if the value is no string. For strings that were cut while streaming, an escape
// of the form \uXXXX counts as three bytes.
func (r *Reader) Len() (int64, bool) {
	if r.Kind() != '"' {
		r.Skip()
		return 0, false
	}
	raw := r.Raw()
	if len(raw) < 2 {
		return 0, false
	}
	if r.stream && len(raw) >= elideAt {
		return r.elided.last, true
	}
	return int64(TextLen(raw[1 : len(raw)-1])), true
}

// Int reads an integer; 12.0 and 1e3 are integers too. It reports false, and skips
// the value, if it is no integer that fits.
func (r *Reader) Int() (int64, bool) {
	if r.Kind() != '0' {
		r.Skip()
		return 0, false
	}
	raw := r.Raw()
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != float64(int64(f)) || f >= 1<<53 || f <= -(1<<53) {
		return 0, false
	}
	return int64(f), true
}

// Bool reads true or false. It reports false in ok, and skips the value, if it is
// neither.
func (r *Reader) Bool() (value, ok bool) {
	k := r.Kind()
	r.Skip()
	return k == 't', k == 't' || k == 'f'
}

// Null reports whether the value that comes next is null, and reads it if so.
func (r *Reader) Null() bool {
	if r.Kind() != 'n' {
		return false
	}
	r.Skip()
	return true
}

// Start is the offset at which the value that comes next starts. Only over bytes.
func (r *Reader) Start() int {
	at := r.End()
	for at < len(r.data) && strings.IndexByte(" \t\r\n:,", r.data[at]) >= 0 {
		at++
	}
	return at
}

// End is the offset just after what was read last. Only over bytes.
func (r *Reader) End() int {
	at := int(r.dec.InputOffset())
	if r.short {
		return r.skeleton.offset(at)
	}
	return at
}

// Done demands that nothing but white space follows the value, and returns the
// first error of the whole reading.
func (r *Reader) Done() error {
	if r.err != nil {
		return r.err
	}
	if r.pending {
		r.Skip()
		if r.err != nil {
			return r.err
		}
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		r.fail(fmt.Errorf("%w, at byte %d", ErrTrailing, r.dec.InputOffset()))
	}
	return r.err
}

// cut takes the true length of a string that was cut while streaming.
func (r *Reader) cut(raw []byte) {
	if r.stream && len(raw) >= elideAt {
		r.elided.pop()
	}
}
