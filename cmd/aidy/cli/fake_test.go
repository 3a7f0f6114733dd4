package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// fakeAdmin answers the generic methods of every kind from memory, and the others as
// far as tests need them. It knows nothing of rules: those are the control plane's.
type fakeAdmin struct {
	mu       sync.Mutex
	rows     map[string][]proto.Message // by the name of the message
	nodes    []*adminv1.Node
	applied  []*adminv1.ApplyBundleRequest
	calls    []string
	requests []proto.Message
	commands []proto.Message // to the running state of nodes
	logs     []*adminv1.RequestLog
	auth     []string
	pageSize int
	fail     *connect.Error
}

const ownerToken = "aidy_adm_test"

func (f *fakeAdmin) transport() connect.Transport {
	s := connect.NewServer()
	s.SetUnknownHandler(f.serve)
	return connectinprocess.New(s)
}

func (f *fakeAdmin) serve(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(spec.Procedure, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return connect.NewError(connect.CodeUnimplemented, spec.Procedure)
	}
	m := d.(protoreflect.MethodDescriptor)
	req, res := make1(m.Input()), make1(m.Output())
	if err := stream.Receive(req); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, _ := connect.CallInfoForServerContext(ctx)
	f.auth = append(f.auth, info.RequestHeader().Get("Authorization"))
	f.calls = append(f.calls, string(m.Name()))
	f.requests = append(f.requests, req)
	if f.fail != nil {
		return f.fail
	}
	if err := f.answer(m, req, res); err != nil {
		return err
	}
	return stream.Send(res)
}

func make1(d protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(err)
	}
	return t.New().Interface()
}

func (f *fakeAdmin) answer(m protoreflect.MethodDescriptor, req, res proto.Message) error {
	name := string(m.Name())
	switch req := req.(type) {
	case *adminv1.ApplyBundleRequest:
		f.applied = append(f.applied, req)
		proto.Merge(res, &adminv1.ApplyBundleResponse{
			Created: int32(len(req.GetBundle().GetResources())),
			Result: &adminv1.ChangeResult{
				Generation: 7, ValidatedOnly: req.GetChange().GetValidateOnly(), AckedNodes: []string{"nod_a"},
				Diff: []*adminv1.FieldChange{
					{Kind: "Tenant", Name: "dev", Action: "create"},
					{Kind: "Upstream", Name: "local", Action: "update", FieldPath: "weight", Before: "1", After: "2"},
					{Kind: "Route", Name: "old", Action: "delete"},
				},
				Warnings: []*adminv1.Warning{{Code: "SINGLE_POINT", Message: "model gpt-5 has one candidate"}},
				Impact:   []*adminv1.TenantImpact{{TenantId: "ten_x", ModelsGained: []string{"gpt-5"}}},
			},
		})
		return nil
	case *adminv1.ExportRequest:
		proto.Merge(res, &adminv1.ExportResponse{Generation: 7, Bundle: &adminv1.Bundle{Resources: []*adminv1.BundleResource{
			{Resource: &adminv1.BundleResource_Tenant{Tenant: &configv1.Tenant{Name: "dev"}}},
		}}})
		return nil
	case *adminv1.RotateAPIKeyRequest:
		proto.Merge(res, &adminv1.RotateAPIKeyResponse{Secret: "sk-aidy-next", ConsumerApiKey: &configv1.ConsumerAPIKey{Id: ident.New(ident.ConsumerAPIKey), Name: "next"}, Result: &adminv1.ChangeResult{Generation: 9}})
		return nil
	case *adminv1.RevokeAPIKeyRequest, *adminv1.DisableConsumerAPIKeyRequest, *adminv1.EnableConsumerAPIKeyRequest, *adminv1.RevokeNodeRequest:
		return nil
	case *adminv1.ClearRuntimeRequest, *adminv1.FlushAffinityRequest:
		f.commands = append(f.commands, req)
		return nil
	case *adminv1.ListRequestLogsRequest:
		proto.Merge(res, &adminv1.ListRequestLogsResponse{RequestLogs: f.logs})
		return nil
	case *adminv1.GetRequestRequest:
		proto.Merge(res, &adminv1.GetRequestResponse{RequestLog: f.logs[0]})
		return nil
	case *adminv1.ListNodesRequest:
		proto.Merge(res, &adminv1.ListNodesResponse{Nodes: f.nodes})
		return nil
	case *adminv1.GetNodeRequest:
		proto.Merge(res, &adminv1.GetNodeResponse{Node: &adminv1.Node{Id: req.GetId(), Name: "edge"}})
		return nil
	case *adminv1.CreateJoinTokenRequest:
		proto.Merge(res, &adminv1.CreateJoinTokenResponse{Token: "jt_1_secret_hash", JoinToken: &adminv1.JoinToken{Name: req.GetName()}})
		return nil
	}
	switch {
	case strings.HasPrefix(name, "Create"):
		return f.create(req, res)
	case strings.HasPrefix(name, "Get"):
		return f.get(req, res)
	case strings.HasPrefix(name, "List"):
		return f.list(req, res)
	case strings.HasPrefix(name, "Delete"):
		f.delete(field(req, "id").String())
		return nil
	}
	return connect.NewError(connect.CodeUnimplemented, name)
}

func field(m proto.Message, name protoreflect.Name) protoreflect.Value {
	return m.ProtoReflect().Get(m.ProtoReflect().Descriptor().Fields().ByName(name))
}

func put(m proto.Message, name protoreflect.Name, v protoreflect.Value) {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(name); fd != nil {
		m.ProtoReflect().Set(fd, v)
	}
}

func (f *fakeAdmin) create(req, res proto.Message) error {
	resourceField := req.ProtoReflect().Descriptor().Fields().Get(0)
	m := proto.Clone(req.ProtoReflect().Get(resourceField).Message().Interface())
	f.add(m)
	put(res, resourceField.Name(), protoreflect.ValueOfMessage(m.ProtoReflect()))
	put(res, "result", protoreflect.ValueOfMessage((&adminv1.ChangeResult{Generation: 3}).ProtoReflect()))
	put(res, "secret", protoreflect.ValueOfString("sk-aidy-secret"))
	return nil
}

// prefixes of the kinds that tests make.
var prefixes = map[string]ident.Prefix{
	"Tenant": ident.Tenant, "Provider": ident.Provider, "Upstream": ident.Upstream, "UpstreamCredential": ident.UpstreamCredential,
	"UpstreamModel": ident.UpstreamModel, "Group": ident.Group, "Route": ident.Route, "Consumer": ident.Consumer, "ConsumerAPIKey": ident.ConsumerAPIKey,
}

// add stores a resource under a new id and returns the id.
func (f *fakeAdmin) add(m proto.Message) string {
	name := string(m.ProtoReflect().Descriptor().Name())
	prefix, ok := prefixes[name]
	if !ok {
		prefix = "oth"
	}
	put(m, "id", protoreflect.ValueOfString(ident.New(prefix)))
	if f.rows == nil {
		f.rows = map[string][]proto.Message{}
	}
	f.rows[name] = append(f.rows[name], m)
	return resource.ID(m)
}

func (f *fakeAdmin) get(req, res proto.Message) error {
	out := res.ProtoReflect().Descriptor().Fields().Get(0)
	for _, m := range f.rows[string(out.Message().Name())] {
		if resource.ID(m) == field(req, "id").String() {
			put(res, out.Name(), protoreflect.ValueOfMessage(m.ProtoReflect()))
			return nil
		}
	}
	return failure(connect.CodeNotFound, "no such resource", &adminv1.ErrorInfo{Reason: "NOT_FOUND"})
}

func (f *fakeAdmin) list(req, res proto.Message) error {
	out := res.ProtoReflect().Descriptor().Fields().Get(0)
	filter, _ := field(req, "filter").Message().Interface().(*adminv1.ListFilter)
	var hits []proto.Message
	for _, m := range f.rows[string(out.Message().Name())] {
		get := func(n protoreflect.Name) string {
			if fd := m.ProtoReflect().Descriptor().Fields().ByName(n); fd != nil {
				return m.ProtoReflect().Get(fd).String()
			}
			return ""
		}
		parents := []string{get("upstream_id"), get("consumer_id"), get("provider_id"), get("route_id")}
		if filter.GetTenantId() != "" && get("tenant_id") != filter.GetTenantId() ||
			filter.GetName() != "" && get("name") != filter.GetName() ||
			filter.GetParentId() != "" && !slices.Contains(parents, filter.GetParentId()) {
			continue
		}
		hits = append(hits, m)
	}
	from := 0
	fmt.Sscan(field(req, "page_token").String(), &from)
	size := int(field(req, "page_size").Int())
	if f.pageSize > 0 {
		size = min(size, f.pageSize)
	}
	to := min(from+size, len(hits))
	list := res.ProtoReflect().Mutable(out).List()
	for _, m := range hits[from:to] {
		list.Append(protoreflect.ValueOfMessage(m.ProtoReflect()))
	}
	if to < len(hits) {
		put(res, "next_page_token", protoreflect.ValueOfString(fmt.Sprint(to)))
	}
	return nil
}

func (f *fakeAdmin) delete(id string) {
	for name := range f.rows {
		f.rows[name] = slices.DeleteFunc(f.rows[name], func(m proto.Message) bool { return resource.ID(m) == id })
	}
}

func failure(code connect.Code, message string, info *adminv1.ErrorInfo) *connect.Error {
	d, err := connectproto.NewErrorDetail(info)
	if err != nil {
		panic(err)
	}
	return connect.NewError(code, message).WithDetail(d)
}

func refusedFields() *connect.Error {
	return failure(connect.CodeInvalidArgument, "2 fields are not valid", &adminv1.ErrorInfo{
		Reason: "VALIDATION_FAILED",
		Violations: []*syncv1.Violation{
			{Kind: "Upstream", Name: "local", FieldPath: "weight", Rule: "int32.lte", Hint: "at most 10000"},
			{Kind: "Route", Name: "main", FieldPath: "path_prefix", Hint: "begin it with /"},
		},
	})
}

// outcome is what a command line did.
type outcome struct {
	code        int
	out, errout string
}

// aidy runs a command line against the fake.
func (f *fakeAdmin) aidy(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return run(t, f.transport(), stdin, append([]string{"--admin-url", "http://127.0.0.1:1", "--token", ownerToken}, args...)...)
}

func run(t *testing.T, transport connect.Transport, stdin string, args ...string) outcome {
	t.Helper()
	var out, errout bytes.Buffer
	code := Main(t.Context(), Env{
		Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errout,
		Dial: func(string) (connect.Transport, error) { return transport, nil },
		Now:  func() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) },
	}, args)
	return outcome{code, out.String(), errout.String()}
}

func (o outcome) want(t *testing.T, code int, out, errout []string) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
	for _, s := range out {
		if !strings.Contains(o.out, s) {
			t.Errorf("output lacks %q", s)
		}
	}
	for _, s := range errout {
		if !strings.Contains(o.errout, s) {
			t.Errorf("standard error lacks %q", s)
		}
	}
	if t.Failed() {
		t.Logf("output:\n%s\nstandard error:\n%s", o.out, o.errout)
	}
}

func protoName(s string) protoreflect.Name { return protoreflect.Name(s) }
