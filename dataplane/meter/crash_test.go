package meter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// The tests of this file run the test binary again as a node that is killed with
// SIGKILL, and compare what its upstream and its clients saw with the ledger.
//
// The child writes what the outside world sees to standard output: "sent" when
// an upstream gets an attempt, "done" when a client has the last byte. What is
// in the pipe when the child dies, the parent still reads.

const (
	childEnv = "METER_TEST_CHILD"      // role of the child
	dirEnv   = "METER_TEST_CHILD_DIR"  // directory of its log and its ledger
	tagEnv   = "METER_TEST_CHILD_TAG"  // makes its request ids differ
	stepEnv  = "METER_TEST_CHILD_STEP" // where it kills itself
)

// The steps of an attempt at which a child kills itself, in order.
var crashSteps = []string{
	"before intent", "within intent", "after intent", "after sent", "within progress", "after progress",
	"within settle", "after settle", "after done",
	"before ingest commit", "after ingest commit", "within ack",
	"never",
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func playChild(role string) error {
	dir, tag, step := os.Getenv(dirEnv), os.Getenv(tagEnv), os.Getenv(stepEnv)
	l, err := Open(filepath.Join(dir, "log"), crashConfig(), zerolog.Nop())
	if err != nil {
		return err
	}
	m, err := New(l, Config{}, zerolog.Nop(), noMetrics)
	if err != nil {
		return err
	}
	if role == "recover" {
		dieInWrite(l, TypeSettle, 3)
	}
	if _, err := m.Recover(context.Background()); err != nil {
		return err
	}
	switch role {
	case "step":
		return crashAt(dir, l, m, tag, step)
	case "load":
		return crashLoad(dir, l, m, tag)
	default:
		return nil
	}
}

func crashConfig() LogConfig {
	return LogConfig{SegmentBytes: 16 << 10, MaxBytes: 1 << 30, SyncInterval: time.Millisecond}
}

// dieInWrite makes the n-th record of type t the last thing the process does:
// half of it reaches the file.
func dieInWrite(l *Log, t Type, n int) {
	l.writeAt = func(f *os.File, b []byte, off int64) (int, error) {
		if off > 0 && len(b) > recordHeader && Type(b[16]) == t {
			if n--; n == 0 {
				_, _ = f.WriteAt(b[:len(b)/2], off)
				die()
			}
		}
		return f.WriteAt(b, off)
	}
}

// crashAt does ten attempts and ships them; in the fifth it dies at step.
func crashAt(dir string, l *Log, m *Meter, tag, step string) error {
	at := func(i int, here string) {
		if i == 5 && step == here {
			die()
		}
	}
	for i := range 10 {
		if name, ok := strings.CutPrefix(step, "within "); ok && i == 5 && name != "ack" {
			dieInWrite(l, map[string]Type{"intent": TypeIntent, "progress": TypeProgress, "settle": TypeSettle}[name], 1)
		}
		id := fmt.Sprintf("req_%s_%d", tag, i)
		at(i, "before intent")
		a, err := m.Begin(context.Background(), intent(id, 1))
		if err != nil {
			return err
		}
		at(i, "after intent")
		fmt.Println("sent", id)
		at(i, "after sent")
		if err := a.Progress(Progress{Units: &units{Input: 5, Output: 1}}); err != nil {
			return err
		}
		at(i, "after progress")
		if err := a.Settle(Settlement{Outcome: completed, Count: Count{Reported: &units{Input: 7, Output: 2}}}); err != nil {
			return err
		}
		at(i, "after settle")
		fmt.Println("done", id)
		at(i, "after done")
	}
	ledger := &fileLedger{path: filepath.Join(dir, "ledger"), step: step}
	if step == "within ack" {
		commits := 0
		ledger.afterCommit = func() {
			if commits++; commits == 2 { // half of a slot is all that gets written
				_, _ = l.ack.file.WriteAt([]byte{9, 9, 9, 9, 9}, int64(l.ack.slot)*ackDistance)
				die()
			}
		}
	}
	s, err := NewShipper(l, ledger, "nod_1", ShipperConfig{BatchEvents: 3}, zerolog.Nop(), noMetrics)
	if err != nil {
		return err
	}
	_, err = s.Drain(context.Background())
	return err
}

// crashLoad does attempts on several goroutines, and ships, until it is killed.
func crashLoad(dir string, l *Log, m *Meter, tag string) error {
	s, err := NewShipper(l, &fileLedger{path: filepath.Join(dir, "ledger")}, "nod_1", ShipperConfig{Linger: time.Millisecond}, zerolog.Nop(), noMetrics)
	if err != nil {
		return err
	}
	go func() { _ = l.Run(context.Background()) }()
	go func() { _ = s.Run(context.Background()) }()
	var wg sync.WaitGroup
	var n atomic.Int64
	for range 4 {
		wg.Go(func() {
			for {
				id := fmt.Sprintf("req_%s_%d", tag, n.Add(1))
				a, err := m.Begin(context.Background(), intent(id, 1))
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString("sent " + id + "\n")
				_ = a.Progress(Progress{Units: &units{Input: 5, Output: 1}})
				if err := a.Settle(Settlement{Outcome: completed, Count: Count{Reported: &units{Input: 7, Output: 2}}}); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString("done " + id + "\n")
			}
		})
	}
	wg.Wait()
	return nil
}

// fileLedger is a ledger that outlives its process. A row is a line; the reader
// takes a row that stands there twice as one, as the primary key would. A kill can
// tear a line: a row counts if it has its end, and each batch starts on a new line.
type fileLedger struct {
	path, step  string
	afterCommit func()
}

func (f *fileLedger) IngestUsage(_ context.Context, req *ledgerv1.IngestUsageRequest) (*ledgerv1.IngestUsageResponse, error) {
	if f.step == "before ingest commit" {
		die()
	}
	var b bytes.Buffer
	b.WriteByte('\n')
	for _, e := range req.Events {
		fmt.Fprintf(&b, "%s %d %d %d end\n", rowKey(e), e.Units.Input, e.Units.Output, e.LogSeq)
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(b.Bytes()); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if f.step == "after ingest commit" {
		die()
	}
	if f.afterCommit != nil {
		f.afterCommit()
	}
	return &ledgerv1.IngestUsageResponse{LastSeq: req.LastSeq}, nil
}

// world is what came out of a child.
type world struct{ sent, done map[string]bool }

// runChild runs a child to its end, or kills it once it has written lines lines.
// It reports whether the child was killed.
func runChild(t *testing.T, w *world, dir, role, tag, step string, lines int) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role, dirEnv+"="+dir, tagEnv+"="+tag, stepEnv+"="+step)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for sc := bufio.NewScanner(out); sc.Scan(); {
		what, id, ok := strings.Cut(sc.Text(), " ")
		switch {
		case ok && what == "sent":
			w.sent[id] = true
		case ok && what == "done":
			w.done[id] = true
		}
		if n++; n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	exit, _ := errors.AsType[*exec.ExitError](err)
	killed = exit != nil && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if ctx.Err() != nil || err != nil && !killed {
		t.Fatalf("child %s (%s) ended with %v: %s", role, step, err, stderr.String())
	}
	return killed
}

// checkLedger ships what is left and compares the ledger with the world.
// Attempts whose INTENT was written and that were killed before they were sent
// may stand in the ledger as unknown; at most extra of them.
func checkLedger(t *testing.T, w *world, dir string, extra int) {
	t.Helper()
	l := mustOpen(t, filepath.Join(dir, "log"), crashConfig())
	m := mustMeter(t, l, Config{})
	s := mustShipper(t, l, &fileLedger{path: filepath.Join(dir, "ledger")}, ShipperConfig{})
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.Open() != 0 {
		t.Errorf("%d attempts are open", m.Open())
	}
	b, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	kinds, rows := map[string][]string{}, map[string]string{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, " end\n") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("ledger holds %q", line)
		}
		row := strings.Join(f[1:3], " ")
		if before, twice := rows[f[0]]; twice && before != row {
			t.Errorf("row %s came as %s and as %s", f[0], before, row)
		}
		if _, twice := rows[f[0]]; !twice {
			k := strings.Split(f[0], "/")
			kinds[k[0]] = append(kinds[k[0]], k[2])
		}
		rows[f[0]] = row
	}
	for id := range w.sent {
		if len(kinds[id]) != 1 {
			t.Errorf("%s was sent and has the rows %v, want one", id, kinds[id])
		}
	}
	for id := range w.done {
		if !slices.Equal(kinds[id], []string{settlement.String()}) || rows[id+"/1/"+settlement.String()+"/0"] != "7 2" {
			t.Errorf("%s was answered and has the rows %v, want a settlement of 7 and 2", id, kinds[id])
		}
	}
	more := 0
	for id, k := range kinds {
		if w.sent[id] {
			continue
		}
		more++
		if !slices.Equal(k, []string{hold.String()}) {
			t.Errorf("%s was not sent and has the rows %v, want at most a hold", id, k)
		}
	}
	if more > extra {
		t.Errorf("%d attempts stand in the ledger and were not sent, want at most %d", more, extra)
	}
}

func TestL3KillAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range crashSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir, w := t.TempDir(), &world{map[string]bool{}, map[string]bool{}}
			for round := range 3 {
				if killed := runChild(t, w, dir, "step", strconv.Itoa(round), step, 0); killed != (step != "never") {
					t.Fatalf("killed is %v", killed)
				}
			}
			if want := 3 * 5; len(w.done) < want {
				t.Fatalf("%d attempts were answered, want at least %d", len(w.done), want)
			}
			extra := 0
			if step == "after intent" {
				extra = 3
			}
			checkLedger(t, w, dir, extra)
		})
	}
}

func TestL3KillUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	dir, w := t.TempDir(), &world{map[string]bool{}, map[string]bool{}}
	for round := range rounds {
		if !runChild(t, w, dir, "load", strconv.Itoa(round), "", 1+rand.IntN(2000)) {
			t.Fatal("the child ended by itself")
		}
	}
	t.Logf("%d attempts sent, %d answered, %d kills", len(w.sent), len(w.done), rounds)
	checkLedger(t, w, dir, 4*rounds)
}

func TestL3KillDuringRecovery(t *testing.T) {
	t.Parallel()
	dir, w := t.TempDir(), &world{map[string]bool{}, map[string]bool{}}
	l := mustOpen(t, filepath.Join(dir, "log"), crashConfig())
	m := mustMeter(t, l, Config{})
	for i := range 10 {
		id := fmt.Sprintf("req_open_%d", i)
		mustBegin(t, m, intent(id, 1))
		w.sent[id] = true
	}
	mustClose(t, l)
	for start := range 6 { // each settles two and dies in the third, until two are left
		if killed := runChild(t, w, dir, "recover", "", "", 0); killed != (start < 4) {
			t.Fatalf("start %d: killed is %v", start, killed)
		}
	}
	checkLedger(t, w, dir, 0)
	b, err := os.ReadFile(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(" end\n")); n != 10 {
		t.Errorf("%d events were shipped, want each of the 10 attempts once", n)
	}
}
