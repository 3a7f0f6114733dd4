//go:build clients

package clients

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

	// prepare gives the process that does what prompt says, with the home folder
	// home.
	prepare func(t *testing.T, p *programs, w *world, home, prompt string) process

	// steps lead it through the task, with the tools it offers. The first turn makes both
	// files at once, the second reads notes.txt, the third corrects it.
	steps func(work string) []fakeprovider.Step

	// look is the call of the tool that shows an image file to the model.
	look func(path string) fakeprovider.ToolCall

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

// TestAgents lets every agent do tasks with its own tools. A row's name tells the agent,
// the task, and what the model is served in.
func TestAgents(t *testing.T) {
	p := installed(t)
	g := startGateway(t)
	for _, a := range agents() {
		for _, row := range []struct {
			name string
			test func(t *testing.T, c *shift)
		}{
			{"files", workOnFiles},
			{"reasoning", workWithReasoning},
			{"limited", workWithLimit},
			{"picture", lookAtPicture},
		} {
			g.forUpstreams(t, a.name+"/"+row.name, a.own, func(t *testing.T, w *world) {
				row.test(t, &shift{world: w, agent: a, programs: p, home: t.TempDir(), work: t.TempDir()})
			})
		}
	}
}

// shift is one agent at work in one world.
type shift struct {
	*world
	agent
	programs   *programs
	home, work string // folders
}

// do lets the agent do the task that steps make of it. It fails the test unless the
// agent ends well and says farewell.
func (c *shift) do(t *testing.T, steps []fakeprovider.Step) {
	t.Helper()
	// Agents ask for thoughts, and Anthropic's models then think in every turn; a history
	// without them would be refused.
	if c.upstream == fakeprovider.Anthropic {
		think(steps)
	}
	c.script(steps...)
	run := c.prepare(t, c.programs, c.world, c.home, task)
	run.dir, run.limit = c.work, agentLimit
	run.env = append(run.env, "HOME="+c.home)
	out, err := run.run(t)
	if err != nil {
		t.Fatalf("%v\nthe provider saw %s", err, c.seen())
	}
	if got := c.said(t, out); strings.TrimSpace(got) != farewell {
		t.Errorf("it said %q, want %q; the provider saw %s", got, farewell, c.seen())
	}
	c.wantRequests(t, len(steps))
	c.wantBody(t, 0, task)
}

// wantFiles fails the test unless the files are as the task wants them.
func (c *shift) wantFiles(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{"notes.txt": correct, "count.txt": counted} {
		got, err := os.ReadFile(filepath.Join(c.work, name))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

// workOnFiles: the files are really made, and the model is told what the tools gave.
func workOnFiles(t *testing.T, c *shift) {
	c.do(t, c.steps(c.work))
	c.wantFiles(t)
	c.wantBody(t, 1, printed)
	c.wantBody(t, 2, printed, "secnd line")
}

// workWithReasoning: a model that thinks before each turn changes nothing. What belongs
// to its thoughts comes back to it where its protocol wants that.
func workWithReasoning(t *testing.T, c *shift) {
	steps := c.steps(c.work)
	think(steps)
	c.do(t, steps)
	c.wantFiles(t)
	c.wantBody(t, 2, printed, "secnd line")
	for i := 1; i < len(steps); i++ {
		c.wantState(t, i)
	}
}

// workWithLimit: an account at its limit is told to the agent, which waits and goes on.
func workWithLimit(t *testing.T, c *shift) {
	steps := c.steps(c.work)
	wait := fakeprovider.FailRetryAfter(fakeprovider.RateLimited, longWait)
	steps = slices.Insert(steps, 1, wait)
	c.do(t, steps)
	c.wantFiles(t)
	c.wantBody(t, 3, printed, "secnd line")
}

// lookAtPicture: an image that a tool gives reaches the model.
func lookAtPicture(t *testing.T, c *shift) {
	picture := drawing(t)
	raw, err := base64.StdEncoding.DecodeString(picture)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.work, "picture.png")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	c.do(t, []fakeprovider.Step{{ToolCalls: []fakeprovider.ToolCall{c.look(path)}}, {Text: farewell}})
	c.wantBody(t, 1, picture)
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
