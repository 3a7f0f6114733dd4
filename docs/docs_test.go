// Package docs_test keeps these pages true where a program can tell.
package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/controlplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/configcheck"
	"github.com/aidy-gateway/aidy-gateway/shared/settings"
)

var update = flag.Bool("update", false, "write the tables of settings anew")

// section returns what stands between the two marks of a page.
func section(t *testing.T, page, name string) (before, inside, after string) {
	t.Helper()
	text := read(t, page)
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		t.Fatalf("%s has no mark %q", page, begin)
	}
	inside, after, ok = strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no mark %q", page, end)
	}
	return before + begin, inside, end + after
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEverySettingIsOnThePage(t *testing.T) {
	const page = "configuration.md"
	for name, cfg := range map[string]any{"dataplane": new(dataplane.Config), "controlplane": new(controlplane.Config)} {
		want, err := settings.Docs(cfg, "")
		if err != nil {
			t.Fatal(err)
		}
		before, got, after := section(t, page, "settings of "+name)
		if got == want {
			continue
		}
		if !*update {
			t.Errorf("the table of %s in %s is not what the program has; run go test ./docs -update", name, page)
			continue
		}
		if err := os.WriteFile(page, []byte(before+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// examples are the bundles that people are told to apply.
func examples(t *testing.T) map[string]string {
	t.Helper()
	_, inside, _ := section(t, "bundles.md", "example")
	fences := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	readme := ""
	for _, m := range fences.FindAllStringSubmatch(read(t, "../README.md"), -1) {
		if strings.Contains(m[1], "resources:") {
			readme = m[1]
		}
	}
	return map[string]string{
		"bundles.md":                   fences.FindStringSubmatch(inside)[1],
		"routing.md":                   fences.FindStringSubmatch(read(t, "routing.md"))[1],
		"../README.md":                 readme,
		"../deploy/compose/first.yaml": read(t, "../deploy/compose/first.yaml"),
	}
}

func TestBundlesOnThePagesAreValid(t *testing.T) {
	t.Parallel()
	checker, err := configcheck.New(configcheck.Config{CrossDomain: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range examples(t) {
		bundle, err := document.Bundle(name, []byte(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(bundle.GetResources()) == 0 {
			t.Errorf("%s: no resources found", name)
		}
		for _, r := range bundle.GetResources() {
			for _, v := range checker.CheckResource(inner(r)) {
				t.Errorf("%s: %s %s %s: %s", name, v.GetKind(), v.GetName(), v.GetFieldPath(), v.GetHint())
			}
		}
	}
}

// inner is the resource in its envelope; nil if there is none.
func inner(r *adminv1.BundleResource) (m proto.Message) {
	r.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		m = v.Message().Interface()
		return false
	})
	return m
}

func TestTheExampleHasEveryKind(t *testing.T) {
	t.Parallel()
	bundle, err := document.Bundle("bundles.md", []byte(examples(t)["bundles.md"]))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[protoreflect.Name]bool{}
	for _, r := range bundle.GetResources() {
		r.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			seen[fd.Name()] = true
			return false
		})
	}
	fields := new(adminv1.BundleResource).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := fields.Get(i).Name(); !seen[name] {
			t.Errorf("bundles.md shows no %s", name)
		}
	}
}

func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md")
	links := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, page := range pages {
		for _, m := range links.FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
