package streamcheck

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// responsesItem is one item of the output.
type responsesItem struct {
	id, kind string
	callID   string
	name     string

	parts   []*responsesPart // content, or the summary of reasoning
	summary []*responsesPart
	input   responsesPart // arguments of a function, or input of a custom tool

	done jsontext.Value // the finished item
}

// start checks that a new item says nothing yet.
func (i *responsesItem) start(v object) (err error) {
	if !v.null("status") {
		if err := v.is("status", "in_progress"); err != nil {
			return err
		}
	}
	field := "input"
	switch i.kind {
	case "message":
		if content, err := v.list("content"); err != nil || len(content) > 0 {
			return fmt.Errorf("content is %s, expected []", shown(v["content"]))
		}
		return v.is("role", "assistant")
	case "reasoning":
		if summary, err := v.list("summary"); err != nil || len(summary) > 0 {
			return fmt.Errorf("summary is %s, expected []", shown(v["summary"]))
		}
		return nil
	case "function_call":
		field = "arguments"
	case "custom_tool_call":
	default:
		return nil
	}
	if i.callID, err = v.filled("call_id"); err != nil {
		return err
	}
	if i.name, err = v.filled("name"); err != nil {
		return err
	}
	return v.is(field, "")
}

// event takes an event inside an item; name is without "response.".
func (i *responsesItem) event(name string, o object) error {
	switch name {
	case "content_part.added":
		return i.addPart(&i.parts, "content_index", []string{"output_text", "refusal", "reasoning_text"}, o)
	case "content_part.done":
		return donePart(i.parts, "content_index", o)
	case "output_text.delta", "refusal.delta", "reasoning_text.delta":
		return deltaPart(i.parts, "content_index", strings.TrimSuffix(name, ".delta"), o)
	case "output_text.done", "refusal.done", "reasoning_text.done":
		return tellPart(i.parts, "content_index", strings.TrimSuffix(name, ".done"), o)
	case "output_text.annotation.added":
		return annotatePart(i.parts, o)
	case "reasoning_summary_part.added":
		return i.addPart(&i.summary, "summary_index", []string{"summary_text"}, o)
	case "reasoning_summary_part.done":
		return donePart(i.summary, "summary_index", o)
	case "reasoning_summary_text.delta":
		return deltaPart(i.summary, "summary_index", "summary_text", o)
	case "reasoning_summary_text.done":
		return tellPart(i.summary, "summary_index", "summary_text", o)
	case "function_call_arguments.delta", "custom_tool_call_input.delta":
		if err := i.takesInput(name); err != nil {
			return err
		}
		return i.input.delta(o)
	case "function_call_arguments.done", "custom_tool_call_input.done":
		if err := i.takesInput(name); err != nil {
			return err
		}
		if !o.null("name") {
			if err := o.is("name", i.name); err != nil {
				return err
			}
		}
		return i.input.tell(o, i.inputField())
	}
	// Built-in tools have events of their own, named for the type of their item.
	if family, _, _ := strings.Cut(name, "."); family != "" && strings.HasPrefix(i.kind, family) {
		return nil
	}
	return fmt.Errorf("not an event of an item of type %s", i.kind)
}

func (i *responsesItem) takesInput(event string) error {
	want := "function_call"
	if strings.HasPrefix(event, "custom_tool_call") {
		want = "custom_tool_call"
	}
	if i.kind != want {
		return fmt.Errorf("the item is of type %s, expected %s", i.kind, want)
	}
	return nil
}

func (i *responsesItem) inputField() string {
	if i.kind == "function_call" {
		return "arguments"
	}
	return "input"
}

// complete checks a finished item against what its events said.
func (i *responsesItem) complete(v object) error {
	switch i.kind {
	case "message":
		return agree(v, "content", i.parts)
	case "reasoning":
		if err := agree(v, "summary", i.summary); err != nil {
			return err
		}
		if len(i.parts) == 0 && v.null("content") {
			return nil
		}
		return agree(v, "content", i.parts)
	case "function_call", "custom_tool_call":
	default:
		return nil
	}
	if !i.input.told {
		return fmt.Errorf("it is done, but its %s are not", i.inputField())
	}
	text := i.input.text.String()
	if i.kind == "function_call" && text != "" && !isObject(text) && v.is("status", "incomplete") != nil {
		return fmt.Errorf("arguments are not a JSON object: %s", shown(jsontext.Value(text)))
	}
	return errors.Join(v.is("call_id", i.callID), v.is("name", i.name), v.is(i.inputField(), text))
}
