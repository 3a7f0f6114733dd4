package streamcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// responsesPart is a text that arrives in pieces.
type responsesPart struct {
	kind        string
	text        strings.Builder
	told        bool // its .done event came
	closed      bool
	annotations int
}

// responsesTexts is where the text of each type of part stands.
var responsesTexts = map[string]string{
	"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text",
}

// addPart opens a part of an item's content or summary.
func (i *responsesItem) addPart(parts *[]*responsesPart, index string, kinds []string, o object) error {
	if err := o.at(index, len(*parts)); err != nil {
		return err
	}
	v, err := o.object("part")
	if err != nil {
		return err
	}
	p := new(responsesPart)
	if p.kind, err = v.text("type"); err != nil {
		return err
	}
	if !slices.Contains(kinds, p.kind) {
		return fmt.Errorf("a part of type %q, expected one of %q", p.kind, kinds)
	}
	if i.kind == "message" == (p.kind == "reasoning_text" || p.kind == "summary_text") {
		return fmt.Errorf("a part of type %q in an item of type %s", p.kind, i.kind)
	}
	if err := v.is(responsesTexts[p.kind], ""); err != nil {
		return err
	}
	*parts = append(*parts, p)
	return nil
}

// openPart is the part an event names, which is open.
func openPart(parts []*responsesPart, index string, o object) (*responsesPart, error) {
	n, err := o.number(index)
	switch {
	case err != nil:
		return nil, err
	case n >= int64(len(parts)):
		return nil, fmt.Errorf("part %d was never added", n)
	case parts[n].closed:
		return nil, fmt.Errorf("part %d is done", n)
	}
	return parts[n], nil
}

// typedPart is openPart of one type.
func typedPart(parts []*responsesPart, index, kind string, o object) (*responsesPart, error) {
	p, err := openPart(parts, index, o)
	if err == nil && p.kind != kind {
		err = fmt.Errorf("the part is of type %s", p.kind)
	}
	return p, err
}

func deltaPart(parts []*responsesPart, index, kind string, o object) error {
	p, err := typedPart(parts, index, kind, o)
	if err != nil {
		return err
	}
	return p.delta(o)
}

func tellPart(parts []*responsesPart, index, kind string, o object) error {
	p, err := typedPart(parts, index, kind, o)
	if err != nil {
		return err
	}
	return p.tell(o, responsesTexts[kind])
}

func annotatePart(parts []*responsesPart, o object) error {
	p, err := typedPart(parts, "content_index", "output_text", o)
	if err != nil {
		return err
	}
	if err := o.at("annotation_index", p.annotations); err != nil {
		return err
	}
	p.annotations++
	_, err = o.object("annotation")
	return err
}

func (p *responsesPart) delta(o object) error {
	piece, err := o.filled("delta")
	if err == nil && p.told {
		err = errors.New("a delta after the text was done")
	}
	p.text.WriteString(piece)
	return err
}

// tell takes the event that repeats the whole text, at field.
func (p *responsesPart) tell(o object, field string) error {
	if p.told {
		return errors.New("it was done before")
	}
	p.told = true
	whole, err := o.text(field)
	if err == nil && whole != p.text.String() {
		err = fmt.Errorf("%s is not what the deltas add up to: %.40q and %.40q", field, whole, p.text.String())
	}
	return err
}

func donePart(parts []*responsesPart, index string, o object) error {
	p, err := openPart(parts, index, o)
	if err != nil {
		return err
	}
	if !p.told {
		return errors.New("the part is done before its text is")
	}
	p.closed = true
	v, err := o.object("part")
	if err != nil {
		return err
	}
	return p.agrees(v)
}

// agrees checks a finished part.
func (p *responsesPart) agrees(v object) error {
	if err := errors.Join(v.is("type", p.kind), v.is(responsesTexts[p.kind], p.text.String())); err != nil {
		return err
	}
	if p.kind != "output_text" {
		return nil
	}
	notes, err := v.list("annotations")
	if err == nil && len(notes) != p.annotations {
		err = fmt.Errorf("%d annotations, but %d were added", len(notes), p.annotations)
	}
	return err
}

// agree checks the finished parts of an item.
func agree(v object, field string, parts []*responsesPart) error {
	got, err := v.list(field)
	if err != nil {
		return err
	}
	if len(got) != len(parts) {
		return fmt.Errorf("%s has %d parts, but %d were added", field, len(got), len(parts))
	}
	for n, p := range parts {
		if !p.closed {
			return fmt.Errorf("%s: part %d is not done", field, n)
		}
		o, err := decodeObject(got[n])
		if err == nil {
			err = p.agrees(o)
		}
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", field, n, err)
		}
	}
	return nil
}
