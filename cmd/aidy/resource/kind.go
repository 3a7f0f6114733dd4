// Package resource knows the kinds of configuration that the admin API keeps, what
// people call them, and how to read and write any of them through the API.
package resource

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/aidy-gateway/aidy-gateway/cmd/internal/nearest"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

// Kind is one kind of resource. What the contract says of it is read from the
// contract: a Kind adds what people call it and what they want to see in a list.
type Kind struct {
	Name    string // upstream-credential
	Plural  string // upstream-credentials
	Aliases []string
	Columns []Column

	// ParentField is the field that names the parent of a kind whose names are
	// unique in something smaller than a tenant. Empty for others.
	ParentField string

	prefix  ident.Prefix
	message protoreflect.MessageDescriptor
	field   protoreflect.FieldDescriptor // of BundleResource

	create, get, list, remove protoreflect.MethodDescriptor
}

// Column is a column of a table. Path is a field, or fields of nested messages with
// dots between; "state" is computed.
type Column struct {
	Header string
	Path   string
}

// words are what people call the kinds beside their names, and their columns. The
// key is the field of BundleResource.
var words = map[protoreflect.Name]struct {
	prefix  ident.Prefix
	parent  string
	aliases []string
	columns string
}{
	"tenant":                 {ident.Tenant, "", []string{"ten"}, "NAME:name STATE:state POLICY:policy_id STALE:on_stale ID:id"},
	"project":                {ident.Project, "", []string{"prj"}, "NAME:name TENANT:tenant_id STATE:state POLICY:policy_id ID:id"},
	"provider":               {ident.Provider, "", []string{"prv"}, "NAME:name TENANT:tenant_id STATE:state PROTOCOLS:capabilities.protocol URL:capabilities.base_url ID:id"},
	"provider_pricing":       {ident.ProviderPricing, "provider_id", []string{"pricing", "pricings", "cost", "costs"}, "PROVIDER:provider_id MODEL:model FROM:effective_from CURRENCY:currency PUBLISHED:published ITEMS:items.component ID:id"},
	"provider_plugin_config": {ident.ProviderPluginConfig, "provider_id", []string{"provider-plugin", "provider-plugins"}, "PLUGIN:plugin_key SUB:plugin_sub_key TENANT:tenant_id PROVIDER:provider_id UPSTREAM:upstream_id STATE:state ID:id"},
	"upstream":               {ident.Upstream, "", []string{"ups"}, "NAME:name TENANT:tenant_id PROVIDER:provider_id GROUP:group_id PRIORITY:priority WEIGHT:weight REGION:region STATE:state ID:id"},
	"upstream_credential":    {ident.UpstreamCredential, "upstream_id", []string{"credential", "credentials", "cred", "creds"}, "NAME:name TENANT:tenant_id UPSTREAM:upstream_id KIND:kind PRIORITY:priority WEIGHT:weight SECRET:secret_fingerprint REF:secret_ref STATE:state ID:id"},
	"upstream_model":         {ident.UpstreamModel, "upstream_id", []string{"model", "models"}, "MODEL:model TENANT:tenant_id UPSTREAM:upstream_id SENT-AS:upstream_model ALIAS-OF:alias_of FEATURES:features STATE:state ID:id"},
	"group":                  {ident.Group, "", []string{"grp"}, "NAME:name TENANT:tenant_id FALLBACK:fallback_groups STATE:state ID:id"},
	"route":                  {ident.Route, "", []string{"rte"}, "NAME:name TENANT:tenant_id HOST:host PATH:path_prefix GROUPS:group_ids AUTH:auth STATE:state ID:id"},
	"route_plugin_config":    {ident.RoutePluginConfig, "route_id", []string{"route-plugin", "route-plugins"}, "PLUGIN:plugin_key SUB:plugin_sub_key TENANT:tenant_id ROUTE:route_id STATE:state ID:id"},
	"logical_route":          {ident.LogicalRoute, "", []string{"lrt", "logical"}, "ORDER:order NAME:name TENANT:tenant_id MODEL:match.model TARGETS:targets.model STATE:state ID:id"},
	"policy":                 {ident.Policy, "", []string{"pol"}, "NAME:name TENANT:tenant_id MODE:mode LIMITS:limits.name MODELS:allowed_models.names STATE:state ID:id"},
	"consumer":               {ident.Consumer, "", []string{"con"}, "NAME:name TENANT:tenant_id PROJECT:project_id GROUPS:group_ids POLICY:policy_id STATE:state ID:id"},
	"consumer_api_key":       {ident.ConsumerAPIKey, "consumer_id", []string{"key", "keys", "api-key", "api-keys"}, "NAME:name TENANT:tenant_id CONSUMER:consumer_id HINT:hint SCOPES:scopes EXPIRES:expire_time STATE:state ID:id"},
	"jwt_issuer":             {ident.JWTIssuer, "", []string{"issuer", "issuers"}, "NAME:name TENANT:tenant_id ISSUER:issuer AUDIENCES:audiences STATE:state ID:id"},
	"budget":                 {ident.Budget, "", []string{"bud"}, "NAME:name TENANT:tenant_id CURRENCY:currency AMOUNT:amount_nanos WINDOW:window ENFORCEMENT:enforcement STATE:state ID:id"},
	"credit_account":         {ident.CreditAccount, "", []string{"credit", "credits"}, "NAME:name TENANT:tenant_id CONSUMER:consumer_id KEY:api_key_id CURRENCY:currency FLOOR:floor_nanos STATE:state ID:id"},
	"price_book_entry":       {ident.PriceBookEntry, "", []string{"price", "prices"}, "BOOK:book MODEL:model TENANT:tenant_id PROVIDER:provider_id FROM:effective_from CURRENCY:currency PUBLISHED:published ITEMS:items.component ID:id"},
}

// Kinds returns every kind, what is named before what names it. It fails if the
// contract and this package do not fit, which is a defect of this program.
func Kinds() ([]*Kind, error) {
	fields := (*adminv1.BundleResource)(nil).ProtoReflect().Descriptor().Fields()
	kinds := make([]*Kind, 0, fields.Len())
	for i := range fields.Len() {
		k, err := kindOf(fields.Get(i))
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func kindOf(fd protoreflect.FieldDescriptor) (*Kind, error) {
	w, ok := words[fd.Name()]
	if !ok {
		return nil, fmt.Errorf("the kind %s of the contract is not known to this program", fd.Name())
	}
	k := &Kind{
		Name: strings.ReplaceAll(string(fd.Name()), "_", "-"), Aliases: w.aliases, ParentField: w.parent,
		prefix: w.prefix, message: fd.Message(), field: fd,
	}
	for column := range strings.FieldsSeq(w.columns) {
		header, path, _ := strings.Cut(column, ":")
		k.Columns = append(k.Columns, Column{header, path})
	}
	name := string(fd.Message().Name())
	k.create, k.get, k.remove = method("Create"+name), method("Get"+name), method("Delete"+name)
	for m := range methods() {
		if strings.HasPrefix(string(m.Name()), "List") && m.Output().Fields().Len() > 0 && m.Output().Fields().Get(0).Message() == fd.Message() {
			k.list = m
			k.Plural = strings.ReplaceAll(string(m.Output().Fields().Get(0).Name()), "_", "-")
		}
	}
	if k.create == nil || k.get == nil || k.list == nil || k.remove == nil {
		return nil, fmt.Errorf("the contract has not all methods of the kind %s", k.Name)
	}
	return k, nil
}

// methods yields the methods of the admin API.
func methods() func(yield func(protoreflect.MethodDescriptor) bool) {
	return func(yield func(protoreflect.MethodDescriptor) bool) {
		stop := false
		protoregistry.GlobalFiles.RangeFilesByPackage("aidy.admin.v1", func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				ms := f.Services().Get(i).Methods()
				for j := range ms.Len() {
					if stop = !yield(ms.Get(j)); stop {
						return false
					}
				}
			}
			return true
		})
	}
}

func method(name string) protoreflect.MethodDescriptor {
	for m := range methods() {
		if string(m.Name()) == name {
			return m
		}
	}
	return nil
}

// Find returns the kind that a word means: its name, its plural or an alias, in any
// case, with - or _. The error names the nearest word that is known.
func Find(kinds []*Kind, word string) (*Kind, error) {
	w := strings.ReplaceAll(strings.ToLower(word), "_", "-")
	for _, k := range kinds {
		if w == k.Name || w == k.Plural || slices.Contains(k.Aliases, w) ||
			strings.EqualFold(strings.ReplaceAll(w, "-", ""), string(k.message.Name())) {
			return k, nil
		}
	}
	all := Words(kinds)
	hint := nearest.Hint(w, all)
	if hint == "" {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.Name
		}
		hint = "; expected one of " + strings.Join(names, ", ")
	}
	return nil, fmt.Errorf("there is no kind %q%s", word, hint)
}

// Words are all words that Find knows.
func Words(kinds []*Kind) []string {
	var out []string
	for _, k := range kinds {
		out = append(out, k.Name, k.Plural)
		out = append(out, k.Aliases...)
	}
	return out
}

// New returns an empty resource of the kind.
func (k *Kind) New() proto.Message { return newMessage(k.message) }

// IsID reports whether text is an id of this kind, and not a name.
func (k *Kind) IsID(text string) bool { return ident.Valid(k.prefix, text) }

// Named reports whether resources of the kind have a name.
func (k *Kind) Named() bool { return k.message.Fields().ByName("name") != nil }

// InTenant reports whether resources of the kind name a tenant.
func (k *Kind) InTenant() bool { return k.message.Fields().ByName("tenant_id") != nil }

// Label is how a person recognises a resource: its name, else its model or plugin.
func (k *Kind) Label(m proto.Message) string {
	for _, field := range []protoreflect.Name{"name", "model", "plugin_key"} {
		if fd := k.message.Fields().ByName(field); fd != nil {
			return m.ProtoReflect().Get(fd).String()
		}
	}
	return ""
}

// ID returns the id of a resource of any kind.
func ID(m proto.Message) string { return text(m, "id") }

// Name returns the name of a resource.
func Name(m proto.Message) string { return text(m, "name") }

// TenantID returns the tenant of a resource of any kind, empty if it has none.
func TenantID(m proto.Message) string { return text(m, "tenant_id") }

func text(m proto.Message, field protoreflect.Name) string {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(field); fd != nil {
		return m.ProtoReflect().Get(fd).String()
	}
	return ""
}

// Wrap puts a resource into the form in which a bundle holds it.
func (k *Kind) Wrap(m proto.Message) *adminv1.BundleResource {
	r := new(adminv1.BundleResource)
	r.ProtoReflect().Set(k.field, protoreflect.ValueOfMessage(m.ProtoReflect()))
	return r
}

func newMessage(d protoreflect.MessageDescriptor) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		// Every message of the contract is linked, or its descriptor would not be.
		panic(fmt.Sprintf("message %s is not linked: %v", d.FullName(), err))
	}
	return t.New().Interface()
}

// IsNodeID reports whether text is the id of a node, and not a name.
func IsNodeID(text string) bool { return ident.Valid(ident.Node, text) }
