//go:build clients

package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// codex is Codex without a person at it.
func codex() agent {
	const last = "last.txt"
	return agent{
		name: "codex",
		own:  fakeprovider.Responses,
		prepare: func(t *testing.T, p *programs, w *world, home, prompt string) process {
			folder := filepath.Join(home, ".codex")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			// Codex offers a web search that OpenAI runs, whatever it is asked.
			options := ""
			if w.upstream != w.own {
				options = `http_headers = { "x-gateway-options" = "openai_responses.web_search=drop" }` + "\n"
			}
			config := fmt.Sprintf(`model = "gpt-5"
model_provider = "aidy"
check_for_update_on_startup = false

[model_providers.aidy]
name = "aidy"
base_url = %q
env_key = "AIDY_API_KEY"
wire_api = "responses"
%s
[analytics]
enabled = false

[feedback]
enabled = false
`, w.base+"/v1", options)
			if err := os.WriteFile(filepath.Join(folder, "config.toml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			return process{
				argv: []string{
					p.node, filepath.Join(p.modules, "@openai/codex/bin/codex.js"), "exec",
					"--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--ephemeral", "--", prompt,
				},
				env: []string{"AIDY_API_KEY=" + w.key, "CODEX_HOME=" + folder},
			}
		},
		steps: func(string) []fakeprovider.Step {
			shell := func(command string) fakeprovider.ToolCall {
				return fakeprovider.ToolCall{Name: "exec_command", Arguments: object("cmd", command)}
			}
			return []fakeprovider.Step{
				{Text: "I make both files.", ToolCalls: []fakeprovider.ToolCall{
					shell("printf '%s' '" + draft + "' > notes.txt"), shell(command),
				}},
				{ToolCalls: []fakeprovider.ToolCall{shell("cat notes.txt")}},
				// Codex applies patches by itself; the shell never sees this command.
				{ToolCalls: []fakeprovider.ToolCall{shell("apply_patch <<'EOF'\n" +
					"*** Begin Patch\n*** Update File: notes.txt\n@@\n first line\n-secnd line\n+second line\n*** End Patch\nEOF")}},
				{Text: farewell},
			}
		},
		look: func(path string) fakeprovider.ToolCall {
			return fakeprovider.ToolCall{Name: "view_image", Arguments: object("path", path)}
		},
		said: func(_ *testing.T, out string) string { return out },
	}
}
