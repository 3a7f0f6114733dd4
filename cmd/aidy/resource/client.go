package resource

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// PageSize is how many resources are asked for at once: what one page may hold.
const PageSize = 1000

// Client reads and writes resources of any kind. It is safe for concurrent use.
type Client struct {
	rpc *connect.Client
}

// NewClient returns a Client that calls through rpc.
func NewClient(rpc *connect.Client) *Client { return &Client{rpc} }

// call makes a unary call of a method of the contract. Errors are those of the API.
func (c *Client) call(ctx context.Context, m protoreflect.MethodDescriptor, req proto.Message) (proto.Message, error) {
	spec := connect.Spec{
		StreamType: connect.StreamTypeUnary,
		Schema:     m,
		Procedure:  fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()),
	}
	if o, ok := m.Options().(*descriptorpb.MethodOptions); ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		spec.IdempotencyLevel = connect.IdempotencyNoSideEffects
	}
	res := newMessage(m.Output())
	if err := c.rpc.CallUnary(ctx, spec, req, res); err != nil {
		return nil, err
	}
	return res, nil
}

func set(m proto.Message, field protoreflect.Name, v protoreflect.Value) {
	m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(field), v)
}

// setMessage sets a field to a message, unless that is nil.
func setMessage[M proto.Message](m proto.Message, field protoreflect.Name, v M) {
	if v.ProtoReflect().IsValid() {
		set(m, field, protoreflect.ValueOfMessage(v.ProtoReflect()))
	}
}

// part returns the message in a field of an answer, nil if it is unset.
func part(m proto.Message, field protoreflect.Name) proto.Message {
	fd := m.ProtoReflect().Descriptor().Fields().ByName(field)
	if fd == nil || !m.ProtoReflect().Has(fd) {
		return nil
	}
	return m.ProtoReflect().Get(fd).Message().Interface()
}

func result(m proto.Message) *adminv1.ChangeResult {
	r, _ := part(m, "result").(*adminv1.ChangeResult)
	return r
}

// Created is what making a resource gives.
type Created struct {
	Resource proto.Message
	Result   *adminv1.ChangeResult
	Secret   string // of a key: shown this once
	Answer   proto.Message
}

// Create makes a resource.
func (c *Client) Create(ctx context.Context, k *Kind, m proto.Message, change *adminv1.ChangeContext) (*Created, error) {
	req := newMessage(k.create.Input())
	setMessage(req, k.field.Name(), m)
	setMessage(req, "change", change)
	res, err := c.call(ctx, k.create, req)
	if err != nil {
		return nil, err
	}
	return &Created{part(res, k.field.Name()), result(res), text(res, "secret"), res}, nil
}

// Get reads a resource by its id.
func (c *Client) Get(ctx context.Context, k *Kind, id string) (proto.Message, error) {
	req := newMessage(k.get.Input())
	set(req, "id", protoreflect.ValueOfString(id))
	res, err := c.call(ctx, k.get, req)
	if err != nil {
		return nil, err
	}
	return part(res, k.field.Name()), nil
}

// Delete removes a resource. An empty etag removes it in whatever version it is.
func (c *Client) Delete(ctx context.Context, k *Kind, id, etag string, change *adminv1.ChangeContext) (*adminv1.ChangeResult, error) {
	req := newMessage(k.remove.Input())
	set(req, "id", protoreflect.ValueOfString(id))
	set(req, "etag", protoreflect.ValueOfString(etag))
	setMessage(req, "change", change)
	res, err := c.call(ctx, k.remove, req)
	if err != nil {
		return nil, err
	}
	return result(res), nil
}

// All yields every resource that passes the filter, page by page, in the order of
// their ids. It ends after the first error.
func (c *Client) All(ctx context.Context, k *Kind, filter *adminv1.ListFilter) iter.Seq2[proto.Message, error] {
	return func(yield func(proto.Message, error) bool) {
		token := ""
		for {
			req := newMessage(k.list.Input())
			set(req, "page_size", protoreflect.ValueOfInt32(PageSize))
			set(req, "page_token", protoreflect.ValueOfString(token))
			setMessage(req, "filter", filter)
			res, err := c.call(ctx, k.list, req)
			if err != nil {
				yield(nil, err)
				return
			}
			items := res.ProtoReflect().Get(k.list.Output().Fields().Get(0)).List()
			for i := range items.Len() {
				if !yield(items.Get(i).Message().Interface(), nil) {
					return
				}
			}
			if token = text(res, "next_page_token"); token == "" {
				return
			}
		}
	}
}

// Scope narrows where a name is looked for. Its members are ids; empty ones do not
// narrow.
type Scope struct {
	TenantID string
	ParentID string
}

// Find returns the resource that a word names: an id, or a name within scope. Where
// no name is known, the model does. The error says if there is none, or if there are
// several, which.
func (c *Client) Find(ctx context.Context, k *Kind, scope Scope, word string) (proto.Message, error) {
	if k.IsID(word) {
		return c.Get(ctx, k, word)
	}
	filter := &adminv1.ListFilter{TenantId: scope.TenantID, ParentId: scope.ParentID}
	if k.Named() {
		filter.Name = word
	}
	if !k.InTenant() {
		filter.TenantId = ""
	}
	var found []proto.Message
	for m, err := range c.All(ctx, k, filter) {
		if err != nil {
			return nil, err
		}
		if k.Label(m) == word {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &NotFoundError{k, word}
	}
	return nil, &AmbiguousError{k, word, found}
}

// NotFoundError says that nothing has a name.
type NotFoundError struct {
	Kind *Kind
	Word string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no %s %q; `aidy get %s` lists what there is", e.Kind.Name, e.Word, e.Kind.Plural)
}

// AmbiguousError says that several resources have a name.
type AmbiguousError struct {
	Kind  *Kind
	Word  string
	Found []proto.Message
}

func (e *AmbiguousError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s are named %q; narrow it with --tenant or --parent, or give one of these ids:", len(e.Found), e.Kind.Plural, e.Word)
	for i, m := range e.Found {
		if i == 10 {
			b.WriteString(" …")
			break
		}
		b.WriteString(" " + ID(m))
	}
	return b.String()
}
