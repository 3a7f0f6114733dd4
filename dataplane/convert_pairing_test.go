package dataplane

import (
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/vendorsdk"
)

type vendorCall = vendorsdk.Call

// callBody is what the calls of a request and their results look like in any protocol.
type callBody struct {
	Messages []struct {
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
		Content any `json:"content"`
	} `json:"messages"`
	Input []struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output any    `json:"output"`
	} `json:"input"`
	Contents []struct {
		Parts []struct {
			Call *struct {
				ID string `json:"id"`
			} `json:"functionCall"`
			Response *struct {
				ID       string         `json:"id"`
				Response map[string]any `json:"response"`
			} `json:"functionResponse"`
		} `json:"parts"`
	} `json:"contents"`
}

// checkPairing checks that the n-th call of a request is answered by the result that
// says so: "result number n".
func checkPairing(t *testing.T, r *fakeprovider.Request) {
	t.Helper()
	var in callBody
	if err := r.Decode(&in); err != nil {
		t.Fatal(err)
	}
	var calls, byOrder []string
	byID := make(map[string]string)
	answer := func(id string, v any) {
		text := said(v)
		byID[id] = text
		byOrder = append(byOrder, text)
	}
	for _, m := range in.Messages {
		for _, c := range m.ToolCalls {
			calls = append(calls, c.ID)
		}
		if m.ToolCallID != "" {
			answer(m.ToolCallID, m.Content)
		}
		blocks, _ := m.Content.([]any)
		for _, b := range blocks {
			b, _ := b.(map[string]any)
			switch b["type"] {
			case "tool_use":
				calls = append(calls, b["id"].(string))
			case "tool_result":
				answer(b["tool_use_id"].(string), b["content"])
			}
		}
	}
	for _, item := range in.Input {
		switch item.Type {
		case "function_call":
			calls = append(calls, item.CallID)
		case "function_call_output":
			answer(item.CallID, item.Output)
		}
	}
	for _, c := range in.Contents {
		for _, p := range c.Parts {
			if p.Call != nil {
				calls = append(calls, p.Call.ID)
			}
			if p.Response != nil {
				answer(p.Response.ID, p.Response.Response)
			}
		}
	}
	if len(calls) != len(byOrder) || len(calls) == 0 {
		t.Fatalf("%d calls with %d results in %s", len(calls), len(byOrder), r.Body)
	}
	for i, id := range calls {
		got := byID[id]
		if id == "" {
			got = byOrder[i]
		}
		if want := "result number " + string(rune('0'+i)); !strings.Contains(got, want) {
			t.Errorf("call %d (%q) is answered with %q, want %q\n%s", i, id, got, want, r.Body)
		}
	}
}

// said is the text in a value of any form.
func said(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(said(e))
		}
		return b.String()
	case map[string]any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(said(e))
		}
		return b.String()
	}
	return ""
}
