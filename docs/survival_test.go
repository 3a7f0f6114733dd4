package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/bridge"
)

// The survival table is what the codecs say of themselves, so it cannot be wrong in any
// other way than they are.
func TestSurvivalTableIsOnThePage(t *testing.T) {
	const page = "survival.md"
	before, got, after := section(t, page, "survival")
	want := survival(t)
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is not what the codecs say; run go test ./docs -update", page)
	}
	if err := os.WriteFile(page, []byte(before+want+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func survival(t *testing.T) string {
	t.Helper()
	var codecs []bridge.Codec
	for _, c := range dataplane.Codecs() {
		b, ok := c.(bridge.Codec)
		if !ok {
			t.Fatalf("%s converts nothing", c.Name())
		}
		codecs = append(codecs, b)
	}
	var b strings.Builder
	for _, from := range codecs {
		fmt.Fprintf(&b, "\n## From %s\n\n| Field | Feature |", from.Name())
		for _, to := range codecs {
			if to != from {
				fmt.Fprintf(&b, " to %s |", to.Name())
			}
		}
		b.WriteString("\n|---|---|---|---|---|\n")
		for _, f := range from.Fields() {
			feature := string(f.Feature)
			if f.Feature == llm.Core {
				feature = "core"
			}
			fmt.Fprintf(&b, "| `%s` | %s |", f.Path, feature)
			for _, to := range codecs {
				if to != from {
					fmt.Fprintf(&b, " %s |", cell(to, f.Feature))
				}
			}
			b.WriteByte('\n')
		}
	}
	b.WriteString("\n## Answers\n\n| Feature |")
	for _, to := range codecs {
		fmt.Fprintf(&b, " to a caller of %s |", to.Name())
	}
	b.WriteString("\n|---|---|---|---|---|\n")
	for _, f := range []llm.Feature{
		llm.AnswerReasoning, llm.AnswerState, llm.AnswerCitations, llm.AnswerMedia, llm.AnswerLogprobs, llm.AnswerServerTool,
		llm.AnswerStopWord, llm.AnswerRefusalInfo,
	} {
		fmt.Fprintf(&b, "| %s |", f)
		for _, to := range codecs {
			fmt.Fprintf(&b, " %s |", cell(to, f))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.String()
}

// cell says how a feature fares.
func cell(to bridge.Codec, f llm.Feature) string {
	if f == llm.Core {
		return "carried"
	}
	s := to.Support(f)
	var text string
	switch s.Fate {
	case protocol.Carried:
		text = "carried"
	case protocol.Mapped:
		text = "mapped"
	default:
		text = "**" + s.Default.String() + "**"
	}
	for _, more := range []string{s.Substitute, s.Note} {
		if more != "" {
			text += "; " + strings.ReplaceAll(more, "|", `\|`)
		}
	}
	return text
}
