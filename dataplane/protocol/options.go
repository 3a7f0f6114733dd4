package protocol

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
)

// Where a caller declares options.
const (
	OptionsHeader = "X-Gateway-Options"
	gatewayMember = "gateway"
)

// maxOptions bounds how many options a request may declare.
const maxOptions = 64

// ReadOptions returns what a request declares for features that an upstream's protocol
// cannot express, over what its route says. In the header it is a list,
//
//	x-gateway-options: openai_chat.seed=drop, *=substitute
//
// and in the body {"gateway": {"options": {"openai_chat.seed": "drop"}}}, which comes
// before the header. It fails with InvalidRequest for anything else.
func ReadOptions(route []*configv1.ConversionOption, header []string, body []byte, s *Shape) (Options, *fault.Error) {
	if len(route) == 0 && len(header) == 0 {
		if _, ok := s.Member(gatewayMember); !ok {
			return nil, nil
		}
	}
	o := make(Options, len(route)+4)
	for _, r := range route {
		if a, ok := ParseAction(r.GetAction()); ok { // validated on write
			o[r.GetFeature()] = a
		}
	}
	for _, line := range header {
		for entry := range strings.SplitSeq(line, ",") {
			entry = strings.TrimSpace(entry)
			if entry == "" {
				continue
			}
			name, word, _ := strings.Cut(entry, "=")
			if f := o.declare(strings.TrimSpace(name), strings.TrimSpace(word), "the header x-gateway-options"); f != nil {
				return nil, f
			}
		}
	}
	return o, o.readMember(body, s)
}

func (o Options) declare(name, word, where string) *fault.Error {
	a, ok := ParseAction(word)
	switch {
	case len(o) >= maxOptions:
		return fault.Newf(fault.InvalidRequest, "More than %d options are declared.", maxOptions)
	case !ok:
		return fault.Newf(fault.InvalidRequest, "The option %q in %s is %q. An option is \"<protocol>.<feature>=<action>\", where the action is reject, drop or substitute.",
			clip(name, 100), where, clip(word, 40))
	case !optionName(name):
		return fault.Newf(fault.InvalidRequest, "The option %q in %s has no known name. Names are \"*\", \"<protocol>.*\" and \"<protocol>.<feature>\", where the protocol is %s.",
			clip(name, 100), where, strings.Join(protocolNames(), ", "))
	}
	o[name] = a
	return nil
}

func optionName(name string) bool {
	if name == "*" {
		return true
	}
	p, feature, ok := strings.Cut(name, ".")
	return ok && feature != "" && slices.Contains(protocolNames(), p)
}

func protocolNames() []string {
	return []string{string(OpenAIChat), string(OpenAIResponses), string(Anthropic), string(Gemini)}
}

func (o Options) readMember(body []byte, s *Shape) *fault.Error {
	at, ok := s.Member(gatewayMember)
	if !ok {
		return nil
	}
	bad := func(text string) *fault.Error {
		return &fault.Error{Class: fault.InvalidRequest, Param: gatewayMember, Public: text}
	}
	r := new(wirejson.Reader)
	r.ResetStrict(at.Of(body))
	if !r.Enter('{') {
		return bad(`The member gateway must be an object, such as {"options": {"openai_chat.seed": "drop"}}.`)
	}
	var f *fault.Error
	for r.Next() {
		name := string(r.Name())
		if name != "options" || r.Kind() != '{' {
			f = bad(fmt.Sprintf("The member gateway takes the object options and nothing else; it has %q.", clip(name, 100)))
			continue
		}
		r.Enter('{')
		for r.Next() {
			name := string(r.Name())
			word, _ := r.String(64)
			if bad := o.declare(name, word, "the member gateway.options"); bad != nil {
				bad.Param = "gateway.options"
				f = bad
			}
		}
	}
	return f
}

// CutGateway returns the edit that takes the member meant for the gateway out of a
// body; none if there is no such member.
func CutGateway(body []byte, s *Shape) []Edit {
	i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Name == gatewayMember })
	if i < 0 {
		return nil
	}
	cut := Span{From: s.Open, To: s.Members[i].Value.To}
	switch {
	case i > 0:
		cut.From = s.Members[i-1].Value.To // with the comma before it
	case len(s.Members) > 1:
		cut.To += bytes.IndexByte(body[cut.To:], ',') + 1 // or the one behind it
	}
	return []Edit{{At: cut}}
}
