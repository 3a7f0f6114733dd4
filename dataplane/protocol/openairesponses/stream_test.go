package openairesponses_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/llm"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/sse"
)

// frames cuts a stream into its events.
func frames(stream []byte) []sse.Frame {
	var all []sse.Frame
	r := sse.NewReader(bytes.NewReader(stream), 0)
	for {
		f, err := r.Next()
		if err != nil {
			return all
		}
		all = append(all, sse.Frame{Raw: bytes.Clone(f.Raw), Event: bytes.Clone(f.Event), Data: bytes.Clone(f.Data)})
	}
}

// lines is a stream of events, each "type members".
func lines(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		kind, members, _ := strings.Cut(e, " ")
		if kind != "error" {
			kind = "response." + kind
		}
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, strings.TrimSpace(members))
	}
	return b.String()
}

// ended is the event of a response that is completed with an output.
func ended(output string) string {
	return `completed "response":{"id":"i","model":"m","status":"completed","output":[` + output + `],"usage":{"input_tokens":1,"output_tokens":1}}`
}

const created = `created "response":{"id":"i","model":"m","status":"in_progress","output":[]}`

// brief tells events as words.
func brief(events []told) string {
	var b strings.Builder
	for _, e := range events {
		n := string(rune('0' + e.Index))
		switch e.Kind {
		case llm.EventStart:
			b.WriteString("start ")
		case llm.EventPartStart:
			b.WriteString("+" + e.Part.Kind.String()[:4] + n)
			if e.Part.Call != nil {
				b.WriteString("(" + e.Part.Call.ID + " " + e.Part.Call.Name + ")")
			}
			b.WriteString(" ")
		case llm.EventDelta:
			b.WriteString(n + ":" + e.Text + " ")
		case llm.EventCite:
			b.WriteString("cite" + n + " ")
		case llm.EventState:
			b.WriteString("state" + n + ":" + e.State.Data + " ")
		case llm.EventPartEnd:
			b.WriteString("-" + n + " ")
		case llm.EventFinish:
			b.WriteString(e.Stop.Reason.String() + " ")
		case llm.EventUsage:
			b.WriteString("usage ")
		case llm.EventEnd:
			b.WriteString("end")
		}
	}
	return b.String()
}

func TestEventsOfStreams(t *testing.T) {
	t.Parallel()
	const (
		message = `output_item.added "output_index":0,"item":{"id":"m1","type":"message"}`
		a       = `output_text.delta "item_id":"m1","output_index":0,"content_index":0,"delta":"a"`
		b       = `output_text.delta "item_id":"m1","output_index":0,"content_index":0,"delta":"b"`
		said    = `{"id":"m1","type":"message","content":[{"type":"output_text","text":"ab"}]}`
		callF   = `output_item.added "output_index":0,"item":{"id":"f1","type":"function_call","call_id":"c1","name":"f","arguments":""}`
		callG   = `output_item.added "output_index":1,"item":{"id":"f2","type":"function_call","call_id":"c2","name":"g","arguments":""}`
		argF    = `function_call_arguments.delta "item_id":"f1","output_index":0,"delta":`
		argG    = `function_call_arguments.delta "item_id":"f2","output_index":1,"delta":`
		doneF   = `{"id":"f1","type":"function_call","call_id":"c1","name":"f","arguments":"12"}`
		doneG   = `{"id":"f2","type":"function_call","call_id":"c2","name":"g","arguments":"xy"}`
		thought = `{"id":"r1","type":"reasoning","summary":[{"type":"summary_text","text":"h"},{"type":"summary_text","text":"i"}],"encrypted_content":"g"}`
	)
	for name, tc := range map[string]struct {
		events []string
		want   string
	}{
		"text":                               {[]string{created, message, a, b, `output_item.done "output_index":0,"item":` + said, ended(said)}, "start +text0 0:ab -0 end usage end"},
		"no item events":                     {[]string{created, a, b, ended(said)}, "start +text0 0:ab -0 end usage end"},
		"no created":                         {[]string{a, ended("")}, "start +text0 0:a -0 end usage end"},
		"no output at the end":               {[]string{created, message, a, `completed "response":{"status":"completed"}`}, "start +text0 0:a -0 end end"},
		"no deltas":                          {[]string{created, message, `output_text.done "item_id":"m1","output_index":0,"content_index":0,"text":"ab"`, ended(said)}, "start +text0 0:ab -0 end usage end"},
		"the end alone":                      {[]string{ended(said)}, "start +text0 0:ab -0 end usage end"},
		"finished items alone":               {[]string{created, `output_item.done "output_index":0,"item":` + said, ended(said)}, "start +text0 0:ab -0 end usage end"},
		"T2 calls interleave":                {[]string{created, callF, callG, argF + `"1"`, argG + `"x"`, argF + `"2"`, argG + `"y"`, ended(doneF + "," + doneG)}, "start +tool0(c1 f) +tool1(c2 g) 0:12 1:xy -0 -1 tool_use usage end"},
		"arguments at the end":               {[]string{created, callF, `function_call_arguments.done "item_id":"f1","output_index":0,"arguments":"12"`, ended(doneF)}, "start +tool0(c1 f) 0:12 -0 tool_use usage end"},
		"arguments as an object":             {[]string{ended(`{"type":"function_call","call_id":"c","name":"f","arguments":{"a":1.0}}`)}, `start +tool0(c f) 0:{"a":1.0} -0 tool_use usage end`},
		"calls in the end alone":             {[]string{created, ended(doneF)}, "start +tool0(c1 f) 0:12 -0 tool_use usage end"},
		"the name comes last":                {[]string{created, `output_item.added "output_index":0,"item":{"id":"f1","type":"function_call"}`, argF + `"1"`, `output_item.done "output_index":0,"item":` + doneF, ended(doneF)}, "start +tool0(c1 f) 0:12 -0 tool_use usage end"},
		"the same call id twice":             {[]string{ended(`{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call","call_id":"c","name":"g"}`)}, "start +tool0(c f) -0 +tool1(call_req_1_1 g) -1 tool_use usage end"},
		"no call id":                         {[]string{ended(`{"type":"function_call","id":"fc_1","name":"f"},{"type":"function_call","name":"g"}`)}, "start +tool0(fc_1 f) -0 +tool1(call_req_1_1 g) -1 tool_use usage end"},
		"all items have index 0":             {[]string{created, message, a, b, `output_item.done "output_index":0,"item":` + said, strings.Replace(callG, `"output_index":1`, `"output_index":0`, 1), strings.Replace(argG, `"output_index":1`, `"output_index":0`, 1) + `"xy"`, `output_item.done "output_index":0,"item":` + doneG, ended(said + "," + doneG)}, "start +text0 0:ab -0 +tool1(c2 g) 1:xy -1 tool_use usage end"},
		"ids that change":                    {[]string{created, message, strings.Replace(a, "m1", "x9", 1), strings.Replace(b, "m1", "x8", 1), `output_item.done "output_index":0,"item":` + strings.Replace(said, "m1", "x7", 1), ended(strings.Replace(said, "m1", "x6", 1))}, "start +text0 0:ab -0 end usage end"},
		"reasoning":                          {[]string{created, `reasoning_summary_text.delta "item_id":"r1","output_index":0,"summary_index":0,"delta":"h"`, `reasoning_summary_text.delta "item_id":"r1","output_index":0,"summary_index":1,"delta":"i"`, `output_item.done "output_index":0,"item":` + thought, ended(thought)}, "start +reas0 0:h\n\ni state0:g -0 end usage end"},
		"reasoning at the end":               {[]string{created, ended(thought)}, "start +reas0 0:h\n\ni state0:g -0 end usage end"},
		"summaries without deltas":           {[]string{created, `reasoning_summary_text.done "output_index":0,"summary_index":0,"text":"h"`, `reasoning_summary_text.done "output_index":0,"summary_index":1,"text":"i"`, ended("")}, "start +reas0 0:h\n\ni -0 end usage end"},
		"reasoning in the open":              {[]string{created, `reasoning_text.delta "output_index":0,"content_index":0,"delta":"h"`, `reasoning_text.delta "output_index":0,"content_index":0,"delta":"i"`, ended("")}, "start +reas0 0:hi -0 end usage end"},
		"both forms of reasoning":            {[]string{created, `reasoning_text.delta "output_index":0,"content_index":0,"delta":"h"`, `reasoning_summary_text.delta "output_index":0,"summary_index":0,"delta":"i"`, ended("")}, "start +reas0 0:h -0 end usage end"},
		"hidden reasoning":                   {[]string{created, `output_item.added "output_index":0,"item":{"id":"r1","type":"reasoning","summary":[]}`, `output_item.done "output_index":0,"item":{"id":"r1","type":"reasoning","summary":[],"encrypted_content":"g"}`, ended("")}, "start +reas0 state0:g -0 end usage end"},
		"reasoning of nothing":               {[]string{created, `output_item.added "output_index":0,"item":{"id":"r1","type":"reasoning","summary":[]}`, `output_item.done "output_index":0,"item":{"id":"r1","type":"reasoning","summary":[]}`, ended("")}, "start end usage end"},
		"S7 refusal":                         {[]string{created, message, `refusal.delta "item_id":"m1","output_index":0,"content_index":0,"delta":"no"`, ended(`{"id":"m1","type":"message","content":[{"type":"refusal","refusal":"no"}]}`)}, "start +refu0 0:no -0 refusal usage end"},
		"two parts of one message":           {[]string{created, message, a, `output_text.delta "item_id":"m1","output_index":0,"content_index":1,"delta":"b"`, ended(said)}, "start +text0 0:a +text1 1:b -0 -1 end usage end"},
		"sources":                            {[]string{created, message, a, `output_text.annotation.added "item_id":"m1","output_index":0,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"u"}`, ended(`{"id":"m1","type":"message","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"u"},{"type":"url_citation","url":"v"}]}]}`)}, "start +text0 0:a cite0 cite0 -0 end usage end"},
		"a custom tool":                      {[]string{created, `output_item.added "output_index":0,"item":{"id":"f1","type":"custom_tool_call","call_id":"c1","name":"f","input":""}`, `custom_tool_call_input.delta "item_id":"f1","output_index":0,"delta":"x"`, ended("")}, "start +tool0(c1 f) 0:x -0 tool_use usage end"},
		"a search":                           {[]string{created, `output_item.done "output_index":0,"item":{"id":"w","type":"web_search_call"}`, `output_text.delta "output_index":1,"content_index":0,"delta":"a"`, ended("")}, "start +nati0 -0 +text1 1:a -1 end usage end"},
		"a picture":                          {[]string{created, `output_item.done "output_index":0,"item":{"id":"g","type":"image_generation_call","result":"AAAA"}`, ended("")}, "start +medi0 -0 end usage end"},
		"a picture that failed":              {[]string{created, `output_item.done "output_index":0,"item":{"id":"g","type":"image_generation_call","status":"failed","result":null}`, ended("")}, "start end usage end"},
		"empty deltas":                       {[]string{created, message, strings.Replace(a, `"a"`, `""`, 1), ended("")}, "start end usage end"},
		"unknown events":                     {[]string{created, `new.thing "x":1`, a, `output_audio.delta "delta":"AAAA"`, ended("")}, "start +text0 0:a -0 end usage end"},
		"after the end":                      {[]string{created, a, ended(""), b, ended("")}, "start +text0 0:a -0 end usage end"},
		"a refusal, told in deltas alone":    {[]string{created, message, `refusal.delta "item_id":"m1","output_index":0,"content_index":0,"delta":"no"`, ended("")}, "start +refu0 0:no -0 refusal usage end"},
		"finished items, all of index 0":     {[]string{created, `output_item.done "output_index":0,"item":` + said, `output_item.done "output_index":0,"item":` + doneG, ended(said + "," + doneG)}, "start +text0 0:ab -0 +tool1(c2 g) 1:xy -1 tool_use usage end"},
		"the same, and no output at the end": {[]string{created, `output_item.done "output_index":0,"item":` + said, `output_item.done "output_index":0,"item":` + doneG, ended("")}, "start +text0 0:ab -0 +tool1(c2 g) 1:xy -1 tool_use usage end"},
		"the same, and ids that change":      {[]string{created, `output_item.done "output_index":0,"item":` + said, `output_item.done "output_index":0,"item":` + doneG, ended(strings.Replace(said, "m1", "m9", 1) + "," + strings.Replace(doneG, "f2", "f9", 1))}, "start +text0 0:ab -0 +tool1(c2 g) 1:xy -1 tool_use usage end"},
		"a part of an item that is done":     {[]string{created, message, a, `output_item.done "output_index":0,"item":` + said, strings.Replace(b, `"content_index":0`, `"content_index":1`, 1), ended(said)}, "start +text0 0:a -0 end usage end"},
		"an item that is done goes on":       {[]string{created, message, a, `output_item.done "output_index":0,"item":` + said, b, ended(said)}, "start +text0 0:a -0 end usage end"},
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(lines(tc.events...)))
		if f != nil {
			t.Errorf("%s: %v", name, f)
			continue
		}
		inOrder(t, events)
		if got := brief(events); got != tc.want {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, tc.want)
		}
	}
}

// Servers frame events in several ways.
func TestConvE04_FramesWithoutNamesAndSpaces(t *testing.T) {
	t.Parallel()
	stream := lines(created, `output_text.delta "output_index":0,"content_index":0,"delta":"a"`, ended(""))
	for name, s := range map[string]string{
		"no event lines": strings.NewReplacer("event: response.created\n", "", "event: response.output_text.delta\n", "", "event: response.completed\n", "").Replace(stream),
		"message":        strings.NewReplacer("event: response.created\n", "event: message\n", "event: response.output_text.delta\n", "event: message\n", "event: response.completed\n", "event: message\n").Replace(stream),
		"CRLF":           strings.ReplaceAll(stream, "\n", "\r\n"),
		"CR":             strings.ReplaceAll(stream, "\n", "\r"),
		"no space":       strings.ReplaceAll(strings.ReplaceAll(stream, "data: ", "data:"), "event: ", "event:"),
		"comments":       ": hi\n\n" + stream + ": bye\n\n",
		"with [DONE]":    stream + "data: [DONE]\n\n",
		"a ping":         "event: ping\ndata: {}\n\n" + stream,
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(s))
		if got := brief(events); f != nil || got != "start +text0 0:a -0 end usage end" {
			t.Errorf("%s: %s %v", name, got, f)
		}
	}
}

// A stream that breaks is no end, whatever it had said.
func TestConvE06_BrokenStreamsFail(t *testing.T) {
	t.Parallel()
	const a = `output_text.delta "output_index":0,"content_index":0,"delta":"a"`
	for name, tc := range map[string]struct {
		stream string
		want   fault.Class
	}{
		"body ends early":    {lines(created, a), fault.CutAfterFirst},
		"nothing at all":     {": hi\n\n", fault.CutAfterFirst},
		"error event":        {lines(created, a, `error "code":"overloaded_error","message":"busy","param":null`), fault.Overloaded},
		"rate limit":         {lines(created, `failed "response":{"id":"i","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"},"output":[]}`), fault.RateLimited},
		"failed":             {lines(created, a, `failed "response":{"id":"i","status":"failed","error":{"code":"server_error","message":"x"}}`), fault.ServerError},
		"failed, no details": {lines(created, `failed "response":{"status":"failed"}`), fault.ServerError},
		"cancelled":          {lines(created, a, `cancelled "response":{"status":"cancelled"}`), fault.ServerError},
		"no status":          {lines(created, a, `cancelled "response":{}`), fault.ServerError},
		"an error body":      {"data: {\"error\":{\"message\":\"no\",\"type\":\"server_error\",\"code\":null}}\n\n", fault.ServerError},
		"no JSON":            {"data: hello\n\n", fault.Malformed},
		"half an event":      {lines(created) + "event: response.output_text.delta\ndata: {\"delta\":\"a\n\n", fault.Malformed},
		"half an end":        {lines(created, a) + "event: response.completed\ndata: {\"response\":{\"status\":\"completed\"\n\n", fault.Malformed},
		"a nameless call":    {lines(created, `output_item.added "output_index":0,"item":{"id":"f1","type":"function_call"}`, ended("")), fault.Malformed},
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(tc.stream))
		if f == nil || f.Class != tc.want {
			t.Errorf("%s: %v, want %v", name, f, tc.want)
		}
		for _, e := range events {
			if e.Kind == llm.EventFinish || e.Kind == llm.EventEnd {
				t.Errorf("%s: told as a proper end: %s", name, brief(events))
			}
		}
	}
}

// What answers have is bounded.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	items, parts := []string{created}, []string{created}
	for i := range 5000 {
		items = append(items, fmt.Sprintf(`output_item.added "output_index":%d,"item":{"id":"i%d","type":"reasoning"}`, i, i))
	}
	for i := range 20000 {
		parts = append(parts, fmt.Sprintf(`output_text.delta "output_index":0,"content_index":%d,"delta":"a"`, i))
	}
	for name, s := range map[string]string{"items": lines(items...), "parts": lines(parts...)} {
		if _, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(s)); f == nil || f.Class != fault.Malformed {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// The usual ends of a stream, with the provider's words for them.
func TestStopsOfStreams(t *testing.T) {
	t.Parallel()
	const a = `output_text.delta "output_index":0,"content_index":0,"delta":"a"`
	const c = `output_item.added "output_index":0,"item":{"type":"function_call","call_id":"c","name":"f"}`
	for _, tc := range []struct {
		said, end string
		want      llm.Stop
	}{
		{a, `completed "response":{"status":"completed"}`, llm.Stop{Reason: llm.StopEnd, Native: "completed"}},
		{c, `completed "response":{"status":"completed"}`, llm.Stop{Reason: llm.StopToolUse, Native: "completed"}},
		{a, `incomplete "response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`, llm.Stop{Reason: llm.StopMaxTokens, Native: "max_output_tokens"}},
		{c, `incomplete "response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`, llm.Stop{Reason: llm.StopMaxTokens, Native: "max_output_tokens"}},
		{a, `incomplete "response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}`, llm.Stop{Reason: llm.StopContentFilter, Native: "content_filter"}},
		{a, `incomplete "response":{"status":"incomplete","incomplete_details":{"reason":"new_word"}}`, llm.Stop{Reason: llm.StopMaxTokens, Native: "new_word"}},
		{created, `incomplete "response":{"status":"incomplete","incomplete_details":{"reason":"new_word"}}`, llm.Stop{Reason: llm.StopFailed, Native: "new_word"}},
		{a, `completed "response":{}`, llm.Stop{Reason: llm.StopEnd, Native: "completed"}},
		{a, `incomplete "response":{}`, llm.Stop{Reason: llm.StopMaxTokens, Native: "incomplete"}},
	} {
		events, f := tell(t, conversion(protocol.Anthropic), strings.NewReader(lines(tc.said, tc.end)))
		if f != nil {
			t.Errorf("%s: %v", tc.end, f)
			continue
		}
		inOrder(t, events)
		var got llm.Stop
		for _, e := range events {
			if e.Kind == llm.EventFinish {
				got = e.Stop
			}
		}
		if got != tc.want {
			t.Errorf("%s after %s: %+v, want %+v", tc.end, tc.said, got, tc.want)
		}
	}
}

// Tools that went out under other names come back under the caller's.
func TestNamesOfToolsComeBack(t *testing.T) {
	t.Parallel()
	c := conversion(protocol.Anthropic)
	sent := c.ToolName("", "files.read")
	events, f := tell(t, c, strings.NewReader(lines(ended(`{"type":"function_call","call_id":"c","name":"`+sent+`"},{"type":"function_call","call_id":"d","name":"g","namespace":"n"}`))))
	if f != nil {
		t.Fatal(f)
	}
	var got []llm.Call
	for _, e := range events {
		if e.Part.Call != nil {
			got = append(got, *e.Part.Call)
		}
	}
	want := []llm.Call{{ID: "c", Name: "files.read"}, {ID: "d", Namespace: "n", Name: "g"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
