package streamcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// responses judges Responses.
type responses struct {
	allowError bool

	next   int64  // sequence number of the next event
	begun  string // the last event that told of the beginning
	id     once
	model  once
	items  []*responsesItem
	failed bool // the error event came
	ended  bool // a terminal event came
}

func (r *responses) event(name string, data []byte) error {
	if string(data) == "[DONE]" {
		return errors.New("[DONE], which Responses does not have")
	}
	o, err := decodeObject(data)
	if err != nil {
		return err
	}
	if err := o.is("type", name); err != nil {
		return fmt.Errorf("the event line and the data differ: %w", err)
	}
	if r.ended || r.failed && name != "response.failed" {
		return fmt.Errorf("%s after the end of the stream", name)
	}
	if err := o.at("sequence_number", int(r.next)); err != nil {
		return err
	}
	r.next++
	if err := r.judge(name, o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *responses) judge(name string, o object) error {
	switch {
	case name == "error":
		return r.error(o)
	case r.failed:
		return r.terminal("failed", o)
	}
	switch name {
	case "response.created", "response.in_progress", "response.queued":
		return r.begin(name, o)
	}
	if r.begun != "response.in_progress" {
		return errors.New("response.created and response.in_progress come first")
	}
	switch name {
	case "response.output_item.added":
		return r.open(o)
	case "response.output_item.done":
		return r.finish(o)
	case "response.completed", "response.incomplete", "response.failed":
		return r.terminal(strings.TrimPrefix(name, "response."), o)
	}
	item, err := r.at(o)
	if err != nil {
		return err
	}
	return item.event(strings.TrimPrefix(name, "response."), o)
}

func (r *responses) error(o object) error {
	r.failed = true
	if !r.allowError {
		return fmt.Errorf("an error event: %s", shown(o["message"]))
	}
	_, err := o.filled("message")
	if _, given := o["code"]; err == nil && !given {
		err = errors.New("code is missing")
	}
	return err
}

// response checks what is the same in every response object.
func (r *responses) response(o object) (object, error) {
	v, err := o.object("response")
	if err != nil {
		return nil, err
	}
	if _, err := v.filled("id"); err != nil {
		return nil, err
	}
	if _, err := v.filled("model"); err != nil {
		return nil, err
	}
	if _, err := v.number("created_at"); err != nil {
		return nil, err
	}
	return v, errors.Join(v.is("object", "response"), r.id.take("the response's id", v["id"]), r.model.take("model", v["model"]))
}

func (r *responses) begin(name string, o object) error {
	after := map[string][]string{ // queued is told of background work alone
		"response.created": {""}, "response.queued": {"response.created"},
		"response.in_progress": {"response.created", "response.queued"},
	}
	if !slices.Contains(after[name], r.begun) {
		return fmt.Errorf("it comes once and after one of %q", after[name])
	}
	r.begun = name
	v, err := r.response(o)
	if err != nil {
		return err
	}
	if err := v.is("status", "in_progress"); err != nil && v.is("status", "queued") != nil {
		return err
	}
	out, err := v.list("output")
	if err == nil && len(out) > 0 {
		err = errors.New("output is not empty at the beginning")
	}
	return err
}

func (r *responses) open(o object) error {
	if err := o.at("output_index", len(r.items)); err != nil {
		return err
	}
	v, err := o.object("item")
	if err != nil {
		return err
	}
	item := new(responsesItem)
	if item.id, err = v.filled("id"); err != nil {
		return err
	}
	if item.kind, err = v.filled("type"); err != nil {
		return err
	}
	if err := item.start(v); err != nil {
		return fmt.Errorf("item of type %s: %w", item.kind, err)
	}
	for _, other := range r.items {
		if other.id == item.id {
			return fmt.Errorf("two items with the id %q", item.id)
		}
		if item.callID != "" && other.callID == item.callID {
			return fmt.Errorf("two calls with the call_id %q", item.callID)
		}
	}
	r.items = append(r.items, item)
	return nil
}

// at is the open item an event names, by its place and by its id.
func (r *responses) at(o object) (*responsesItem, error) {
	n, err := o.number("output_index")
	if err != nil {
		return nil, err
	}
	if n >= int64(len(r.items)) {
		return nil, fmt.Errorf("item %d was never added", n)
	}
	item := r.items[n]
	if item.done != nil {
		return nil, fmt.Errorf("item %d is done", n)
	}
	return item, o.is("item_id", item.id)
}

// finish takes response.output_item.done.
func (r *responses) finish(o object) error {
	v, err := o.object("item")
	if err != nil {
		return err
	}
	n, err := o.number("output_index")
	switch {
	case err != nil:
		return err
	case n >= int64(len(r.items)):
		return fmt.Errorf("item %d was never added", n)
	case r.items[n].done != nil:
		return fmt.Errorf("item %d is done already", n)
	}
	i := r.items[n]
	if err := errors.Join(v.is("id", i.id), v.is("type", i.kind)); err != nil {
		return err
	}
	if err := i.complete(v); err != nil {
		return fmt.Errorf("item %d of type %s: %w", n, i.kind, err)
	}
	i.done = o["item"].Clone()
	return nil
}

// terminal takes the event that ends the stream.
func (r *responses) terminal(status string, o object) error {
	r.ended = true
	v, err := r.response(o)
	if err != nil {
		return err
	}
	if err := v.is("status", status); err != nil {
		return err
	}
	out, err := v.list("output")
	if err != nil {
		return err
	}
	if status == "failed" {
		return r.failure(v, out)
	}
	for n, item := range r.items {
		if item.done == nil {
			return fmt.Errorf("item %d is not done", n)
		}
	}
	if err := r.agree(out); err != nil {
		return err
	}
	if status == "incomplete" {
		details, err := v.object("incomplete_details")
		if err == nil {
			_, err = details.filled("reason")
		}
		if err != nil {
			return err
		}
	}
	u, err := v.object("usage")
	if err != nil {
		return err
	}
	if err := u.counts("input_tokens", "output_tokens", "total_tokens"); err != nil {
		return err
	}
	in, _ := u.number("input_tokens")
	written, _ := u.number("output_tokens")
	return u.at("total_tokens", int(in+written))
}

// agree checks the output against the items that are done.
func (r *responses) agree(out []jsontext.Value) error {
	done := slices.DeleteFunc(slices.Clone(r.items), func(i *responsesItem) bool { return i.done == nil })
	if len(out) != len(done) {
		return fmt.Errorf("output has %d items, but %d were done", len(out), len(done))
	}
	for n, item := range done {
		if !same(out[n], item.done) {
			return fmt.Errorf("output[%d] is not the item that was done", n)
		}
	}
	return nil
}

func (r *responses) failure(v object, out []jsontext.Value) error {
	e, err := v.object("error")
	if err != nil {
		return err
	}
	if !r.allowError {
		return fmt.Errorf("the response failed: %s", shown(e["message"]))
	}
	if _, err := e.filled("code"); err != nil {
		return err
	}
	if _, err := e.filled("message"); err != nil {
		return err
	}
	if len(out) == 0 { // a failed answer need not repeat what it said
		return nil
	}
	return r.agree(out)
}

func (r *responses) end() error {
	if !r.ended && !r.failed {
		return errors.New("no response.completed, response.incomplete or response.failed")
	}
	return nil
}
