package streamcheck_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider/streamcheck"
)

// responsesDone are the items of responsesGood, in their order.
var responsesDone = []string{
	`{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}`,
	`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hi you","annotations":[{"type":"url_citation","url":"https://a.example"}]},{"type":"refusal","refusal":"no"}]}`,
	`{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{\"x\":1}"}`,
	`{"id":"fc_2","type":"function_call","status":"completed","call_id":"call_2","name":"g","arguments":"{}"}`,
	`{"id":"ig_1","type":"image_generation_call","status":"completed","result":"aW1n"}`,
}

func responsesResponse(rest string) string {
	return `"response":{"id":"resp_1","object":"response","created_at":7,"model":"m",` + rest + "}}\n"
}

// responsesGood has every kind of item, and calls whose arguments interleave.
var responsesGood = `{"type":"response.created","sequence_number":0,` + responsesResponse(`"status":"in_progress","output":[]`) +
	`{"type":"response.in_progress","sequence_number":1,` + responsesResponse(`"status":"in_progress","output":[]`) + `
{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}
{"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}
{"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}
{"type":"response.reasoning_summary_text.done","sequence_number":5,"item_id":"rs_1","output_index":0,"summary_index":0,"text":"hm"}
{"type":"response.reasoning_summary_part.done","sequence_number":6,"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"hm"}}
{"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":` + responsesDone[0] + `}
{"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}
{"type":"response.content_part.added","sequence_number":9,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}
{"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Hi "}
{"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"you"}
{"type":"response.output_text.annotation.added","sequence_number":12,"item_id":"msg_1","output_index":1,"content_index":0,"annotation_index":0,"annotation":{"type":"url_citation","url":"https://a.example"}}
{"type":"response.output_text.done","sequence_number":13,"item_id":"msg_1","output_index":1,"content_index":0,"text":"Hi you"}
{"type":"response.content_part.done","sequence_number":14,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Hi you","annotations":[{"type":"url_citation","url":"https://a.example"}]}}
{"type":"response.content_part.added","sequence_number":15,"item_id":"msg_1","output_index":1,"content_index":1,"part":{"type":"refusal","refusal":""}}
{"type":"response.refusal.delta","sequence_number":16,"item_id":"msg_1","output_index":1,"content_index":1,"delta":"no"}
{"type":"response.refusal.done","sequence_number":17,"item_id":"msg_1","output_index":1,"content_index":1,"refusal":"no"}
{"type":"response.content_part.done","sequence_number":18,"item_id":"msg_1","output_index":1,"content_index":1,"part":{"type":"refusal","refusal":"no"}}
{"type":"response.output_item.done","sequence_number":19,"output_index":1,"item":` + responsesDone[1] + `}
{"type":"response.output_item.added","sequence_number":20,"output_index":2,"item":{"id":"fc_1","type":"function_call","status":"in_progress","call_id":"call_1","name":"f","arguments":""}}
{"type":"response.output_item.added","sequence_number":21,"output_index":3,"item":{"id":"fc_2","type":"function_call","status":"in_progress","call_id":"call_2","name":"g","arguments":""}}
{"type":"response.function_call_arguments.delta","sequence_number":22,"item_id":"fc_1","output_index":2,"delta":"{\"x\":"}
{"type":"response.function_call_arguments.delta","sequence_number":23,"item_id":"fc_2","output_index":3,"delta":"{}"}
{"type":"response.function_call_arguments.delta","sequence_number":24,"item_id":"fc_1","output_index":2,"delta":"1}"}
{"type":"response.function_call_arguments.done","sequence_number":25,"item_id":"fc_1","output_index":2,"name":"f","arguments":"{\"x\":1}"}
{"type":"response.output_item.done","sequence_number":26,"output_index":2,"item":` + responsesDone[2] + `}
{"type":"response.function_call_arguments.done","sequence_number":27,"item_id":"fc_2","output_index":3,"name":"g","arguments":"{}"}
{"type":"response.output_item.done","sequence_number":28,"output_index":3,"item":` + responsesDone[3] + `}
{"type":"response.output_item.added","sequence_number":29,"output_index":4,"item":{"id":"ig_1","type":"image_generation_call","status":"in_progress"}}
{"type":"response.image_generation_call.completed","sequence_number":30,"item_id":"ig_1","output_index":4}
{"type":"response.output_item.done","sequence_number":31,"output_index":4,"item":` + responsesDone[4] + `}
{"type":"response.completed","sequence_number":32,` +
	responsesResponse(`"status":"completed","output":[`+strings.Join(responsesDone, ",")+`],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}`)

// renumbered is good with sequence numbers that fit again.
func renumbered(lines string) string {
	n := -1
	return regexp.MustCompile(`"sequence_number":\d+`).ReplaceAllStringFunc(lines, func(string) string {
		n++
		return `"sequence_number":` + strconv.Itoa(n)
	})
}

// without is responsesGood without the line that has the sequence number n.
func without(n int) string {
	lines := regexp.MustCompile(`(?m)^.*"sequence_number":`+strconv.Itoa(n)+`,.*\n`).ReplaceAllString(responsesGood, "")
	return renumbered(lines)
}

// The order of events, seen when one of them is missing.
func TestResponsesMissesEvents(t *testing.T) {
	t.Parallel()
	for n, says := range map[int]string{
		0: "after one of", 1: "come first", 2: "never added", 3: "never added", 4: "add up to", 5: "before its text",
		6: "not done", 7: "item 0 is not done", 8: "never added", 9: "never added", 11: "add up to",
		12: "annotations, but 0", 13: "before its text", 14: "not done", 15: "never added", 18: "not done", 19: "is not done",
		20: "output_index is 3, expected 2", 22: "add up to", 25: "arguments are not", 28: "item 3 is not done", 32: "no response.completed",
	} {
		err := streamcheck.Check(fakeprovider.Responses, []byte(stream(true, "\n", without(n))))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("without event %d: error %v, want one with %q", n, err, says)
		}
	}
}

func TestResponsesRules(t *testing.T) {
	t.Parallel()
	good := stream(true, "\n", responsesGood)
	added := `"output_index":2,"item":{"id":"fc_1"`
	testBad(t, fakeprovider.Responses, good, []badCase{
		{"numbers begin with 0", `"sequence_number":0`, `"sequence_number":1`, "sequence_number is 1"},
		{"numbers have no gaps", `"sequence_number":5`, `"sequence_number":6`, "expected 5"},
		{"the id is the same in all", `"id":"resp_1"`, `"id":"resp_2"`, "was"},
		{"the model is the same in all", `"model":"m"`, `"model":"n"`, "was"},
		{"nothing is said at the beginning", `"output":[]`, `"output":[{}]`, "not empty"},
		{"the first status is in_progress", `"status":"in_progress"`, `"status":"completed"`, "status is"},
		{"items are numbered densely", added, `"output_index":3,"item":{"id":"fc_1"`, "expected 2"},
		{"item ids are unique", `"item":{"id":"fc_2"`, `"item":{"id":"fc_1"`, "two items"},
		{"call ids are unique", `"call_id":"call_2"`, `"call_id":"call_1"`, "two calls"},
		{"messages start empty", `"content":[]`, `"content":[{}]`, "expected []"},
		{"reasoning starts empty", `"summary":[]`, `"summary":[{}]`, "expected []"},
		{"calls start without arguments", `"name":"f","arguments":""`, `"name":"f","arguments":"{}"`, `expected ""`},
		{"calls have a name", `"name":"f","arguments":""`, `"name":"","arguments":""`, "name is empty"},
		{"calls have a call_id", `"call_id":"call_1"`, `"call_id":""`, "call_id is empty"},
		{"events name the item they are of", `"item_id":"fc_2"`, `"item_id":"fc_1"`, "item_id is"},
		{"events are of open items", `"item_id":"fc_2","output_index":3`, `"item_id":"msg_1","output_index":1`, "item 1 is done"},
		{"parts start empty", `"part":{"type":"output_text","text":""`, `"part":{"type":"output_text","text":"H"`, "text is"},
		{"parts are numbered densely", `"content_index":1`, `"content_index":2`, "content_index is 2"},
		{"parts fit their item", `"part":{"type":"refusal","refusal":""}`, `"part":{"type":"reasoning_text","text":""}`, "in an item of type message"},
		{"deltas are of open parts", `"content_index":1,"delta":"no"`, `"content_index":0,"delta":"no"`, "part 0 is done"},
		{"deltas fit their part", "event: response.refusal.delta\ndata: {\"type\":\"response.refusal.delta\"", "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"", "of type refusal"},
		{"deltas are not empty", `"delta":"you"`, `"delta":""`, "delta is empty"},
		{"done texts are the deltas", `"text":"Hi you"}`, `"text":"Hi me"}`, "add up to"},
		{"done parts are the deltas", `"part":{"type":"output_text","text":"Hi you"`, `"part":{"type":"output_text","text":"Hi me"`, "text is"},
		{"done items are the deltas", `"content":[{"type":"output_text","text":"Hi you"`, `"content":[{"type":"output_text","text":"Hi me"`, "text is"},
		{"done refusals are the deltas", `"refusal":"no"}`, `"refusal":"yes"}`, "add up to"},
		{"done summaries are the deltas", `"summary_index":0,"text":"hm"`, `"summary_index":0,"text":"ha"`, "add up to"},
		{"annotations are numbered", `"annotation_index":0`, `"annotation_index":1`, "annotation_index is 1"},
		{"annotations are all in the part", `"annotations":[{"type":"url_citation","url":"https://a.example"}]}}`, `"annotations":[]}}`, "0 annotations, but 1"},
		{"done arguments are the deltas", `"name":"f","arguments":"{\"x\":1}"}`, `"name":"f","arguments":"{}"}`, "add up to"},
		{"done arguments name the function", `"name":"f","arguments":"{\"x\":1}"}`, `"name":"g","arguments":"{\"x\":1}"}`, "name is"},
		{"items keep their id", `"item":{"id":"fc_1","type":"function_call","status":"completed"`, `"item":{"id":"fc_9","type":"function_call","status":"completed"`, "id is"},
		{"items keep their type", `"item":{"id":"ig_1","type":"image_generation_call","status":"completed"`, `"item":{"id":"ig_1","type":"web_search_call","status":"completed"`, "type is"},
		{"items keep their call_id", `"status":"completed","call_id":"call_1"`, `"status":"completed","call_id":"call_9"`, "call_id is"},
		{"events are known", "event: response.image_generation_call.completed\ndata: {\"type\":\"response.image_generation_call.completed\"", "event: response.web_search_call.completed\ndata: {\"type\":\"response.web_search_call.completed\"", "not an event of an item"},
		{"the output is the items", `"output":[{"id":"rs_1","type":"reasoning"`, `"output":[{"id":"rs_2","type":"reasoning"`, "not the item"},
		{"the output has all items", `,` + responsesDone[4] + `]`, `]`, "4 items, but 5"},
		{"the status fits the event", `"status":"completed","output"`, `"status":"incomplete","output"`, "status is"},
		{"usage comes", `,"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}`, ``, "usage is missing"},
		{"usage adds up", `"total_tokens":3`, `"total_tokens":4`, "total_tokens is"},
		{"the response ends once", good, good + "event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n", "after the end"},
		{"there is no [DONE]", good, good + "event: x\ndata: [DONE]\n\n", "[DONE]"},
		{"created comes once", good, strings.Replace(good, "response.in_progress", "response.created", 2), "once"},
	})
}

func TestResponsesThatDoNotComplete(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(responsesGood, "\n{\"type\":\"response.output_item.added\",\"sequence_number\":8")
	head += "\n"
	usage := `"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}`
	incomplete := head + `{"type":"response.incomplete","sequence_number":8,` +
		responsesResponse(`"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[`+responsesDone[0]+`],`+usage)
	testBad(t, fakeprovider.Responses, stream(true, "\n", incomplete), []badCase{
		{"an incomplete response says why", `"incomplete_details":{"reason":"max_output_tokens"},`, ``, "incomplete_details is missing"},
	})
	failed := head + `{"type":"response.failed","sequence_number":8,` +
		responsesResponse(`"status":"failed","error":{"code":"server_error","message":"no"},"output":[]`)
	testBad(t, fakeprovider.Responses, stream(true, "\n", failed), []badCase{
		{"a failed response says why", `"error":{"code":"server_error","message":"no"},`, ``, "error is missing"},
		{"a failed response has a code", `"code":"server_error",`, ``, "code is missing"},
		{"the output of a failed response is true", `"message":"no"},"output":[]`, `"message":"no"},"output":[{}]`, "not the item"},
	}, streamcheck.AllowError)
	event := `{"type":"error","sequence_number":8,"code":"server_error","message":"no","param":null}` + "\n"
	good := stream(true, "\n", head+event)
	testBad(t, fakeprovider.Responses, good, []badCase{
		{"an error event has a code", `"code":"server_error",`, ``, "code is missing"},
		{"nothing but response.failed follows the error", good, good + stream(true, "\n", `{"type":"response.output_item.added","sequence_number":9}`), "after the end"},
	}, streamcheck.AllowError)
	both := head + event + strings.Replace(strings.TrimPrefix(failed, head), `"sequence_number":8`, `"sequence_number":9`, 1)
	testBad(t, fakeprovider.Responses, stream(true, "\n", both), nil, streamcheck.AllowError)
}
