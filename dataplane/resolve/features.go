package resolve

import (
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/auth"
	"github.com/aidy-gateway/aidy-gateway/dataplane/inbound"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/wirejson"
	"github.com/aidy-gateway/aidy-gateway/dataplane/route"
)

// Features are what a logical route may ask about a request. They are of the request as
// it came: the model is the one that the client asked for.
type Features struct {
	Model     string
	Protocol  string
	Operation string
	RouteID   string // of the route that was called

	Stream           bool
	PromptTokens     int64 // an estimate
	MaxOutputTokens  int64 // 0 if not stated
	Images           int64
	Audio            bool
	Documents        bool
	Tools            int64
	ToolNames        []string
	Thinking         bool
	ReasoningEffort  string // lower case; empty if not stated
	WebSearch        bool
	StructuredOutput bool

	// Each may be told by its id or by its name, so there are two of each, or none.
	Tenant   []string
	Project  []string
	Consumer []string
	Groups   []string

	Header http.Header
	Body   []Scalar // of the members that Reads lists, in that order

	Task      string
	TaskRisk  string // low, medium or high
	DataLabel string
	Class     string // of traffic

	// AskedRisk and AskedLabel are what the client itself asked for, where the
	// configuration knows it; empty otherwise.
	AskedRisk, AskedLabel string

	// Stored says that the request names an object that one upstream account stores, so
	// that only this account can serve it.
	Stored bool

	// Unknown are inputs that nobody has any more, of a request that is decided again.
	// Where they are asked for they count as absent, and Guessed says so.
	Unknown Inputs

	// Guessed are those of Unknown on which a condition or a draw of the resolution
	// turned: with other values it might have come out another way.
	Guessed Inputs

	guess guess
}

// Scalar is the value of a member of the body.
type Scalar struct {
	Kind   ScalarKind
	Text   string
	Number float64
	Bool   bool
}

// ScalarKind is what a value is.
type ScalarKind uint8

// The kinds.
const (
	Absent ScalarKind = iota // or null
	Text
	Number
	Bool
	Other // an object, an array, or a text longer than MaxFieldText
)

// MaxFieldText is the longest text of a body that a condition sees, in bytes.
const MaxFieldText = 4096

// reads is what the conditions of a tenant look at beside what a Shape holds.
type reads struct {
	tools, groups bool
	fields        []protocol.Path
}

// field returns the place of a member of the body among those that are read.
func (r *reads) field(key string) int {
	path := protocol.Path(strings.Split(key, "."))
	at := slices.IndexFunc(r.fields, func(p protocol.Path) bool { return slices.Equal(p, path) })
	if at < 0 {
		at = len(r.fields)
		r.fields = append(r.fields, path)
	}
	return at
}

// Read returns the features of a call. class is its class of traffic. What no condition
// of the tenant asks for may be left out.
func Read(call *inbound.Call, who *auth.Principal, match route.Match, class string) *Features {
	f := &Features{Model: call.Shape.Model, RouteID: match.GetId()}
	r := of(who.Tenant)
	if r == nil || len(r.rules) == 0 {
		return f
	}
	s, h := call.Shape, call.Request.Header
	f.Protocol, f.Operation = string(call.Target.Protocol), call.Target.Op.String()
	f.Stream = call.Target.Stream
	f.PromptTokens, f.MaxOutputTokens = s.PromptTokens(), s.MaxOutputTokens
	f.Images, f.Audio, f.Documents = int64(s.Images), s.Audio > 0, s.Documents > 0
	f.Tools = int64(s.FunctionTools + bits.OnesCount8(uint8(s.ServerTools)))
	f.Thinking, f.WebSearch, f.StructuredOutput = s.Reasoning, s.ServerTools&protocol.ToolWebSearch != 0, s.StructuredOutput
	f.Tenant = []string{who.Tenant.ID, who.Tenant.Message.GetTenant().GetName()}
	if who.Project != nil {
		f.Project = []string{who.Project.GetId(), who.Project.GetName()}
	}
	if who.Consumer != nil {
		f.Consumer = []string{who.Consumer.GetId(), who.Consumer.GetName()}
	}
	f.Header, f.Class, f.Task = h, class, h.Get("X-Gateway-Task")
	if asked := h.Get("X-Gateway-Task-Risk"); slices.Contains(risks[:], asked) {
		f.AskedRisk = asked
	}
	labels := labelsOf(who.Tenant.Message.GetTenant().GetDataLabels())
	if asked := h.Get("X-Gateway-Data-Label"); slices.Contains(labels, asked) {
		f.AskedLabel = asked
	}
	f.TaskRisk = riskOf(match.GetTaskRisk(), f.AskedRisk)
	f.DataLabel = labelOf(labels, match.GetDataLabel(), f.AskedLabel)
	f.Stored = s.PreviousResponse+s.Conversation+s.CachedContent != "" || slices.ContainsFunc(s.Refs, func(r protocol.Ref) bool { return r.Pins })
	r.reads.read(f, call, who, match)
	return f
}

func (r *reads) read(f *Features, call *inbound.Call, who *auth.Principal, match route.Match) {
	if r.groups {
		for _, id := range who.Groups(match.Route) {
			f.Groups = append(f.Groups, id, who.Tenant.Groups[id].GetName())
		}
	}
	body, name := call.Body.Bytes, call.Target.Protocol
	if len(body) == 0 {
		f.Body = make([]Scalar, len(r.fields))
		return
	}
	if r.tools {
		f.ToolNames = call.Shape.ToolNames(body, name)
	}
	// No condition may ask for it now. One of a draft does, when the request is replayed.
	for _, path := range protocol.ReasoningEffort.Paths(name) {
		f.ReasoningEffort = strings.ToLower(scalar(body, call.Shape, name, path).Text)
	}
	for _, path := range r.fields {
		f.Body = append(f.Body, scalar(body, call.Shape, name, path))
	}
}

// scalar reads a member of the body.
func scalar(body []byte, s *protocol.Shape, p protocol.Name, path protocol.Path) Scalar {
	at, ok := s.Find(body, p, path)
	if !ok || at.Len() == 0 || at.From < 0 || at.To > len(body) {
		return Scalar{}
	}
	raw := at.Of(body)
	switch raw[0] {
	case 'n':
		return Scalar{}
	case 't', 'f':
		return Scalar{Kind: Bool, Bool: raw[0] == 't'}
	case '"':
		r := new(wirejson.Reader)
		r.ResetLenient(raw)
		text, ok := r.String(6 * MaxFieldText)
		if !ok || len(text) > MaxFieldText {
			return Scalar{Kind: Other}
		}
		return Scalar{Kind: Text, Text: text}
	case '{', '[':
		return Scalar{Kind: Other}
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return Scalar{Kind: Other}
	}
	return Scalar{Kind: Number, Number: n}
}

var risks = [...]string{"low", "medium", "high"}

// riskOf is the risk that the route states; the client may only raise it.
func riskOf(r configv1.TaskRisk, asked string) string {
	stated := min(max(int(r)-int(configv1.TaskRisk_TASK_RISK_LOW), 0), len(risks)-1)
	return risks[max(stated, slices.Index(risks[:], asked))]
}

// usualLabels are those of a tenant that has none of its own, in rising order.
var usualLabels = []string{"public", "internal", "confidential", "restricted"}

func labelsOf(own []string) []string {
	if len(own) == 0 {
		return usualLabels
	}
	return own
}

// labelOf is the label that the route states; the client may only raise it. labels are
// in rising order.
func labelOf(labels []string, stated, asked string) string {
	if slices.Index(labels, asked) > slices.Index(labels, stated) {
		return asked
	}
	return stated
}
