package gemini

import (
	"errors"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

var (
	errNoAnswer  = errors.New("the answer has neither a candidate nor the reason why there is none")
	errTooLarge  = errors.New("the answer is larger than the gateway keeps")
	errNotObject = errors.New("the arguments of a call are no JSON object")
)

// DecodeAnswer reads a whole answer, which is one chunk, or an array of chunks.
func (*Codec) DecodeAnswer(body []byte, c *protocol.Conversion) (*llm.Answer, *fault.Error) {
	d := newChunks(c)
	var all llm.Collector
	fits := true
	emit := func(e llm.Event) { fits = all.Add(e) && fits }
	var outer wirejson.Reader
	outer.ResetLenient(body)
	var f *fault.Error
	if outer.Kind() == '[' {
		outer.Enter('[')
		for outer.Next() {
			if raw := outer.Value(); f == nil && len(raw) > 0 {
				f = d.chunk(raw, emit)
			}
		}
		if err := outer.Done(); f == nil && err != nil {
			f = fault.Wrap(fault.Malformed, err)
		}
	} else {
		f = d.chunk(body, emit)
	}
	switch {
	case f != nil:
		return nil, f
	case !d.candidates && !d.blocked:
		return nil, fault.Wrap(fault.Malformed, errNoAnswer)
	case !fits:
		return nil, fault.Wrap(fault.Malformed, errTooLarge)
	}
	d.finish(emit)
	return all.Answer(), nil
}
