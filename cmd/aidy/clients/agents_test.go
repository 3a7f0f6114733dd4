//go:build clients

package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aidy-gateway/aidy-gateway/shared/fakeprovider"
)

// agentLimit is how long an agent may take for its task. It catches a hang.
const agentLimit = 3 * time.Minute

// agent is a program that works in a folder with tools of its own.
type agent struct {
	name string
	own  fakeprovider.Protocol

	// prepare gives the process that does what prompt says, in the folder work, and
	// with the home folder home.
	prepare func(t *testing.T, p *programs, w *world, home, work, prompt string) process

	// steps lead it through the task, with the tools it offers.
	steps func(work string) []fakeprovider.Step

	// said is the final text in what it wrote to standard output.
	said func(t *testing.T, out string) string
}

// task is what every agent is told to do, and does with its own tools: make two files
// at once, read one of them, change it, and say that it is done.
const (
	task     = "Make notes.txt and count.txt, then correct notes.txt."
	farewell = "Both files are there, and notes.txt is correct."
)

// What comes of it: notes.txt before and after the change, and count.txt, which a command
// makes; what the command prints does not stand in it.
const (
	draft   = "first line\nsecnd line\n"
	correct = "first line\nsecond line\n"
	command = "seq 40 42 > count.txt && paste -s -d+ count.txt"
	counted = "40\n41\n42\n"
	printed = "40+41+42"
)

func agents() []agent { return []agent{claudeCode(), codex(), geminiCLI()} }

// TestAgents lets every agent do a task of several turns with its own tools. The files
// are really made, the model sees what the tools gave, and the agent ends well with the
// model's last words.
func TestAgents(t *testing.T) {
	p := installed(t)
	g := startGateway(t)
	for _, a := range agents() {
		g.forUpstreams(t, a.name+"/files", a.own, func(t *testing.T, w *world) { workOnFiles(t, p, a, w) })
	}
}

func workOnFiles(t *testing.T, p *programs, a agent, w *world) {
	home, work := t.TempDir(), t.TempDir()
	steps := a.steps(work)
	w.script(steps...)

	run := a.prepare(t, p, w, home, work, task)
	run.dir, run.limit = work, agentLimit
	run.env = append(run.env, "HOME="+home)
	out, err := run.run(t)
	if err != nil {
		t.Fatalf("%v\nthe provider saw %s", err, w.seen())
	}

	if got := a.said(t, out); strings.TrimSpace(got) != farewell {
		t.Errorf("it said %q, want %q", got, farewell)
	}
	for name, want := range map[string]string{"notes.txt": correct, "count.txt": counted} {
		got, err := os.ReadFile(filepath.Join(work, name))
		if err != nil {
			t.Error(err)
		} else if strings.TrimSpace(string(got)) != strings.TrimSpace(want) {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	w.wantRequests(t, len(steps))
	w.wantBody(t, 0, task)
	// The second request shows what the command printed, the third what was read.
	w.wantBody(t, 1, printed)
	w.wantBody(t, 2, "secnd line")
	if t.Failed() {
		t.Logf("it wrote:\n%s\nthe provider saw %s", short(out), w.seen())
	}
}

// object writes the arguments of a tool call: names and their texts in turn.
func object(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, ",%q:", pairs[i])
		value, err := json.Marshal(pairs[i+1])
		if err != nil {
			panic(err) // a string can be written
		}
		b.Write(value)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}
