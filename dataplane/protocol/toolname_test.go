package protocol_test

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
)

// Whatever a caller calls its tools, the upstream gets names that it takes, different
// tools stay different, and a call finds the way back to the caller's name.
func TestToolNamesAreTakenByUpstreamsAndFindBack(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	names := rapid.OneOf(rapid.StringMatching(`[a-z_.:-]{1,80}`), rapid.StringN(1, 30, 90))
	spaces := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`mcp__[a-z]{1,8}__`), rapid.StringMatching(`[a-z.]{1,70}`))
	type tool struct{ namespace, name string }
	rapid.Check(t, func(t *rapid.T) {
		tools := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) tool {
			return tool{spaces.Draw(t, "namespace"), names.Draw(t, "name")}
		}), 1, 8, func(x tool) tool { return x }).Draw(t, "tools")
		c := &protocol.Conversion{}
		for _, x := range tools {
			sent := c.ToolName(x.namespace, x.name)
			if !valid.MatchString(sent) {
				t.Fatalf("%+v is sent as %q", x, sent)
			}
			if again := (&protocol.Conversion{}).ToolName(x.namespace, x.name); again != sent {
				t.Fatalf("%+v is sent as %q and then as %q", x, sent, again)
			}
		}
		for _, x := range tools {
			sent := c.ToolName(x.namespace, x.name)
			if ns, name := c.CallerTool(sent); ns != x.namespace || name != x.name {
				t.Fatalf("a call of %q is for (%q, %q), want %+v", sent, ns, name, x)
			}
		}
	})
}

func TestToolNameThatIsTakenEverywhereStays(t *testing.T) {
	t.Parallel()
	c := &protocol.Conversion{}
	if got := c.ToolName("", "get_weather-2"); got != "get_weather-2" {
		t.Errorf("sent as %q", got)
	}
	if got := c.ToolName("mcp__files__", "read"); got != "mcp__files__read" {
		t.Errorf("sent as %q, want the namespace and the name", got)
	}
}
