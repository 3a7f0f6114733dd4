package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// MaxConverted is the largest whole answer that is converted, in bytes: it has to be
// in memory. Answers with pictures are the large ones.
const MaxConverted = 64 << 20

var errConvertedTooLarge = errors.New("the answer is larger than 64 MiB, which is the most that is converted")

// OpenConverted reads an answer to its end and makes of it what the caller gets. Until
// then nothing is committed to, so that any failure can still fail over.
func OpenConverted(ctx context.Context, resp *http.Response, c *protocol.Converted, l Limits, cancel context.CancelCauseFunc) (*Whole, *fault.Error) {
	defer resp.Body.Close()
	watch := watchFor(l.Idle, cancel)
	defer watch.stop()
	var body bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= MaxConverted {
		body.Grow(int(n) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(watched{resp.Body, watch}, MaxConverted+1))
	switch {
	case err != nil:
		return nil, brokenWhole(ctx, err)
	case body.Len() > MaxConverted:
		return nil, fault.Wrap(fault.Malformed, errConvertedTooLarge)
	}
	a := &Whole{codec: c.Codec, limits: l, cancel: cancel, full: true}
	var f *fault.Error
	if a.read, f = c.Codec.ReadAnswer(bytes.NewBuffer(body.Bytes())); f != nil {
		return nil, f
	}
	if a.head, f = c.Answer(body.Bytes()); f != nil {
		return nil, f
	}
	return a, nil
}

// Collect reads a stream to its end and makes one answer of it, for a caller who
// asked for no stream.
func Collect(ctx context.Context, resp *http.Response, d protocol.StreamDecoder, conv protocol.StreamConverter, l Limits, mark EndMark, cancel context.CancelCauseFunc) (*Whole, *fault.Error) {
	s, f := OpenChanged(ctx, resp, d, Change{Convert: conv}, l, mark, cancel)
	if f != nil {
		return nil, f
	}
	defer s.close()
	for f = s.failed; f == nil && !s.over(); {
		if s.watch != nil {
			s.watch.Reset(s.watched)
		}
		_, f = s.read()
	}
	if f == nil && !s.ended {
		f = s.brokenBefore(ctx)
	}
	if f == nil {
		f = s.endConversion()
	}
	if f != nil {
		return nil, f
	}
	a := &Whole{limits: l, cancel: cancel, full: true, head: s.held}
	o := s.outcome(Completed, nil)
	a.read = protocol.Answer{Usage: o.Usage, UsageReported: o.Reported, Model: o.ServedModel, ID: o.ResponseID, Stop: d.Stop(), OutputBytes: o.OutputBytes}
	return a, nil
}

// watched resets a watch with every read.
type watched struct {
	io.Reader
	watch *watch
}

// Read implements io.Reader.
func (r watched) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.watch.reset()
	return n, err
}
