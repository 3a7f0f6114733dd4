//go:build clients

package clients

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// claudeCode is Claude Code in print mode.
func claudeCode() agent {
	return agent{
		name: "claude-code",
		own:  fakeprovider.Anthropic,
		prepare: func(_ *testing.T, p *programs, w *world, _, prompt string) process {
			return process{
				argv: []string{
					p.node, filepath.Join(p.modules, "@anthropic-ai/claude-code/cli-wrapper.cjs"),
					"--print", "--output-format", "json", "--model", "claude-sonnet-4-5",
					"--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Write,Edit", "--", prompt,
				},
				env: []string{
					"ANTHROPIC_BASE_URL=" + w.base, "ANTHROPIC_AUTH_TOKEN=" + w.key,
					"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
				},
			}
		},
		steps: func(work string) []fakeprovider.Step {
			notes := filepath.Join(work, "notes.txt")
			return []fakeprovider.Step{
				{Text: "I make both files.", ToolCalls: []fakeprovider.ToolCall{
					{Name: "Write", Arguments: object("file_path", notes, "content", draft)},
					{Name: "Bash", Arguments: object("command", command, "description", "Make count.txt")},
				}},
				{ToolCalls: []fakeprovider.ToolCall{{Name: "Read", Arguments: object("file_path", notes)}}},
				{ToolCalls: []fakeprovider.ToolCall{{Name: "Edit", Arguments: object("file_path", notes, "old_string", "secnd", "new_string", "second")}}},
				{Text: farewell},
			}
		},
		look: func(path string) fakeprovider.ToolCall {
			return fakeprovider.ToolCall{Name: "Read", Arguments: object("file_path", path)}
		},
		said: func(t *testing.T, out string) string {
			var end struct {
				Result  string
				IsError bool `json:"is_error"`
			}
			if err := json.Unmarshal([]byte(out), &end); err != nil || end.IsError {
				t.Errorf("it ended with %s (%v), want a result without an error", out, err)
			}
			return end.Result
		},
	}
}
