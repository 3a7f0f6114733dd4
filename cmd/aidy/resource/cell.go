package resource

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
)

// Cell is what a column shows of a resource. now tells what has expired.
func (n *Names) Cell(ctx context.Context, m proto.Message, c Column, now time.Time) string {
	switch c.Path {
	case "state":
		return State(m, now)
	case "auth":
		return auth(m)
	}
	var out []string
	n.collect(ctx, m.ProtoReflect(), strings.Split(c.Path, "."), &out)
	if len(out) > 4 {
		return strings.Join(out[:4], ",") + ",+" + strconv.Itoa(len(out)-4)
	}
	return strings.Join(out, ",")
}

// collect gathers the values at a path, all entries of lists included, each once.
func (n *Names) collect(ctx context.Context, m protoreflect.Message, path []string, out *[]string) {
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	if fd == nil || fd.HasPresence() && !m.Has(fd) {
		return
	}
	add := func(v protoreflect.Value) {
		if len(path) > 1 && fd.Message() != nil {
			n.collect(ctx, v.Message(), path[1:], out)
			return
		}
		if s := n.show(ctx, v, fd); s != "" && !slices.Contains(*out, s) {
			*out = append(*out, s)
		}
	}
	if fd.IsList() {
		for i := range m.Get(fd).List().Len() {
			add(m.Get(fd).List().Get(i))
		}
		return
	}
	add(m.Get(fd))
}

func (n *Names) show(ctx context.Context, v protoreflect.Value, fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.EnumKind:
		if d := fd.Enum().Values().ByNumber(v.Enum()); d != nil && v.Enum() != 0 {
			return document.EnumName(d)
		}
		return ""
	case protoreflect.BoolKind:
		if v.Bool() {
			return "yes"
		}
		return "no"
	case protoreflect.MessageKind:
		if at, ok := v.Message().Interface().(*timestamppb.Timestamp); ok {
			return at.AsTime().Format(time.RFC3339)
		}
		return ""
	case protoreflect.StringKind:
		return n.Of(ctx, string(fd.Name()), v.String())
	case protoreflect.Int32Kind:
		if name := fd.Name(); v.Int() == 0 && (name == "priority" || name == "weight") {
			return "" // not set; 0 would look like the best priority
		}
	case protoreflect.Int64Kind:
		if strings.HasSuffix(string(fd.Name()), "_nanos") {
			return Decimal(v.Int())
		}
	}
	return v.String()
}

// Decimal writes nano units as people write money, with at least two places.
func Decimal(nanos int64) string {
	sign, n := "", uint64(nanos)
	if nanos < 0 {
		sign, n = "-", -n
	}
	fraction := strconv.FormatUint(n%1e9+1e9, 10)[1:]
	for len(fraction) > 2 && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1]
	}
	return sign + strconv.FormatUint(n/1e9, 10) + "." + fraction
}

// State says in a word whether a resource is in use.
func State(m proto.Message, now time.Time) string {
	at := func(field protoreflect.Name) *timestamppb.Timestamp {
		t, _ := part(m, field).(*timestamppb.Timestamp)
		return t
	}
	flag := func(field protoreflect.Name) bool {
		fd := m.ProtoReflect().Descriptor().Fields().ByName(field)
		return fd != nil && fd.Kind() == protoreflect.BoolKind && m.ProtoReflect().Get(fd).Bool()
	}
	switch {
	case at("revoke_time") != nil:
		return "revoked"
	case flag("suspended"):
		return "suspended"
	case flag("disabled"):
		return "disabled"
	case at("expire_time") != nil && !at("expire_time").AsTime().After(now):
		return "expired"
	}
	return "active"
}

// auth lists how callers of a route prove who they are, in the order of the chain.
func auth(m proto.Message) string {
	var out []string
	r := m.ProtoReflect()
	for _, link := range []struct {
		field protoreflect.Name
		word  string
	}{
		{"disable_auth", "none"},
		{"passthrough_auth_token", "passthrough"},
		{"legacy_bearer_auth_tokens", "legacy"},
		{"consumer_api_keys", "keys"},
		{"jwt_issuers", "jwt"},
	} {
		if fd := r.Descriptor().Fields().ByName(link.field); fd != nil && r.Has(fd) {
			out = append(out, link.word)
		}
	}
	return strings.Join(out, ",")
}
