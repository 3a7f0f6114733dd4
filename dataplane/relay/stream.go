// Package relay carries a provider's answer to the client: it holds the answer
// back until there is something to commit to, then passes every byte on as it
// comes, watches for silence, and reads the usage on the way.
package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Causes with which a watch ends an upstream call.
var (
	errFirstEvent = errors.New("no content came from the upstream in time")
	errIdle       = errors.New("the upstream fell silent")
)

// Ending is how an answer that reached the client ended.
type Ending uint8

// The endings.
const (
	Completed Ending = iota
	ClientLeft
	Broken // the upstream broke off, or fell silent
)

// Outcome is what became of an answer, as far as it is known when the last bytes
// are released.
type Outcome struct {
	Ending       Ending
	Usage        llm.Usage
	Reported     bool // the provider said so; otherwise Usage is zero and OutputBytes counts
	OutputBytes  int64
	ServedModel  string
	ResponseID   string
	Fault        *fault.Error // of a Broken ending
	FirstEventAt time.Time
	Bytes        int64 // sent to the client
}

// Limits bound the silence of an upstream.
type Limits struct {
	FirstEvent time.Duration // from the headers to the first content; 0 for none
	Idle       time.Duration // between bytes; 0 for none
}

// Hooks are called on the way.
type Hooks struct {
	// Settle is called exactly once, before the last bytes are released to the client.
	Settle func(Outcome)

	// Progress is called at most every ProgressEvery while a stream runs.
	Progress func(Outcome)

	// KeepAlive is what the client of a silent stream gets.
	KeepAlive KeepAlive

	// Begun says that the head is written and keep-alives were sent.
	Begun bool
}

// ProgressEvery is the interval of Hooks.Progress.
const ProgressEvery = 5 * time.Second

// maxHeld bounds what is held back before the first content: two of the largest frames
// (Responses tells the request back in two of them) and small ones beside them.
const maxHeld = 2*sse.DefaultMaxFrame + lookAhead

var errHeld = errors.New("the upstream sent more than 32 MiB before any content")

// tailWait is how long bytes that follow the end of a stream are waited for.
const tailWait = time.Second

// chunk is how many bytes are read at once. The transport hands out little more.
const chunkSize = 4 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// EndMark says how a stream tells its end.
type EndMark uint8

// The marks.
const (
	OwnMark  EndMark = iota // by an event of its own, after which nothing counts
	LateMark                // by a part of an event, after which usage may follow (Gemini)
	BodyMark                // by the end of the body after a reason to stop (servers that send no [DONE])
)

// Stream is a streamed answer of a provider.
type Stream struct {
	resp    *http.Response
	decoder protocol.StreamDecoder
	convert protocol.StreamConverter // makes what the client gets; nil passes every byte on
	rewrite protocol.Rewriter        // changes ids in what is passed on; nil changes none
	limits  Limits
	cancel  context.CancelCauseFunc // ends the upstream call
	mark    EndMark

	parser  sse.Parser
	buf     *[chunkSize]byte
	held    []byte // read and not yet written
	watch   *time.Timer
	watched time.Duration
	readErr error
	failed  *fault.Error // reported behind the first content, in the read that brought it
	first   time.Time
	ended   bool // the terminal was seen
	told    bool // the conversion was ended
	pulse   *Pulse
	sent    int64
}

// Change says what the client gets in place of what the upstream sends. At most one of
// its members is set.
type Change struct {
	Convert protocol.StreamConverter // another protocol
	Rewrite protocol.Rewriter        // other ids
}

// OpenChanged reads a streamed answer up to its first content, which it holds. The
// client gets of it what ch makes; the zero Change passes every byte on. Until it
// returns nothing has been committed to: it fails, with the class of what happened,
// if the stream ends, breaks, or reports an error before any content, or if
// nothing comes in time. cancel must end the upstream call. A Stream that was
// opened must be forwarded. mark says how its end is told.
func OpenChanged(ctx context.Context, resp *http.Response, d protocol.StreamDecoder, ch Change, l Limits, mark EndMark, cancel context.CancelCauseFunc) (*Stream, *fault.Error) {
	s := &Stream{
		resp:    resp,
		decoder: d,
		convert: ch.Convert,
		rewrite: ch.Rewrite,
		limits:  l,
		cancel:  cancel,
		mark:    mark,
		buf:     chunks.Get().(*[chunkSize]byte),
	}
	s.startWatch(l.FirstEvent, errFirstEvent)
	for {
		semantic, f := s.read()
		switch {
		case semantic:
			// An error behind it comes too late for another attempt.
			s.failed = f
			s.first = time.Now()
			s.startWatch(l.Idle, errIdle)
			return s, nil
		case f != nil:
			s.close()
			return nil, f
		case len(s.held) > maxHeld:
			s.close()
			return nil, &fault.Error{Class: fault.Malformed, Err: errHeld}
		case s.readErr != nil:
			f := s.brokenBefore(ctx)
			s.close()
			return nil, f
		}
	}
}

// read reads once and takes the frames that are complete: their bytes are appended
// to held. It reports content, unless an error came before it, and an error that
// came before the end.
func (s *Stream) read() (semantic bool, f *fault.Error) {
	n, err := s.resp.Body.Read(s.buf[:])
	if n > 0 {
		s.parser.Feed(s.buf[:n])
	}
	if err != nil {
		s.readErr = err
		if errors.Is(err, io.EOF) {
			s.parser.Finish()
		}
	}
	for {
		frame, ok := s.parser.Next()
		if !ok {
			break
		}
		ended := s.decoder.Terminated()
		o := s.decoder.Observe(frame)
		half := frame.Tail && !s.decoder.Terminated() // an event, behind which the error event could not be read
		switch o.Kind {
		case protocol.UsageOnly:
			if s.convert == nil {
				continue // the gateway asked for it, not the client
			}
		case protocol.Semantic, protocol.Terminal:
			semantic = semantic || f == nil && !half
		case protocol.Error:
			if f == nil && !ended {
				f = o.Fault
			}
		}
		if half {
			continue
		}
		switch {
		case s.rewrite != nil:
			s.held = s.rewrite.Frame(s.held, frame)
		case s.convert == nil:
			s.held = append(s.held, frame.Raw...)
		case f == nil && o.Kind != protocol.Error && !s.told:
			s.held, f = s.convert.Convert(s.held, frame)
		}
	}
	s.ended = s.decoder.Terminated() || s.mark == BodyMark && errors.Is(err, io.EOF) && s.decoder.Stop().Native != ""
	if perr := s.parser.Err(); perr != nil && s.readErr == nil {
		s.readErr = perr
	}
	return semantic, f
}

// over reports whether nothing more is read.
func (s *Stream) over() bool { return s.readErr != nil || s.ended && s.mark == OwnMark }

// endConversion has the converter say, once, what comes after the last event.
func (s *Stream) endConversion() (f *fault.Error) {
	if s.convert != nil && !s.told {
		s.told = true
		s.held, f = s.convert.End(s.held)
	}
	return f
}

// brokenBefore is the fault of a stream that ended before any content.
func (s *Stream) brokenBefore(ctx context.Context) *fault.Error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errFirstEvent):
		return &fault.Error{Class: fault.Timeout, Err: errFirstEvent}
	case cause != nil:
		return fault.As(cause)
	}
	var large *sse.TooLargeError
	if errors.As(s.readErr, &large) {
		return &fault.Error{Class: fault.Malformed, Err: s.readErr}
	}
	return &fault.Error{Class: fault.CutBeforeFirst, Err: s.readErr}
}

// Forward commits: it writes what is held and everything that follows, and returns
// when the answer is over. The head must have been set on w, not written.
// streamError makes the protocol's error event for an answer that breaks.
func (s *Stream) Forward(ctx context.Context, w http.ResponseWriter, h Hooks, streamError func(*fault.Error, protocol.StreamDecoder) []byte) Outcome {
	defer s.close()
	rc := http.NewResponseController(w)
	if !h.Begun {
		w.WriteHeader(http.StatusOK)
	}
	s.pulse = NewPulse(w, h.KeepAlive, nil)
	defer s.pulse.Stop()
	progress := time.Now().Add(ProgressEvery)
	settled := false
	settle := func(o Outcome) Outcome {
		if !settled {
			settled = true
			h.Settle(o)
		}
		return o
	}
	if s.failed != nil {
		return s.passError(w, rc, settle, s.failed, streamError)
	}
	for {
		over := s.readErr != nil
		if s.ended && (over || s.mark == OwnMark) {
			if f := s.endConversion(); f != nil {
				return s.passError(w, rc, settle, f, streamError)
			}
			settle(s.outcome(Completed, nil))
		}
		if over && !s.ended {
			return s.breakOff(ctx, w, rc, settle, streamError)
		}
		if !s.ended || settled {
			if !s.flush(w, rc) {
				s.cancel(fault.Wrap(fault.ClientCanceled, errors.New("the client left")))
				return settle(s.outcome(clientEnding(s.ended), nil))
			}
		}
		if over {
			return s.outcome(Completed, nil)
		}
		if s.ended {
			s.startWatch(tailWait, errIdle)
		} else if s.watch != nil {
			s.watch.Reset(s.watched)
		}
		if _, f := s.read(); f != nil {
			return s.passError(w, rc, settle, f, streamError)
		}
		if now := time.Now(); h.Progress != nil && now.After(progress) {
			h.Progress(s.outcome(Completed, nil))
			progress = now.Add(ProgressEvery)
		}
	}
}

// passError ends an answer with the provider's own error event, which is among the
// held bytes. An event that cannot be read tells the client nothing, so one of ours
// follows it.
func (s *Stream) passError(w http.ResponseWriter, rc *http.ResponseController, settle func(Outcome) Outcome, f *fault.Error, streamError func(*fault.Error, protocol.StreamDecoder) []byte) Outcome {
	o := settle(s.outcome(Broken, f))
	if f.Class == fault.Malformed || s.convert != nil {
		ours := *f
		ours.Gateway = &fault.Gateway{Outcome: fault.OutcomeStreamIncomplete}
		s.held = append(s.held, streamError(&ours, s.decoder)...)
	}
	s.flush(w, rc)
	return o
}

// clientEnding: a client that leaves after the end of the answer has had it all.
func clientEnding(ended bool) Ending {
	if ended {
		return Completed
	}
	return ClientLeft
}

// breakOff ends an answer that is incomplete: with the protocol's error event, and
// never with a made-up end.
func (s *Stream) breakOff(ctx context.Context, w http.ResponseWriter, rc *http.ResponseController, settle func(Outcome) Outcome, streamError func(*fault.Error, protocol.StreamDecoder) []byte) Outcome {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errIdle) && fault.As(cause).Class == fault.ClientCanceled {
		return settle(s.outcome(ClientLeft, nil))
	}
	f := &fault.Error{
		Class:   fault.CutAfterFirst,
		Gateway: &fault.Gateway{Outcome: fault.OutcomeStreamIncomplete},
		Err:     s.readErr,
	}
	if cause := context.Cause(ctx); cause != nil {
		f.Err = cause
		if d := fault.As(cause); d.Class == fault.DeadlineExceeded {
			f.Public = "the time allowed for the request is over"
		}
	}
	o := settle(s.outcome(Broken, f))
	s.held = append(s.held, streamError(f, s.decoder)...)
	s.flush(w, rc)
	return o
}

func (s *Stream) outcome(e Ending, f *fault.Error) Outcome {
	o := Outcome{
		Ending:       e,
		OutputBytes:  s.decoder.OutputBytes(),
		ServedModel:  s.decoder.ServedModel(),
		ResponseID:   s.decoder.ResponseID(),
		Fault:        f,
		FirstEventAt: s.first,
		Bytes:        s.sent,
	}
	o.Usage, o.Reported = s.decoder.Usage()
	return o
}

// flush writes what is held and reports whether the client is still there.
func (s *Stream) flush(w http.ResponseWriter, rc *http.ResponseController) bool {
	if len(s.held) == 0 {
		return true
	}
	s.pulse.lock()
	defer s.pulse.unlock()
	n, err := w.Write(s.held)
	s.sent += int64(n)
	if cap(s.held) > 2*chunkSize {
		s.held = nil // a large event is over; its memory is not kept for the small ones
	} else {
		s.held = s.held[:0]
	}
	if err != nil {
		return false
	}
	return rc.Flush() == nil
}

func (s *Stream) startWatch(d time.Duration, cause error) {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
	if s.watched = d; d > 0 {
		s.watch = time.AfterFunc(d, func() { s.cancel(cause) })
	}
}

func (s *Stream) close() {
	if s.watch != nil {
		s.watch.Stop()
	}
	s.resp.Body.Close()
	if s.buf != nil {
		chunks.Put(s.buf)
		s.buf = nil
	}
}
