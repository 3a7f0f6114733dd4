package endpoint

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Raw is the codec of one call that is passed on without being understood: neither
// request nor answer is changed, and of the answer only a usage is looked for. It serves
// one request and is not safe for concurrent use.
type Raw struct {
	protocol.Codec // of the protocol that the path belongs to: errors

	target protocol.Target
}

// Inspect looks at nothing.
func (c *Raw) Inspect([]byte, protocol.Target) (*protocol.Shape, *fault.Error) {
	return &protocol.Shape{Choices: 1}, nil
}

// Outgoing is the caller's body; nothing for a call without one.
func (c *Raw) Outgoing(body []byte, _ *protocol.Shape, _ string, _ protocol.Outgoing) [][]byte {
	if len(body) == 0 {
		return nil
	}
	return [][]byte{body}
}

// UpstreamURL is the caller's path and query, without the caller's credential.
func (c *Raw) UpstreamURL(t protocol.Target, _ string) (path, rawQuery string) {
	return t.Path, protocol.ForwardQuery(t.RawQuery)
}

// Estimate is one call, of unknown size.
func (c *Raw) Estimate() llm.Usage { return llm.Usage{} }

// ReadAnswer reads an answer of any kind to its end. It fails only if src does. The usage
// in an answer to GET is that of an earlier call, which was booked when it was made.
func (c *Raw) ReadAnswer(src io.Reader) (protocol.Answer, *fault.Error) {
	in := &failing{src: src}
	b := bufio.NewReader(in)
	var a protocol.Answer
	if head, _ := b.Peek(1); len(head) > 0 && !protocol.SafeMethod(c.target.Method) {
		switch head[0] {
		case '{', ' ', '\n', '\r', '\t':
			a = c.readObject(b)
		case 'd', 'e', ':':
			a = c.readEvents(b)
		}
	}
	_, _ = io.Copy(io.Discard, b) // in keeps the error
	if in.err != nil {
		return a, fault.Wrap(fault.Reset, in.err)
	}
	return a, nil
}

// failing keeps the error of a reader, apart from its end.
type failing struct {
	src io.Reader
	err error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// readObject reads a JSON object; what it tells until it can no longer be read counts.
func (c *Raw) readObject(src io.Reader) protocol.Answer {
	if p := c.target.Protocol; p == protocol.Anthropic || p == protocol.Gemini {
		a, _ := c.Codec.ReadAnswer(src)
		return a
	}
	r := new(wirejson.Reader)
	defer r.Release()
	r.ResetStream(src)
	var a account
	a.read(r)
	if a.settleTokens(a.completion); !a.Reported {
		a.settlePieces()
	}
	return protocol.Answer{Usage: a.Tokens, UsageReported: a.Reported, Model: a.Model, ID: a.ID}
}

// settlePieces takes what is sold by its length.
func (a *account) settlePieces() {
	switch {
	case a.kind == "video" && a.length > 0:
		a.Tokens, a.Reported = llm.Usage{VideoSeconds: int64(math.Ceil(a.length))}, true
	case a.seconds > 0:
		a.Tokens, a.Reported = llm.Usage{AudioSeconds: int64(math.Ceil(a.seconds))}, true
	}
}

// readEvents reads server-sent events of the protocol.
func (c *Raw) readEvents(src io.Reader) protocol.Answer {
	d := c.NewStream(true)
	var p sse.Parser
	buf := make([]byte, 4<<10)
	for ended := false; !ended; {
		n, err := src.Read(buf)
		p.Feed(buf[:n])
		if ended = err != nil; ended {
			p.Finish()
		}
		for f, ok := p.Next(); ok; f, ok = p.Next() {
			if len(bytes.TrimSpace(f.Data)) > 0 {
				d.Observe(f)
			}
		}
		if p.Err() != nil {
			break
		}
	}
	a := protocol.Answer{Model: d.ServedModel(), ID: d.ResponseID(), OutputBytes: d.OutputBytes()}
	a.Usage, a.UsageReported = d.Usage()
	return a
}
