package protocol

import (
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// Converter is what a codec does for calls that enter in one protocol and leave in
// another. There is one for each protocol and none for a pair: what the codec of
// the caller's protocol decodes, that of the upstream's encodes, and the answer
// takes the way back. Converters are stateless and safe for concurrent use.
type Converter interface {
	// DecodeRequest reads a caller's request whole. Inspect has judged the body
	// before. The request aliases body. Fields the codec does not know are
	// named in Unknown. It fails with InvalidRequest for what cannot be understood.
	DecodeRequest(body []byte, t Target) (*llm.Request, *fault.Error)

	// EncodeRequest writes a request for the upstream: from known fields alone, in a
	// fixed order, the same bytes for the same request. What the protocol cannot
	// express goes through c.Lose. Fails with RequestNotSupported or InvalidRequest.
	EncodeRequest(r *llm.Request, c *Conversion) ([]byte, *fault.Error)

	// UpstreamTarget is the request line of a converted call, to be given to
	// UpstreamURL, and the headers that the protocol needs, such as a version.
	UpstreamTarget(r *llm.Request, c *Conversion) (Target, map[string]string)

	// DecodeAnswer reads an upstream's whole answer. It fails with the class of an
	// error that the answer holds, or with Malformed.
	DecodeAnswer(body []byte, c *Conversion) (*llm.Answer, *fault.Error)

	// EncodeAnswer writes a whole answer for the caller. It fails where content
	// would be lost.
	EncodeAnswer(a *llm.Answer, c *Conversion) ([]byte, *fault.Error)

	// NewEventDecoder returns a reader of an upstream's stream.
	NewEventDecoder(c *Conversion) EventDecoder

	// NewEventEncoder returns a writer of a stream for the caller.
	NewEventEncoder(c *Conversion) EventEncoder

	// Fields lists every field of the protocol's requests with what it means: the
	// rows of the survival table.
	Fields() []Field

	// Support says how the protocol expresses a feature of a request or an answer
	// that comes from another protocol: the cells of the survival table.
	Support(f llm.Feature) Support
}

// EventDecoder turns an upstream's stream into events. What it emits is in the
// order that llm.EventKind demands, whatever the upstream sent. Not safe for
// concurrent use.
type EventDecoder interface {
	// Decode takes the next frame. It fails with the class of an error event, or
	// with Malformed. Keep-alives and empty events emit nothing.
	Decode(f sse.Frame, emit func(llm.Event)) *fault.Error

	// End is called once when the body ended after the proper end was seen, for
	// protocols whose end is the end of the body; EventEnd is emitted here, or by
	// Decode before, exactly once.
	End(emit func(llm.Event)) *fault.Error
}

// EventEncoder writes an answer's events as a stream of its protocol. Not safe for
// concurrent use.
type EventEncoder interface {
	// Encode appends what tells e to dst. It fails where content would be lost.
	Encode(dst []byte, e llm.Event) ([]byte, *fault.Error)

	// Fail appends the protocol's error event, which ends the stream.
	Fail(dst []byte, f *fault.Error, requestID string) []byte
}

// Action is what to do with a feature that the target cannot express.
type Action uint8

// The actions.
const (
	Reject     Action = iota + 1 // refuse the request
	Drop                         // leave it out, and say so
	Substitute                   // take the nearest equal, and say so
)

var actionNames = [...]string{"", "reject", "drop", "substitute"}

// String is the word that callers use.
func (a Action) String() string {
	if int(a) < len(actionNames) {
		return actionNames[a]
	}
	return ""
}

// ParseAction reads a caller's word for an action.
func ParseAction(s string) (Action, bool) {
	i := slices.Index(actionNames[1:], s)
	return Action(i + 1), i >= 0
}

// Fate is how a feature fares in a protocol.
type Fate uint8

// The fates.
const (
	Inexpressible Fate = iota // the protocol has no place for it
	Carried                   // it has the same thing
	Mapped                    // it has the same meaning in another form
)

// Support is how a protocol expresses a feature.
type Support struct {
	Fate       Fate
	Default    Action // for Inexpressible: what happens unless declared otherwise
	Substitute string // what stands in for it; empty if nothing can
	Note       string // for the table: where it is found, or a condition
}

// Carry, Map, Lack and Swap make the cells of a codec's table.
func Carry() Support { return Support{Fate: Carried} }

// Map says that the feature is expressed in another form.
func Map(note string) Support { return Support{Fate: Mapped, Note: note} }

// Lack says that nothing expresses the feature; by is Reject or Drop.
func Lack(by Action) Support { return Support{Fate: Inexpressible, Default: by} }

// Swap says that something else can stand in; by is what happens by default.
func Swap(by Action, what string) Support {
	return Support{Fate: Inexpressible, Default: by, Substitute: what}
}

// Field is a row of the survival table.
type Field struct {
	// Path is where the field stands: members joined by dots, [] for the elements
	// of a list, and type=word for an element of that type.
	Path    string
	Feature llm.Feature
	// Example is a request body, without model and stream, that uses the field and
	// is valid otherwise. Empty for a field of llm.Core.
	Example string
	Note    string
}

// Options are what a caller or a route declared for features that cannot be carried.
// Names are "<protocol>.<feature>", of the caller's protocol, or "*" for the
// features that nothing else names.
type Options map[string]Action

// Action is what was declared for a feature; 0 if nothing was.
func (o Options) Action(from Name, f llm.Feature) Action {
	if o == nil {
		return 0
	}
	for _, name := range [...]string{string(from) + "." + string(f), string(from) + ".*", "*"} {
		if a := o[name]; a != 0 {
			return a
		}
	}
	return 0
}

// Loss is something that was not carried.
type Loss struct {
	Feature llm.Feature
	Field   string // where the caller put it; empty for losses of answers
	Action  Action
}

// String is the entry of x-gateway-lossy: "feature=drop".
func (l Loss) String() string { return string(l.Feature) + "=" + l.Action.String() }

// Conversion is the conversion of one call to one candidate: what the codecs on
// both sides need to know beside the request, and what they could not carry.
type Conversion struct {
	From, To  Name
	Public    string           // model name that the caller gets to see
	Model     string           // the upstream's model name
	MaxOutput int64            // most output tokens of the model; 0 if not known
	Compat    *configv1.Compat // deviations of the upstream; may be nil
	// NoBreakpoints: the model does not state that it takes prompt-cache breakpoints.
	NoBreakpoints bool
	Stream        bool    // the upstream is asked for a stream
	Framing       Framing // of the caller's answer
	RequestID     string
	Started       time.Time
	Body          []byte // the caller's request, for answers that repeat members of it; may be nil
	Version       string // the caller's anthropic-version, or the version segment of its path
	WantsUsage    bool   // a Chat caller asked for the usage chunk
	// LegacyCalls says that a Chat caller offered functions and not tools, which
	// llm.FeatureLegacyFunctions among the request's extras tells: calls reach it as
	// function_call.
	LegacyCalls bool
	Options     Options
	Losses      []Loss

	// Support is the target's table: that of the upstream's codec for a request, and
	// of the caller's for an answer.
	RequestSupport, AnswerSupport func(llm.Feature) Support

	renamed []renamed // tools that the upstream knows by other names
}

// Lose says that the upstream cannot express a feature of the request, which the
// caller put at field. It returns what to do instead: Drop, or Substitute where
// the table has a substitute; or a fault if the request is to be refused.
func (c *Conversion) Lose(f llm.Feature, field string) (Action, *fault.Error) {
	s := c.RequestSupport(f)
	a := c.Options.Action(c.From, f)
	switch {
	case a == 0:
		a = s.Default
	case a == Substitute && s.Substitute == "":
		if c.Options[string(c.From)+"."+string(f)] == Substitute {
			return 0, c.refuse(f, field, "nothing can stand in for it there")
		}
		a = s.Default // the wish was for whatever can be substituted
	}
	if a != Drop && a != Substitute {
		return 0, c.refuse(f, field, "")
	}
	c.note(Loss{Feature: f, Field: field, Action: a})
	return a, nil
}

// Dropped is Lose for a feature that has no substitute.
func (c *Conversion) Dropped(f llm.Feature, field string) *fault.Error {
	_, err := c.Lose(f, field)
	return err
}

// LoseAnswer notes that a feature of the answer was dropped, or substituted where the
// caller's table says so.
func (c *Conversion) LoseAnswer(f llm.Feature) {
	a := Drop
	if c.AnswerSupport != nil && c.AnswerSupport(f).Substitute != "" {
		a = Substitute
	}
	c.note(Loss{Feature: f, Action: a})
}

func (c *Conversion) note(l Loss) {
	for _, old := range c.Losses {
		if old.Feature == l.Feature && old.Action == l.Action {
			return // one entry a feature; the first field is told
		}
	}
	c.Losses = append(c.Losses, l)
}

func (c *Conversion) refuse(f llm.Feature, field, why string) *fault.Error {
	if why == "" {
		why = "to leave it out, declare it"
	} else {
		why += "; to leave it out, declare it"
	}
	if f == llm.FeatureStoredState {
		// What clients with this fault can do better than to leave it out.
		why = "send the whole conversation with every request instead, with store set to false where the client has such a setting. " +
			strings.ToUpper(why[:1]) + why[1:]
	}
	return &fault.Error{
		Class: fault.RequestNotSupported,
		Param: field,
		Public: fmt.Sprintf("This model is served in the protocol %s, which cannot express %s (%s): %s with the header x-gateway-options: %s.%s=drop.",
			c.To, orBody(field), f, why, c.From, f),
	}
}

func orBody(field string) string {
	if field == "" {
		return "part of the request"
	}
	return "the field " + field
}

// Extras goes through the extras of a request: carry is asked for each whose feature
// the table carries or maps, all others are lost as the table and the options say.
func (c *Conversion) Extras(r *llm.Request, carry func(llm.Extra) *fault.Error) *fault.Error {
	for _, e := range r.Extras {
		if c.RequestSupport(e.Feature).Fate != Inexpressible {
			if f := carry(e); f != nil {
				return f
			}
			continue
		}
		if f := c.Dropped(e.Feature, e.Field); f != nil {
			return f
		}
	}
	for _, path := range r.Unknown {
		if f := c.Dropped(llm.FeatureUnknown, path); f != nil {
			return f
		}
	}
	return nil
}

// LossyHeader is the value of x-gateway-lossy; empty if nothing was lost.
func (c *Conversion) LossyHeader() string {
	if len(c.Losses) == 0 {
		return ""
	}
	entries := make([]string, len(c.Losses))
	for i, l := range c.Losses {
		entries[i] = l.String()
	}
	slices.Sort(entries)
	return strings.Join(entries, ", ")
}

// PairFault tells the caller that tool calls and results do not pair.
func PairFault(err error) *fault.Error {
	text := err.Error()
	return &fault.Error{Class: fault.InvalidRequest, Public: strings.ToUpper(text[:1]) + text[1:] + ".", Err: err}
}
