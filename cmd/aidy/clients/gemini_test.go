//go:build clients

package clients

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// geminiCLI is Gemini CLI without a person at it.
func geminiCLI() agent {
	return agent{
		name: "gemini-cli",
		own:  fakeprovider.Gemini,
		prepare: func(t *testing.T, p *programs, w *world, home, prompt string) process {
			folder := filepath.Join(home, ".gemini")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			const settings = `{
				"security": {"auth": {"selectedType": "gemini-api-key"}},
				"privacy": {"usageStatisticsEnabled": false},
				"telemetry": {"enabled": false},
				"general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
			}`
			if err := os.WriteFile(filepath.Join(folder, "settings.json"), []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			return process{
				argv: []string{
					p.node, filepath.Join(p.modules, "@google/gemini-cli/bundle/gemini.js"),
					"--model", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust", "--output-format", "json", "--prompt", prompt,
				},
				env: []string{"GOOGLE_GEMINI_BASE_URL=" + w.base, "GEMINI_API_KEY=" + w.key},
			}
		},
		steps: func(work string) []fakeprovider.Step {
			notes := filepath.Join(work, "notes.txt")
			return []fakeprovider.Step{
				{Text: "I make both files.", ToolCalls: []fakeprovider.ToolCall{
					{Name: "write_file", Arguments: object("file_path", notes, "content", draft)},
					{Name: "run_shell_command", Arguments: object("command", command, "description", "Make count.txt")},
				}},
				{ToolCalls: []fakeprovider.ToolCall{{Name: "read_file", Arguments: object("file_path", notes)}}},
				{ToolCalls: []fakeprovider.ToolCall{{Name: "replace", Arguments: object(
					"file_path", notes, "instruction", "Correct the spelling.", "old_string", "secnd line", "new_string", "second line")}}},
				{Text: farewell},
			}
		},
		look: func(path string) fakeprovider.ToolCall {
			return fakeprovider.ToolCall{Name: "read_file", Arguments: object("file_path", path)}
		},
		said: func(t *testing.T, out string) string {
			var end struct {
				Response string
				Error    any
			}
			if err := json.Unmarshal([]byte(out), &end); err != nil || end.Error != nil {
				t.Errorf("it ended with %s (%v), want a response without an error", out, err)
			}
			return end.Response
		},
	}
}
