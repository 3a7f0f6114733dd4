package protocol

import (
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Seen is what codecs gather from an answer, whole or streamed. Stream decoders
// embed it for the part of StreamDecoder that only reports.
type Seen struct {
	Tokens   llm.Usage
	Reported bool // a usage was stated
	Model    string
	ID       string
	Text     int64 // bytes of text, arguments and reasoning
	Begun    bool  // a Semantic event was seen
	Ended    bool  // the proper end was seen
	How      llm.Stop
	Failure  ErrorInfo
	Failed   bool // the answer holds an error
}

// Usage is the usage reported so far, and whether there was any report.
func (s *Seen) Usage() (llm.Usage, bool) { return s.Tokens, s.Reported }

// ServedModel is the model the provider says it used.
func (s *Seen) ServedModel() string { return s.Model }

// ResponseID is the provider's id of the answer.
func (s *Seen) ResponseID() string { return s.ID }

// OutputBytes is the size of the text seen so far.
func (s *Seen) OutputBytes() int64 { return s.Text }

// Terminated reports whether the proper end was seen.
func (s *Seen) Terminated() bool { return s.Ended }

// Stop is how the answer ended.
func (s *Seen) Stop() llm.Stop { return s.How }

// Keep sets *to to a short string that comes next, unless it is empty.
func (s *Seen) Keep(r *wirejson.Reader, to *string) {
	if v, ok := r.String(MaxHint); ok && v != "" {
		*to = v
	}
}

// AddText counts a string that comes next as output.
func (s *Seen) AddText(r *wirejson.Reader) {
	n, _ := r.Len()
	s.Text += n
}

// Answer makes an Answer of what was seen once r was read to its end, and a fault
// if the answer holds an error or is none. shaped says that it had the outer form
// of an answer.
func (s *Seen) Answer(r *wirejson.Reader, shaped bool) (Answer, *fault.Error) {
	a := Answer{Usage: s.Tokens, UsageReported: s.Reported, Model: s.Model, ID: s.ID, Stop: s.How, OutputBytes: s.Text}
	if err := r.Done(); err != nil {
		return a, answerFault(err)
	}
	if s.Failed {
		return a, ClassifyError(s.Failure, 0, nil, time.Time{})
	}
	if !shaped {
		return a, fault.Wrap(fault.Malformed, errNoAnswer)
	}
	return a, nil
}

var errNoAnswer = errors.New("the answer is JSON of another form")

func answerFault(err error) *fault.Error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.CutBeforeFirst, err)
	case errors.As(err, &syntax), errors.Is(err, wirejson.ErrDepth), errors.Is(err, wirejson.ErrTrailing):
		return fault.Wrap(fault.Malformed, err)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	return fault.Wrap(fault.Reset, err)
}
