package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// lookAhead is how much of an answer that is not streamed is read before anything
// of it is released. An answer that fits is known whole before the commit; of a
// longer one this much lies between what was read and what the client has.
const lookAhead = 64 << 10

// Whole is an answer that is relayed as one body: one that is not streamed, or a
// stream in a framing without events.
type Whole struct {
	resp   *http.Response
	codec  protocol.Codec
	limits Limits
	cancel context.CancelCauseFunc
	parts  bool   // the body grows while it is made: what comes is passed on at once
	head   []byte // what was read before the commit; from heads, if it is of its size
	full   bool   // head is all of it
	read   protocol.Answer
}

// OpenWhole reads an answer: all of it, or the first 64 KiB, or, with parts, what
// comes first. It fails, with nothing committed to, if the answer breaks off there, or
// is whole and cannot be read.
func OpenWhole(ctx context.Context, resp *http.Response, codec protocol.Codec, l Limits, parts bool, cancel context.CancelCauseFunc) (*Whole, *fault.Error) {
	a := &Whole{resp: resp, codec: codec, limits: l, cancel: cancel, parts: parts}
	watch := watchFor(l.Idle, cancel)
	defer watch.stop()
	if n := resp.ContentLength; n >= headSize {
		a.head = make([]byte, 0, min(n+1, lookAhead))
	} else {
		a.head = heads.Get().(*[headSize]byte)[:0]
	}
	for {
		if len(a.head) == cap(a.head) {
			if cap(a.head) >= lookAhead {
				return a, nil
			}
			grown := make([]byte, len(a.head), min(4*cap(a.head), lookAhead))
			copy(grown, a.head)
			a.letGo()
			a.head = grown
		}
		n, err := resp.Body.Read(a.head[len(a.head):cap(a.head)])
		watch.reset()
		a.head = a.head[:len(a.head)+n]
		switch {
		case err == nil && parts && n > 0:
			return a, nil
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			resp.Body.Close()
			a.letGo()
			return nil, brokenWhole(ctx, err)
		}
		resp.Body.Close()
		a.full = true
		answer, f := codec.ReadAnswer(bytes.NewBuffer(a.head))
		if f != nil {
			a.letGo()
			return nil, f
		}
		a.read = answer
		return a, nil
	}
}

// headSize is the buffer that holds a small answer, and heads are kept ones.
const headSize = 4 << 10

var heads = sync.Pool{New: func() any { return new([headSize]byte) }}

// letGo gives the head back to heads.
func (a *Whole) letGo() {
	if cap(a.head) == headSize {
		heads.Put((*[headSize]byte)(a.head[:headSize]))
	}
	a.head = nil
}

func brokenWhole(ctx context.Context, err error) *fault.Error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errIdle):
		return &fault.Error{Class: fault.Timeout, Err: errIdle}
	case cause != nil:
		return fault.As(cause)
	}
	return &fault.Error{Class: fault.Malformed, Err: err}
}

// Forward commits and writes the answer. The head must have been set on w, not
// written. There is no room for an error in an answer that broke off: after a Broken
// ending the caller must end the client's connection, so that it does not look whole.
func (a *Whole) Forward(ctx context.Context, w http.ResponseWriter, h Hooks) Outcome {
	started := time.Now()
	if a.full {
		o := a.outcome(Completed, nil, started)
		h.Settle(o)
		if w.Header()["Content-Length"] == nil && len(a.head) > 0 {
			w.Header()["Content-Length"] = []string{strconv.Itoa(len(a.head))}
		}
		w.WriteHeader(a.status())
		// If it fails, all of the answer was made all the same and is paid for.
		n, _ := w.Write(a.head)
		o.Bytes = int64(n)
		a.letGo()
		return o
	}
	defer a.resp.Body.Close()
	w.WriteHeader(a.status())
	watch := watchFor(a.limits.Idle, a.cancel)
	defer watch.stop()
	src := &behind{src: a.resp.Body, w: w, pending: a.head, watch: watch}
	if a.parts {
		src.rc = http.NewResponseController(w)
	}
	answer, f := a.codec.ReadAnswer(io.MultiReader(bytes.NewReader(a.head), src))
	// The walk may stop early, at the end of the JSON or at something it cannot
	// read; the bytes go on all the same.
	_, err := io.Copy(io.Discard, src)
	a.read = answer
	var o Outcome
	switch {
	case src.clientGone:
		a.cancel(fault.Wrap(fault.ClientCanceled, errors.New("the client left")))
		o = a.outcome(ClientLeft, nil, started)
	case err != nil:
		if cause := context.Cause(ctx); cause != nil && fault.As(cause).Class == fault.ClientCanceled {
			o = a.outcome(ClientLeft, nil, started)
			break
		}
		o = a.outcome(Broken, &fault.Error{Class: fault.CutAfterFirst, Err: err}, started)
	case f != nil && f.Class == fault.CutBeforeFirst:
		// The body ended in good order and the JSON in it did not.
		o = a.outcome(Broken, &fault.Error{Class: fault.CutAfterFirst, Err: f}, started)
	default:
		o = a.outcome(Completed, f, started)
	}
	h.Settle(o)
	src.release()
	o.Bytes = src.sent
	return o
}

// status is the client's: the upstream's own, unless the answer is made anew of a
// stream.
func (a *Whole) status() int {
	if a.resp == nil {
		return http.StatusOK
	}
	return a.resp.StatusCode
}

func (a *Whole) outcome(e Ending, f *fault.Error, first time.Time) Outcome {
	return Outcome{
		Ending:       e,
		Usage:        a.read.Usage,
		Reported:     a.read.UsageReported,
		OutputBytes:  a.read.OutputBytes,
		ServedModel:  a.read.Model,
		ResponseID:   a.read.ID,
		Fault:        f,
		FirstEventAt: first,
	}
}

// behind passes on what is read from src, always a few bytes late: the last ones
// are released by release, after the settlement.
type behind struct {
	src        io.Reader
	w          http.ResponseWriter
	pending    []byte
	watch      *watch
	rc         *http.ResponseController // flushes every piece; nil leaves that to the server
	sent       int64
	clientGone bool
}

// Read implements io.Reader.
func (b *behind) Read(p []byte) (int, error) {
	if b.clientGone {
		return 0, errors.New("the client left")
	}
	n, err := b.src.Read(p)
	b.watch.reset()
	if n > 0 {
		b.release()
		b.pending = append(b.pending[:0], p[:n]...)
	}
	return n, err
}

func (b *behind) release() {
	if len(b.pending) == 0 || b.clientGone {
		return
	}
	n, err := b.w.Write(b.pending)
	b.sent += int64(n)
	b.pending = b.pending[:0]
	b.clientGone = err != nil
	if b.rc != nil && !b.clientGone {
		b.clientGone = b.rc.Flush() != nil
	}
}

// watch ends an upstream call that is silent for too long.
type watch struct {
	timer *time.Timer
	d     time.Duration
}

func watchFor(d time.Duration, cancel context.CancelCauseFunc) *watch {
	if d <= 0 {
		return &watch{}
	}
	return &watch{timer: time.AfterFunc(d, func() { cancel(errIdle) }), d: d}
}

func (w *watch) reset() {
	if w.timer != nil {
		w.timer.Reset(w.d)
	}
}

func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
