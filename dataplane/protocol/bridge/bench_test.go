//go:build unix

package bridge_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// prose and code are texts of about 1 KiB as they stand in JSON: the first one has few
// escapes, the second one many, as the files that agents read have.
var texts = map[string]string{
	"prose": strings.Repeat("The quick brown fox jumps over the lazy dog and goes on its way, ", 15) + `said:\n\"ok\"`,
	"code":  strings.Repeat(`\tif err := f(\"name\", x); err != nil {\n\t\treturn fmt.Errorf(\"read: %w\", err)\n\t}\n`, 11),
}

// agentPrompt is a request of Chat of at least size bytes as agents send them: a long
// system prompt, 20 tools, and turns of calls, results and text.
func agentPrompt(size int, text string) string {
	var b strings.Builder
	b.WriteString(`{"model":"public","max_tokens":16000,"tools":[`)
	for i := range 20 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"%s","parameters":{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}},"required":["path"]}}}`, i, text)
	}
	fmt.Fprintf(&b, `],"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}`, text, text)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"I look.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_1","arguments":"{\"path\":\"/src/a.go\",\"n\":1}"}}]}`, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":"%s"},{"role":"user","content":"%s"}`, i, text, text)
	}
	b.WriteString(`]}`)
	return b.String()
}

// cpuTime is the CPU time of this process so far, that of the collector included.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// best is the least CPU time of one run of each of several things. They take turns in
// short rounds, so that what else the machine does hits all.
func best(b *testing.B, things ...func()) []time.Duration {
	b.Helper()
	const rounds, each = 12, 25
	least := make([]time.Duration, len(things))
	for round := range rounds {
		for i, f := range things {
			before := cpuTime(b)
			for range each {
				f()
			}
			if took := (cpuTime(b) - before) / each; round == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	return least
}

// BenchmarkConvert200KB compares the conversion of a prompt of 200 KB, from the caller's
// bytes to those that are sent, with a plain decode of the same bytes into an any.
func BenchmarkConvert200KB(b *testing.B) {
	for _, kind := range []string{"prose", "code"} {
		chatPrompt := agentPrompt(200<<10, texts[kind])
		for _, from := range protocols() {
			body := chatPrompt
			if from != chat {
				x := begin(b, pair{chat, from}, chatPrompt)
				body = string(x.conv.Body)
			}
			for _, to := range protocols() {
				if from == to {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s-%s", kind, from, to), func(b *testing.B) {
					raw := []byte(body)
					convert := func() {
						x := prepare(b, pair{from, to}, "")
						x.call.Body = raw
						if _, f := x.call.Convert(x.target); f != nil {
							b.Fatal(f, f.Public)
						}
					}
					plain := func() {
						var v any
						if err := json.Unmarshal(raw, &v); err != nil {
							b.Fatal(err)
						}
					}
					for b.Loop() {
						took := best(b, convert, plain)
						b.ReportMetric(float64(took[0].Microseconds()), "convert-cpu-us")
						b.ReportMetric(float64(took[1].Microseconds()), "plain-cpu-us")
						b.ReportMetric(float64(took[0])/float64(took[1]), "x-plain")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
