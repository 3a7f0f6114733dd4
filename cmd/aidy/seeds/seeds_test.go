package seeds

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
)

// bundles are all that this package can give.
func bundles(t *testing.T) map[string]*adminv1.Bundle {
	t.Helper()
	out := map[string]*adminv1.Bundle{}
	for _, p := range Profiles() {
		s, err := Load(p, "http://127.0.0.1:7001")
		if err != nil {
			t.Fatal(err)
		}
		out[p] = s.Bundle
	}
	for _, v := range Vendors() {
		b, err := v.Real("sk-test")
		if err != nil {
			t.Fatal(err)
		}
		out[v.Name] = b
	}
	return out
}

func inner(r *adminv1.BundleResource) proto.Message {
	var m proto.Message
	r.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		m = v.Message().Interface()
		return false
	})
	return m
}

func TestEverySeedPassesTheValidator(t *testing.T) {
	t.Parallel()
	checker, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range bundles(t) {
		if b.GetOwner() == "" {
			t.Errorf("%s has no owner", name)
		}
		for i, r := range b.GetResources() {
			for _, v := range checker.CheckResource(inner(r)) {
				t.Errorf("%s: resources[%d]: %s %s: %s: %s", name, i, v.GetKind(), v.GetName(), v.GetFieldPath(), v.GetHint())
			}
		}
	}
}

// A seed must stand on an empty control plane, so every name it uses must be its own,
// a tenant's default group, or, of vendors, the tenant of the profile dev.
func TestSeedsNameOnlyWhatTheyMake(t *testing.T) {
	t.Parallel()
	for name, b := range bundles(t) {
		made := map[string]bool{}
		for _, r := range b.GetResources() {
			m := inner(r)
			made[string(m.ProtoReflect().Descriptor().Name())+"/"+str(m, "tenant_id")+"/"+str(m, "name")] = true
			if tenant, ok := m.(*configv1.Tenant); ok {
				made["Group/"+tenant.GetName()+"/default"] = true
			}
		}
		if _, isVendor := vendorNames()[name]; isVendor {
			made["Tenant//dev"], made["Group/dev/default"] = true, true
		}
		for i, r := range b.GetResources() {
			m := inner(r)
			tenant := str(m, "tenant_id")
			for field, kind := range map[string]string{"tenant_id": "Tenant", "provider_id": "Provider", "upstream_id": "Upstream", "group_id": "Group", "project_id": "Project", "policy_id": "Policy"} {
				ref := str(m, field)
				if ref == "" {
					continue
				}
				key := kind + "/" + tenant + "/" + ref
				if kind == "Tenant" || kind == "Provider" {
					key = kind + "//" + ref
				}
				if !made[key] {
					t.Errorf("%s: resources[%d].%s: nothing makes %s", name, i, field, key)
				}
			}
		}
	}
}

func vendorNames() map[string]bool {
	out := map[string]bool{}
	for _, v := range Vendors() {
		out[v.Name] = true
	}
	return out
}

func str(m proto.Message, field string) string {
	if fd := m.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(field)); fd != nil && !fd.IsList() {
		return m.ProtoReflect().Get(fd).String()
	}
	return ""
}

func TestTheAddressOfTheProviderIsAParameter(t *testing.T) {
	t.Parallel()
	for name, b := range bundles(t) {
		n := 0
		for _, r := range b.GetResources() {
			for _, c := range r.GetProvider().GetCapabilities() {
				n++
				if strings.HasPrefix(c.GetBaseUrl(), BaseURL) {
					t.Errorf("%s: a capability is still at %s", name, c.GetBaseUrl())
				}
			}
		}
		if n == 0 {
			t.Errorf("%s has no capability", name)
		}
	}
	for _, bad := range []string{"127.0.0.1:1", "ftp://x", "http://x/v1", "http://u:p@x", "http://x?a=b", "://"} {
		if _, err := Load("dev", bad); err == nil {
			t.Errorf("%q is accepted as an address", bad)
		}
	}
	if _, err := Load("none", ""); err == nil || !strings.Contains(err.Error(), "dev, demo, mock") {
		t.Errorf("an unknown profile: %v", err)
	}
}

// The keys of a seed belong to consumers that it makes.
func TestKeysOfSeedsHaveAConsumer(t *testing.T) {
	t.Parallel()
	for _, p := range Profiles() {
		s, err := Load(p, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Keys) == 0 {
			t.Errorf("%s makes no key", p)
		}
		for _, k := range s.Keys {
			found := false
			for _, r := range s.Bundle.GetResources() {
				c := r.GetConsumer()
				found = found || c.GetTenantId() == k.Tenant && c.GetName() == k.Consumer
			}
			if !found {
				t.Errorf("%s: nothing makes the consumer of %v", p, k)
			}
		}
	}
}

// A real upstream of a model stands before the built-in one of the same name.
func TestVendorsAreTriedBeforeTheBuiltinProvider(t *testing.T) {
	t.Parallel()
	all := bundles(t)
	priority := func(b *adminv1.Bundle) int32 {
		for _, r := range b.GetResources() {
			if u := r.GetUpstream(); u != nil {
				return u.GetPriority()
			}
		}
		return -1
	}
	builtin := map[string]bool{}
	for _, r := range all["dev"].GetResources() {
		builtin[r.GetUpstreamModel().GetModel()] = true
	}
	for _, v := range Vendors() {
		if priority(all[v.Name]) >= priority(all["dev"]) {
			t.Errorf("%s has priority %d, the built-in provider %d", v.Name, priority(all[v.Name]), priority(all["dev"]))
		}
		for _, r := range all[v.Name].GetResources() {
			if m := r.GetUpstreamModel().GetModel(); m != "" && !builtin[m] {
				t.Errorf("%s of %s is not answered by the built-in provider without a key", m, v.Name)
			}
		}
	}
}
