package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// MaxWaitForRetry is the longest wait for which a client may be told to retry by
// itself. Some clients give up at once on a longer one, others block for it.
const MaxWaitForRetry = time.Minute

// Retry says whether a client's SDK should repeat the request by itself.
type Retry uint8

// The answers. The zero value decides by class, wait and consumption.
const (
	RetryByClass Retry = iota
	RetryYes
	RetryNo
)

// Error is a classified failure.
//
// Only Public, Param, Allow and Gateway may leave the process; the cause and what
// the upstream said are for logs and records. An Error is not changed after it
// was returned.
type Error struct {
	Class      Class
	Code       string        // stable code for the caller; empty takes the class's
	HTTPStatus int           // status for the caller; 0 takes the class's
	Public     string        // text for the caller; empty takes the class's
	Param      string        // the member or parameter that is wrong, in the caller's protocol
	Allow      string        // methods the path takes, for MethodNotAllowed
	RetryAfter time.Duration // wait that an upstream or a limit asks for; 0 if none
	Retry      Retry         // overrides what the class says, within the rules of ShouldRetry

	UpstreamStatus    int    // HTTP status of the upstream's answer; 0 if there was none
	UpstreamCode      string // the upstream's own code or type
	UpstreamRequestID string // the upstream's request id, for its support

	Proxy bool // the egress proxy failed, not what lies behind it

	// OfRequest says that what was asked for brought the failure about, as a prompt that
	// no minute has room for: another request may well succeed where this one failed.
	OfRequest bool

	// Consumed raises the class's consumption; the larger of both counts.
	Consumed Consumption

	Gateway *Gateway // details of the gateway's decision for the caller; may be nil
	Err     error    // cause, for logs only
}

// New returns an Error of class c with a text for the caller. An empty text takes
// that of the class.
func New(c Class, public string) *Error { return &Error{Class: c, Public: public} }

// Newf is New with a format.
func Newf(c Class, format string, args ...any) *Error {
	return &Error{Class: c, Public: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error of class c for a cause that only logs see.
func Wrap(c Class, err error) *Error { return &Error{Class: c, Err: err} }

// Error is the text for logs: class, upstream status and code, and the cause, or
// the public text if there is no cause.
func (e *Error) Error() string {
	s := e.Class.String()
	if e.UpstreamStatus != 0 {
		s += fmt.Sprintf(": upstream status %d", e.UpstreamStatus)
	}
	if e.UpstreamCode != "" {
		s += " " + e.UpstreamCode
	}
	switch {
	case e.Err != nil:
		s += ": " + e.Err.Error()
	case e.Public != "":
		s += ": " + e.Public
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status is the HTTP status for the caller.
func (e *Error) Status() int {
	if e.HTTPStatus != 0 {
		return e.HTTPStatus
	}
	return e.Class.Status()
}

// StableCode is the code for the caller.
func (e *Error) StableCode() string {
	if e.Code != "" {
		return e.Code
	}
	return e.Class.Code()
}

// Text is the text for the caller.
func (e *Error) Text() string {
	if e.Public != "" {
		return e.Public
	}
	return e.Class.Text()
}

// Consumption is what may have been consumed.
func (e *Error) Consumption() Consumption { return max(e.Consumed, e.Class.Consumption()) }

// ShouldRetry reports whether the client's SDK should repeat the request by
// itself: never when an upstream may already have worked for it, never when the
// wait is longer than MaxWaitForRetry, otherwise as Retry or the class says.
func (e *Error) ShouldRetry() bool {
	switch {
	case e.Consumption() >= ConsumedPossible, e.RetryAfter > MaxWaitForRetry, e.Retry == RetryNo:
		return false
	case e.Retry == RetryYes:
		return true
	}
	return e.Class.WaitHelps()
}

// Outcome is what the caller is told about the fate of the request, or empty if
// nothing was consumed: OutcomeStreamIncomplete for an answer that broke,
// OutcomePossiblyConsumed where an upstream may have worked in vain.
func (e *Error) Outcome() string {
	switch {
	case e.Gateway != nil && e.Gateway.Outcome != "":
		return e.Gateway.Outcome
	case e.Class == CutAfterFirst:
		return OutcomeStreamIncomplete
	case e.Class == Refusal || e.Class == Internal: // a refusal is an answer; the fault of the gateway is not known to have an attempt
		if e.Consumed < ConsumedPossible {
			return ""
		}
	}
	if e.Consumption() >= ConsumedPossible {
		return OutcomePossiblyConsumed
	}
	return ""
}

// As returns the first Error in err's tree. Any other error becomes an Error of
// the class Of gives, with err as its cause; nil stays nil.
func As(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Wrap(Of(err), err)
}

// Of returns the class of the first Error in err's tree. A deadline that nobody
// classified is DeadlineExceeded, a bare cancellation ClientCanceled, anything
// else Internal: an unclassified error is a defect of the gateway.
func Of(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return ClientCanceled
	}
	return Internal
}
