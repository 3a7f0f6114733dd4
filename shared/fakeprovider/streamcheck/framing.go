package streamcheck

import (
	"bytes"
	"errors"
	"fmt"
)

// eventRules are what a protocol's clients bear. All of them read LF and CRLF.
type eventRules struct {
	// comments may stand between events. Gemini's Go SDK takes them for errors.
	comments bool
	// names are on every event; without it, on none.
	names bool
}

// events is the framing of server-sent events, one data line an event: SDKs differ in
// what they make of more.
type events struct {
	to    machine
	rules eventRules

	line  []byte // begun and not ended
	count int
	name  string
	named bool
	data  []byte
	given bool // data was
	noted bool // a comment stands before
}

func (e *events) feed(data []byte) error {
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			e.line = append(e.line, data...)
			if len(e.line) > MaxEvent {
				return e.wrong(fmt.Errorf("a line is longer than %d bytes", MaxEvent))
			}
			return nil
		}
		e.line = append(e.line, data[:i]...)
		data = data[i+1:]
		if err := e.whole(bytes.TrimSuffix(e.line, []byte("\r"))); err != nil {
			return e.wrong(err)
		}
		e.line = e.line[:0]
	}
	return nil
}

func (e *events) wrong(err error) error { return fmt.Errorf("event %d: %w", e.count+1, err) }

// whole takes one line without its end.
func (e *events) whole(line []byte) error {
	if bytes.IndexByte(line, '\r') >= 0 {
		return errors.New("a CR without LF ends a line for some readers and not for others")
	}
	if len(line) == 0 {
		return e.blank()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "":
		if !e.rules.comments {
			return errors.New("a comment line, which this protocol's SDK takes for an error")
		}
		e.noted = true
	case "event":
		if !e.rules.names {
			return errors.New("an event line; this protocol has only data lines")
		}
		if e.named || e.given {
			return errors.New("an event line that is not the first line of its event")
		}
		e.name, e.named = string(value), true
	case "data":
		if e.given {
			return errors.New("an event with two data lines")
		}
		e.data, e.given = bytes.Clone(value), true
	default:
		return fmt.Errorf("a line with the field %q; expected data", field)
	}
	return nil
}

// blank ends an event.
func (e *events) blank() error {
	switch {
	case e.given:
	case e.named:
		return errors.New("an event without data")
	case e.noted || e.rules.comments:
		e.noted = false
		return nil
	default:
		return errors.New("a blank line that ends no event")
	}
	if e.rules.names && !e.named {
		return errors.New("no event line; SDKs pass over such events")
	}
	err := e.to.event(e.name, e.data)
	if err == nil {
		e.count++
	}
	e.name, e.named, e.data, e.given, e.noted = "", false, nil, false, false
	return err
}

func (e *events) close() error {
	if len(e.line) > 0 || e.given || e.named {
		return e.wrong(errors.New("the body ends inside an event"))
	}
	if err := e.to.end(); err != nil {
		return fmt.Errorf("after %d events: %w", e.count, err)
	}
	return nil
}

// eitherFraming is that of Gemini: events or an array.
type eitherFraming struct {
	to    machine
	inner framing
}

func (f *eitherFraming) feed(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if f.inner == nil {
		f.inner = &events{to: f.to}
		if data[0] == '[' {
			f.inner = &array{to: f.to}
		}
	}
	return f.inner.feed(data)
}

func (f *eitherFraming) close() error {
	if f.inner == nil {
		return errors.New("the body is empty")
	}
	return f.inner.close()
}

// array is one JSON array over the whole body, whose elements are the events.
type array struct {
	to machine

	state    arrayState
	count    int
	depth    int
	quoted   bool
	escaped  bool
	element  []byte
	elements bool // one was finished since the last comma
}

type arrayState uint8

const (
	beforeArray arrayState = iota
	betweenElements
	inElement
	afterArray
)

func (a *array) feed(data []byte) error {
	for _, b := range data {
		if err := a.take(b); err != nil {
			return fmt.Errorf("element %d: %w", a.count+1, err)
		}
	}
	return nil
}

func (a *array) take(b byte) error {
	space := b == ' ' || b == '\t' || b == '\r' || b == '\n'
	switch a.state {
	case beforeArray: // eitherFraming looked
		a.state = betweenElements
		return nil
	case inElement:
		return a.inside(b)
	case afterArray:
		if !space {
			return errors.New("the body goes on after its array")
		}
		return nil
	}
	switch {
	case space:
	case b == ',' && a.elements:
		a.elements = false
	case b == ']' && (a.elements || a.count == 0):
		a.state = afterArray
	case b == '{' && !a.elements:
		a.state, a.element = inElement, a.element[:0]
		return a.inside(b)
	default:
		return fmt.Errorf("%q between the elements of the array", b)
	}
	return nil
}

// inside takes a byte of an element, whose own form the machine checks.
func (a *array) inside(b byte) error {
	if a.element = append(a.element, b); len(a.element) > MaxEvent {
		return fmt.Errorf("longer than %d bytes", MaxEvent)
	}
	switch {
	case a.escaped:
		a.escaped = false
	case a.quoted:
		a.escaped, a.quoted = b == '\\', b != '"'
	case b == '"':
		a.quoted = true
	case b == '{' || b == '[':
		a.depth++
	case b == '}' || b == ']':
		a.depth--
	}
	if a.depth > 0 {
		return nil
	}
	if err := a.to.event("", a.element); err != nil {
		return err
	}
	a.count++
	a.state, a.elements = betweenElements, true
	return nil
}

func (a *array) close() error {
	if a.state != afterArray {
		return fmt.Errorf("after %d elements: the array does not end", a.count)
	}
	if err := a.to.end(); err != nil {
		return fmt.Errorf("after %d elements: %w", a.count, err)
	}
	return nil
}
