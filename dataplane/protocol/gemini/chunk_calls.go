package gemini

import (
	"bytes"
	"crypto/rand"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
)

// functionCall is a call as it is read.
type functionCall struct {
	id, name string
	args     []byte // aliases the chunk
	more     bool   // pieces of the arguments follow
}

// read reads a functionCall; false if it is none.
func (f *functionCall) read(d *chunks) bool {
	r := &d.r
	if !r.Enter('{') {
		return false
	}
	for r.Next() {
		switch string(r.Name()) {
		case "id":
			f.id, _ = r.Text()
		case "name":
			f.name, _ = r.String(maxWord)
		case "args":
			if f.args = r.Value(); len(f.args) > 0 && f.args[0] == 'n' {
				f.args = nil
			}
		case "partialArgs":
			if r.Enter('[') {
				if d.args == nil {
					d.args = new(partialArgs)
				}
				for r.Next() {
					d.args.read(r)
				}
			}
		case "willContinue":
			f.more, _ = r.Bool()
		}
	}
	return true
}

// tellCall tells a call, or another piece of the one that is open.
func (d *chunks) tellCall(f *functionCall, emit func(llm.Event)) {
	d.called = true
	if !d.isOpen || d.open != llm.PartCall || f.name != "" && f.name != d.name {
		args := d.args
		d.args = nil // belong to this call, and not to the part that ends here
		id := f.id
		if id == "" {
			id = made + strings.ToLower(rand.Text())
		}
		call := &llm.Call{ID: id}
		call.Namespace, call.Name = d.c.CallerTool(f.name)
		d.begin(&llm.Part{Kind: llm.PartCall, Call: call}, emit)
		d.name, d.told, d.args = f.name, false, args
	}
	if len(f.args) > 0 && !d.told && d.args == nil {
		d.told = true
		emit(llm.Event{Kind: llm.EventDelta, Index: d.index, Text: d.compact(f.args)})
	}
	d.sign(emit)
	if f.more {
		return
	}
	if !d.told && d.args == nil {
		emit(llm.Event{Kind: llm.EventDelta, Index: d.index, Text: []byte(`{}`)})
	}
	d.end(emit)
}

// tellArgs tells the arguments that came in pieces.
func (d *chunks) tellArgs(emit func(llm.Event)) {
	args := d.args
	d.args = nil
	emit(llm.Event{Kind: llm.EventDelta, Index: d.index, Text: args.append(nil)})
}

// compact is arguments without white space between tokens: whole answers are indented.
// Names, numbers and their order stay.
func (d *chunks) compact(args []byte) []byte {
	if bytes.IndexByte(args, '\n') < 0 {
		return args
	}
	d.scratch = append(d.scratch[:0], args...)
	v := jsontext.Value(d.scratch)
	if v.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return args
	}
	return v
}
