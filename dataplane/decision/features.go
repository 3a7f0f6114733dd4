// Package decision is what is written down of the decisions about a request: what was
// known of it, what the scheduler said of every account, and what became of the attempts.
// A record holds names and ids of the configuration, numbers and keyed hashes. It never
// holds a text of the request, a header, a session's name or a secret.
package decision

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
)

// Features are what a decision depends on beside configuration, state and time: enough
// to make it again.
type Features struct {
	Tenant   string `json:"tenant"`
	Route    string `json:"route"`
	Project  string `json:"project,omitempty"`
	Consumer string `json:"consumer,omitempty"`
	APIKey   string `json:"api_key,omitempty"`
	Auth     string `json:"auth"`

	Protocol  string `json:"protocol"`
	Operation string `json:"operation"`
	Model     string `json:"model"` // that was asked for, cut at maxName bytes
	Class     string `json:"class,omitempty"`
	Task      string `json:"task,omitempty"`
	Stream    bool   `json:"stream,omitempty"`
	Guarded   bool   `json:"guarded,omitempty"` // a replay could repeat an effect

	// NativeOnly says that the call could not be converted to another protocol.
	NativeOnly bool `json:"native_only,omitempty"`

	PromptTokens int64 `json:"prompt_tokens"` // estimate
	OutputTokens int64 `json:"output_tokens"` // estimate
	MaxOutput    int64 `json:"max_output_tokens,omitempty"`

	Images           int      `json:"images,omitempty"`
	Audio            int      `json:"audio,omitempty"`
	Video            int      `json:"video,omitempty"`
	Documents        int      `json:"documents,omitempty"`
	FunctionTools    int      `json:"function_tools,omitempty"`
	ServerTools      []string `json:"server_tools,omitempty"`
	StructuredOutput bool     `json:"structured_output,omitempty"`
	Reasoning        bool     `json:"reasoning,omitempty"`
	AudioOutput      bool     `json:"audio_output,omitempty"`
	ImageOutput      bool     `json:"image_output,omitempty"`

	// Owner is whom the stored objects belong to that the request names.
	Owner *Owner `json:"owner,omitempty"`

	// Prefix is what the request shares with earlier ones; nil for a call that is no prompt.
	Prefix *Prefix `json:"prefix,omitempty"`

	// Routing is what the logical routes saw of the request and where they led it; nil for
	// a call without a model.
	Routing *Routing `json:"routing,omitempty"`
}

// Owner is the account that keeps stored objects.
type Owner struct {
	Scope    string `json:"scope"`
	Upstream string `json:"upstream"`
}

// Prefix is what a request shares with earlier ones.
type Prefix struct {
	Kind        string        `json:"kind"`
	Source      string        `json:"source,omitempty"` // a name of a member or header, never its value
	Fingerprint string        `json:"fingerprint,omitempty"`
	Session     affinity.Hash `json:"session,omitzero"`
	Root        affinity.Hash `json:"root,omitzero"`
	Head        affinity.Hash `json:"head,omitzero"`
	HeadTokens  int64         `json:"head_tokens,omitempty"`
	PriorTokens int64         `json:"prior_tokens,omitempty"`
	Writes      bool          `json:"writes,omitempty"`
	MinTTLMS    int64         `json:"min_ttl_ms,omitempty"`
	Chain       Chain         `json:"chain,omitempty"`
}

// Chain is the boundaries of a prompt that decide where it is found again: the first
// ones, the last ones, and of those with a cache marker the newest.
type Chain []affinity.Boundary

// Of a chain, so many boundaries are written down.
const (
	chainFirst  = 2
	chainLast   = 4
	chainMarked = 2
	maxChain    = chainFirst + chainLast + chainMarked

	boundarySize = 16 + 1 + 8
)

// maxName is how much of a name that a client chose is kept, in bytes.
const maxName = 128

// chainOf picks the boundaries of a chain that are written down, in their order.
func chainOf(all []affinity.Boundary) Chain {
	if len(all) <= chainFirst+chainLast {
		return slices.Clone(all)
	}
	out := make(Chain, 0, maxChain)
	out = append(out, all[:chainFirst]...)
	middle := all[chainFirst : len(all)-chainLast]
	marked := 0
	for i := len(middle) - 1; i >= 0 && marked < chainMarked; i-- {
		if middle[i].Marked {
			out = slices.Insert(out, chainFirst, middle[i])
			marked++
		}
	}
	return append(out, all[len(all)-chainLast:]...)
}

// MarshalText writes 25 bytes a boundary, in base64: its hash, its block with the mark
// as the highest bit, and the tokens up to it.
func (c Chain) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, len(c)*boundarySize)
	for _, b := range c {
		kind := byte(b.Block)
		if b.Marked {
			kind |= 0x80
		}
		raw = binary.BigEndian.AppendUint64(raw, b.Hash.Hi)
		raw = binary.BigEndian.AppendUint64(raw, b.Hash.Lo)
		raw = append(raw, kind)
		raw = binary.BigEndian.AppendUint64(raw, uint64(b.Tokens))
	}
	return base64.RawURLEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText reads what MarshalText wrote. It fails on anything else, and on more
// boundaries than a record has.
func (c *Chain) UnmarshalText(text []byte) error {
	raw, err := base64.RawURLEncoding.AppendDecode(nil, text[:min(len(text), 2*maxChain*boundarySize)])
	if err != nil {
		return fmt.Errorf("read a chain: %w", err)
	}
	if len(raw)%boundarySize != 0 || len(raw) > maxChain*boundarySize {
		return fmt.Errorf("a chain has %d bytes, which is not up to %d boundaries of %d", len(raw), maxChain, boundarySize)
	}
	out := make(Chain, 0, len(raw)/boundarySize)
	for ; len(raw) > 0; raw = raw[boundarySize:] {
		b := affinity.Boundary{
			Hash:   affinity.Hash{Hi: binary.BigEndian.Uint64(raw), Lo: binary.BigEndian.Uint64(raw[8:])},
			Block:  affinity.Block(raw[16] & 0x7f),
			Marked: raw[16]&0x80 != 0,
			Tokens: int64(binary.BigEndian.Uint64(raw[17:])),
		}
		if b.Block > affinity.Message || b.Tokens < 0 {
			return fmt.Errorf("a chain has a boundary of block %d with %d tokens", b.Block, b.Tokens)
		}
		out = append(out, b)
	}
	*c = out
	return nil
}

// FeaturesOf writes down what was known of a request.
func FeaturesOf(r *attempt.Request, outputTokens int64) Features {
	s := r.Shape
	f := Features{
		Tenant:           r.Principal.Tenant.ID,
		Route:            r.Route.GetId(),
		Auth:             r.Principal.Method.String(),
		Protocol:         string(r.Target.Protocol),
		Operation:        r.Target.Op.String(),
		Model:            Cut(r.Requested),
		Class:            r.Class,
		Task:             Cut(r.Scheduling.Task),
		Stream:           r.Target.Stream,
		Guarded:          r.Policy.Guarded,
		PromptTokens:     r.PromptTokens(),
		OutputTokens:     outputTokens,
		MaxOutput:        s.MaxOutputTokens,
		Images:           s.Images,
		Audio:            s.Audio,
		Video:            s.Video,
		Documents:        s.Documents,
		FunctionTools:    s.FunctionTools,
		ServerTools:      s.ServerTools.Names(),
		StructuredOutput: s.StructuredOutput,
		Reasoning:        s.Reasoning,
		AudioOutput:      s.AudioOutput,
		ImageOutput:      s.ImageOutput,
	}
	if p := r.Principal.Project; p != nil {
		f.Project = p.GetId()
	}
	if c := r.Principal.Consumer; c != nil {
		f.Consumer = c.GetId()
	}
	if k := r.Principal.Key; k != nil {
		f.APIKey = k.ID
	}
	if r.Owner != (stateid.Owner{}) {
		f.Owner = &Owner{Scope: r.Owner.Scope, Upstream: r.Owner.Upstream}
	}
	if k := r.Scheduling.Affinity; k != nil {
		f.PromptTokens = k.PromptTokens
		f.Prefix = &Prefix{
			Kind: k.Kind.String(), Source: k.Source, Fingerprint: k.Fingerprint(),
			Session: k.Session, Head: k.Head, HeadTokens: k.HeadTokens, PriorTokens: k.PriorTokens,
			Writes: k.Writes, MinTTLMS: k.MinTTL.Milliseconds(), Chain: chainOf(k.Chain),
		}
		if k.Root != "" {
			_ = f.Prefix.Root.UnmarshalText([]byte(k.Root)) // a root that is no hash is of nobody's making
		}
	}
	f.Routing = routingOf(r)
	return f
}

// Shape is the part of a request's shape that decisions depend on.
func (f *Features) Shape() *protocol.Shape {
	return &protocol.Shape{
		Model: f.Model, Stream: f.Stream, MaxOutputTokens: f.MaxOutput, Choices: 1,
		Images: f.Images, Audio: f.Audio, Video: f.Video, Documents: f.Documents,
		FunctionTools: f.FunctionTools, ServerTools: protocol.ServerToolsNamed(f.ServerTools),
		StructuredOutput: f.StructuredOutput, Reasoning: f.Reasoning, AudioOutput: f.AudioOutput, ImageOutput: f.ImageOutput,
		PromptBytes: max(0, 4*(f.PromptTokens-protocol.ImageTokens*int64(f.Images))),
	}
}

// Key is the affinity key of the request, with the boundaries that were kept; nil if it
// had none.
func (f *Features) Key() *affinity.Key {
	p := f.Prefix
	if p == nil {
		return nil
	}
	kind, _ := affinity.KindNamed(p.Kind)
	k := &affinity.Key{
		Kind: kind, Source: p.Source, Session: p.Session, Chain: p.Chain, PromptTokens: f.PromptTokens,
		PriorTokens: p.PriorTokens, Head: p.Head, HeadTokens: p.HeadTokens, Writes: p.Writes,
		MinTTL: time.Duration(p.MinTTLMS) * time.Millisecond,
	}
	if !p.Root.IsZero() {
		root, _ := p.Root.MarshalText()
		k.Root = string(root)
	}
	return k
}

// Cut bounds a name that a client or a provider chose. What it returns is UTF-8, without half a
// character at its end.
func Cut(name string) string {
	name = strings.ToValidUTF8(name, "?")
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "")
}
