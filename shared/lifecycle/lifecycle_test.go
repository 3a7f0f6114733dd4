package lifecycle

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal notes what happened in which order.
type journal struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) got() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// part notes its start, takes a while to stop, and notes that.
func (j *journal) part(name string, stopping time.Duration) Part {
	started := make(chan struct{})
	return Part{
		Name: name,
		Run: func(ctx context.Context) error {
			j.note("start " + name)
			close(started)
			<-ctx.Done()
			time.Sleep(stopping)
			j.note("stop " + name)
			return ctx.Err()
		},
		Ready: func(ctx context.Context) error {
			select {
			case <-started:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
}

func group(t *testing.T, cfg Config, parts ...Part) *Group {
	t.Helper()
	g, err := New(cfg, zerolog.Nop(), parts...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPartsStartInOrderAndStopInReverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		parts := []Part{j.part("a", time.Second), j.part("b", 2*time.Second), j.part("c", time.Second)}
		parts[0].Drain = func(context.Context) error { j.note("drain a"); return nil }
		parts[2].Drain = func(context.Context) error { j.note("drain c"); return nil }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		g := group(t, Config{}, parts...)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stop in good order returned %v", err)
		}
		want := []string{"start a", "start b", "start c", "drain c", "drain a", "stop c", "stop b", "stop a"}
		if got := j.got(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestAPartWaitsForTheOneBeforeToBeReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		begin := time.Now()
		slow := j.part("slow", 0)
		slow.Ready = func(context.Context) error { time.Sleep(5 * time.Second); return nil }
		next := Part{Name: "next", MayEnd: true, Run: func(context.Context) error {
			j.note("next after " + time.Since(begin).String())
			return errors.New("enough")
		}}
		err := group(t, Config{}, slow, next).Run(t.Context())
		if err == nil || err.Error() != "next: enough" {
			t.Errorf("got %v", err)
		}
		if got := j.got(); !slices.Contains(got, "next after 5s") {
			t.Errorf("got %v", got)
		}
	})
}

func TestTheFirstFailureStopsAllAndIsReturned(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name string
		bad  Part
		want string
		is   error
	}{
		{"fails", Part{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Second); return boom }}, "bad: boom", boom},
		{"fails at once", Part{Name: "bad", Run: func(context.Context) error { return boom }}, "bad: boom", boom},
		{"ends", Part{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Second); return nil }}, "bad: ended", ErrEnded},
		{"is never ready", Part{
			Name: "bad", Run: func(ctx context.Context) error { <-ctx.Done(); return nil },
			Ready: func(context.Context) error { return boom },
		}, "bad: become ready: boom", boom},
		{"fails before it is ready", Part{
			Name: "bad", Run: func(context.Context) error { return boom },
			Ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}, "bad: boom", boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var j journal
				err := group(t, Config{}, j.part("a", time.Second), tc.bad).Run(t.Context())
				if !errors.Is(err, tc.is) || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if got := j.got(); !slices.Contains(got, "stop a") {
					t.Errorf("the other part was not stopped: %v", got)
				}
			})
		})
	}
}

func TestAFailureEndsTheWaitForReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		stuck := j.part("stuck", 0)
		stuck.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		bad := Part{Name: "bad", Run: func(context.Context) error { time.Sleep(time.Minute); return errors.New("boom") }}
		if err := group(t, Config{}, bad, stuck).Run(t.Context()); err == nil || err.Error() != "bad: boom" {
			t.Errorf("got %v", err)
		}
	})
}

func TestPartsThatMayEndDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		once := Part{Name: "once", MayEnd: true, Run: func(context.Context) error { return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		if err := group(t, Config{}, once, j.part("a", 0)).Run(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("ran %v, want 1h", took)
		}
		if err := group(t, Config{}, once).Run(t.Context()); err != nil {
			t.Errorf("a group whose parts all ended: %v", err)
		}
	})
}

func TestTheDrainDeadlineIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		release := make(chan struct{})
		stuck := Part{Name: "stuck", Run: func(context.Context) error { <-release; return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		cancelAt := time.AfterFunc(time.Second, cancel)
		defer cancelAt.Stop()
		begin := time.Now()
		err := group(t, Config{Drain: 10 * time.Second}, j.part("a", 0), stuck).Run(ctx)
		if !errors.Is(err, ErrDrain) || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("got %v, want ErrDrain that names the part", err)
		}
		if took := time.Since(begin); took != 12*time.Second { // 1 s of work, the drain, 1 s of grace
			t.Errorf("took %v, want 12s", took)
		}
		if got := j.got(); !slices.Contains(got, "stop a") {
			t.Errorf("the part behind the stuck one was not told: %v", got)
		}
		close(release)
	})
}

func TestADrainThatHangsDoesNotHoldTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		a := j.part("a", 0)
		a.Drain = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		_ = group(t, Config{Drain: 5 * time.Second}, a).Run(ctx)
		if took := time.Since(begin); took != 6*time.Second {
			t.Errorf("took %v, want 6s", took)
		}
	})
}

func TestAPartThatFailsWhileStoppingIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		bad := Part{Name: "log", Run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("7 events left") }}
		if err := group(t, Config{}, bad).Run(ctx); err == nil || err.Error() != "log: stop: 7 events left" {
			t.Errorf("got %v", err)
		}
	})
}

func TestFirstSignalDrainsSecondExits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var j journal
		signals := make(chan os.Signal, 2)
		exited := make(chan int, 1)
		cfg := Config{Signals: signals, Exit: func(code int) { exited <- code }}
		done := make(chan error, 1)
		g := group(t, cfg, j.part("a", 20*time.Second))
		go func() { done <- g.Run(t.Context()) }()
		synctest.Wait()
		signals <- syscall.SIGTERM
		synctest.Wait()
		select {
		case code := <-exited:
			t.Fatalf("exited with %d at the first signal", code)
		default:
		}
		begin := time.Now()
		signals <- os.Interrupt
		if code := <-exited; code != 130 || time.Since(begin) != 0 {
			t.Errorf("exited with %d after %v, want 130 at once", code, time.Since(begin))
		}
		if err := <-done; err != nil { // the test's Exit returned, so the drain went on
			t.Error(err)
		}
	})
}

func TestNothingStartsAfterTheStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := Part{Name: "a", Run: func(context.Context) error { t.Error("started"); return nil }}
	if err := group(t, Config{}, p).Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestBadPartsAreRefused(t *testing.T) {
	t.Parallel()
	run := func(context.Context) error { return nil }
	for _, parts := range [][]Part{{{Run: run}}, {{Name: "a"}}, {{Name: "a", Run: run}, {Name: "a", Run: run}}} {
		if _, err := New(Config{}, zerolog.Nop(), parts...); err == nil {
			t.Errorf("%d parts: no error", len(parts))
		}
	}
}
