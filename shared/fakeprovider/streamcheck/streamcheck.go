// Package streamcheck tells whether a streamed answer is one that a client of its
// protocol may rely on: a state machine for each of the four protocols, stricter than
// any SDK. SDKs differ in what they forgive, so a stream that one of them happens to
// read proves little; one that passes here is what the vendor itself would have sent.
//
// It is for tests of what is sent to clients. An error names the event, counted
// from 1, and the rule.
package streamcheck

import (
	"fmt"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// Option changes what is valid.
type Option uint8

// AllowError takes streams that end in the protocol's own error event: a chunk with
// an error object in Chat and Gemini, event error in Anthropic, event error or
// response.failed, or both in this order, in Responses. It must be the last event.
const AllowError Option = 1

// MaxEvent bounds one event, in bytes; a longer one is an error. SDKs read less.
const MaxEvent = 64 << 20

// Checker checks a stream while it arrives. It is not safe for concurrent use.
type Checker struct {
	in  framing
	err error
}

// framing finds the events in the bytes of a body.
type framing interface {
	feed(data []byte) error
	close() error
}

// machine judges events in their order.
type machine interface {
	// event takes one event; name is empty where it has no event line.
	event(name string, data []byte) error
	// end tells what is missing when the body ends here.
	end() error
}

// New returns a Checker of one stream. A Gemini stream may be framed as events or as a
// JSON array; its first byte tells.
func New(p fakeprovider.Protocol, options ...Option) *Checker {
	allow := false
	for _, o := range options {
		allow = allow || o == AllowError
	}
	switch p {
	case fakeprovider.Chat:
		return &Checker{in: &events{to: &chat{allowError: allow}, rules: eventRules{comments: true}}}
	case fakeprovider.Responses:
		return &Checker{in: &events{to: &responses{allowError: allow}, rules: eventRules{comments: true, names: true}}}
	case fakeprovider.Anthropic:
		return &Checker{in: &events{to: &anthropic{allowError: allow}, rules: eventRules{comments: true, names: true}}}
	case fakeprovider.Gemini:
		return &Checker{in: &eitherFraming{to: &gemini{allowError: allow}}}
	}
	return &Checker{err: fmt.Errorf("protocol %q has no stream", p)}
}

// Feed takes the next bytes, cut anywhere. It fails as soon as the stream cannot become
// valid any more, and then always with that first error.
func (c *Checker) Feed(data []byte) error {
	if c.err == nil {
		c.err = c.in.feed(data)
	}
	return c.err
}

// Close tells that the body ended in order, and fails if the stream is not complete.
func (c *Checker) Close() error {
	if c.err == nil {
		c.err = c.in.close()
	}
	return c.err
}

// Check checks a complete stream.
func Check(p fakeprovider.Protocol, body []byte, options ...Option) error {
	c := New(p, options...)
	if err := c.Feed(body); err != nil {
		return err
	}
	return c.Close()
}
