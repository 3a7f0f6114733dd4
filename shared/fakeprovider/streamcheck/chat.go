package streamcheck

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// chat judges Chat Completions.
type chat struct {
	allowError bool

	id, created, model once
	choices            map[int64]*chatChoice
	usage              bool // the usage chunk came
	ended              bool // [DONE] or an error came
}

type chatChoice struct {
	finish string
	calls  []*chatCall
	ids    []string
}

type chatCall struct {
	kind string // function or custom
	text string // its arguments or input
}

var chatReasons = []string{"stop", "length", "tool_calls", "content_filter", "function_call"}

func (c *chat) event(_ string, data []byte) error {
	if c.ended {
		return errors.New("an event after the end of the stream")
	}
	if string(data) == "[DONE]" {
		c.ended = true
		return c.finished()
	}
	o, err := decodeObject(data)
	if err != nil {
		return err
	}
	if _, failed := o["error"]; failed {
		c.ended = true
		return chatError(o, c.allowError)
	}
	return c.chunk(o)
}

func chatError(o object, allowed bool) error {
	if !allowed {
		return fmt.Errorf("a chunk with the key error, which SDKs raise whatever its value: %s", shown(o["error"]))
	}
	e, err := o.object("error")
	if err == nil {
		_, err = e.filled("message")
	}
	if err == nil {
		_, err = e.filled("type")
	}
	return err
}

func (c *chat) chunk(o object) error {
	if err := o.is("object", "chat.completion.chunk"); err != nil {
		return err
	}
	if _, err := o.filled("id"); err != nil {
		return err
	}
	if _, err := o.filled("model"); err != nil {
		return err
	}
	if _, err := o.number("created"); err != nil {
		return err
	}
	if err := errors.Join(c.id.take("id", o["id"]), c.created.take("created", o["created"]), c.model.take("model", o["model"])); err != nil {
		return err
	}
	choices, err := o.list("choices")
	switch {
	case err != nil:
		return err
	case c.usage:
		return errors.New("a chunk after the usage chunk; only [DONE] may follow")
	case len(choices) == 0:
		return c.usageChunk(o)
	case !o.null("usage"):
		return errors.New("usage in a chunk that has choices; it belongs into one of its own")
	}
	for _, raw := range choices {
		if err := c.choice(raw); err != nil {
			return err
		}
	}
	return nil
}

// usageChunk is the one without choices.
func (c *chat) usageChunk(o object) error {
	u, err := o.object("usage")
	if err != nil {
		return fmt.Errorf("a chunk without choices: %w", err)
	}
	if err := c.finished(); err != nil {
		return fmt.Errorf("the usage chunk comes early: %w", err)
	}
	c.usage = true
	if err := u.counts("prompt_tokens", "completion_tokens", "total_tokens"); err != nil {
		return err
	}
	in, _ := u.number("prompt_tokens")
	out, _ := u.number("completion_tokens")
	return u.at("total_tokens", int(in+out))
}

func (c *chat) choice(raw jsontext.Value) error {
	o, err := decodeObject(raw)
	if err != nil {
		return fmt.Errorf("in choices: %w", err)
	}
	index, err := o.number("index")
	if err != nil {
		return fmt.Errorf("in choices: %w", err)
	}
	delta, err := o.object("delta")
	if err != nil {
		return fmt.Errorf("choice %d: %w", index, err)
	}
	known := c.choices[index]
	if known == nil {
		if err := delta.is("role", "assistant"); err != nil {
			return fmt.Errorf("choice %d: the first delta: %w", index, err)
		}
		if c.choices == nil {
			c.choices = make(map[int64]*chatChoice)
		}
		known = new(chatChoice)
		c.choices[index] = known
	} else if !delta.null("role") {
		return fmt.Errorf("choice %d: a role in a delta that is not the first", index)
	}
	if err := known.take(o, delta); err != nil {
		return fmt.Errorf("choice %d: %w", index, err)
	}
	return nil
}

func (c *chatChoice) take(o, delta object) error {
	if c.finish != "" {
		return errors.New("a delta after the finish_reason")
	}
	said := false
	for name, v := range delta {
		if name != "obfuscation" && !empty(v) { // which is noise, not content
			said = true
		}
	}
	if !delta.null("tool_calls") {
		calls, err := delta.list("tool_calls")
		if err != nil {
			return err
		}
		for _, raw := range calls {
			if err := c.call(raw); err != nil {
				return fmt.Errorf("tool_calls: %w", err)
			}
		}
	}
	if !o.null("finish_reason") {
		return c.end(o)
	}
	if !said {
		return errors.New("a delta that says nothing and does not finish")
	}
	return nil
}

func (c *chatChoice) end(o object) error {
	reason, err := o.text("finish_reason")
	if err != nil {
		return err
	}
	if !slices.Contains(chatReasons, reason) {
		return fmt.Errorf("finish_reason %q, expected one of %q", reason, chatReasons)
	}
	c.finish = reason
	if reason != "tool_calls" {
		return nil
	}
	if len(c.calls) == 0 {
		return errors.New("finish_reason tool_calls without a call")
	}
	for i, call := range c.calls {
		if call.kind == "function" && call.text != "" && !isObject(call.text) {
			return fmt.Errorf("the arguments of call %d are not a JSON object when all is well: %s", i, shown(jsontext.Value(call.text)))
		}
	}
	return nil
}

// call takes one piece of a call.
func (c *chatChoice) call(raw jsontext.Value) error {
	o, err := decodeObject(raw)
	if err != nil {
		return err
	}
	index, err := o.number("index")
	if err != nil {
		return err
	}
	switch n := int64(len(c.calls)); {
	case index > n:
		return fmt.Errorf("index %d; the next new one is %d", index, n)
	case index == n:
		return c.open(o)
	}
	call := c.calls[index]
	if !o.null("id") || !o.null("type") {
		return fmt.Errorf("call %d has its id or type a second time", index)
	}
	inner, field, err := call.payload(o)
	if err != nil {
		return fmt.Errorf("call %d: %w", index, err)
	}
	if !inner.null("name") {
		return fmt.Errorf("call %d has its name a second time", index)
	}
	piece, err := inner.filled(field)
	if err != nil {
		return fmt.Errorf("call %d: %w", index, err)
	}
	call.text += piece
	return nil
}

// open takes the first piece of a call.
func (c *chatChoice) open(o object) error {
	id, err := o.filled("id")
	if err != nil {
		return fmt.Errorf("the first piece of call %d: %w", len(c.calls), err)
	}
	if slices.Contains(c.ids, id) {
		return fmt.Errorf("two calls with the id %q", id)
	}
	kind, err := o.text("type")
	if err != nil || kind != "function" && kind != "custom" {
		return fmt.Errorf("the first piece of call %d: type is %s, expected \"function\"", len(c.calls), shown(o["type"]))
	}
	call := &chatCall{kind: kind}
	inner, field, err := call.payload(o)
	if err == nil {
		_, err = inner.filled("name")
	}
	if err == nil {
		call.text, err = inner.text(field)
	}
	if err != nil {
		return fmt.Errorf("the first piece of call %d: %w", len(c.calls), err)
	}
	c.calls, c.ids = append(c.calls, call), append(c.ids, id)
	return nil
}

func (c *chatCall) payload(o object) (inner object, field string, err error) {
	field = "arguments"
	if c.kind == "custom" {
		field = "input"
	}
	inner, err = o.object(c.kind)
	return inner, field, err
}

// finished tells which choice has no finish_reason.
func (c *chat) finished() error {
	if len(c.choices) == 0 {
		return errors.New("no choice came")
	}
	for i := range int64(len(c.choices)) {
		switch known := c.choices[i]; {
		case known == nil:
			return fmt.Errorf("%d choices, but none with index %d", len(c.choices), i)
		case known.finish == "":
			return fmt.Errorf("choice %d has no finish_reason", i)
		}
	}
	return nil
}

func (c *chat) end() error {
	if !c.ended {
		return errors.New("no [DONE]")
	}
	return nil
}
