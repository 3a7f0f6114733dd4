// Package lifecycle runs the parts of a process: started in order, drained and
// stopped in reverse, the first failure ending all.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// DefaultDrain is the time all parts together get to end.
const DefaultDrain = 30 * time.Second

// Errors of this package; each is in the tree of what Run returns.
var (
	// ErrEnded says that a part ended without an error before it was told to.
	ErrEnded = errors.New("ended although nobody stopped it")
	// ErrDrain says that the drain deadline passed before all parts had ended.
	ErrDrain = errors.New("still running at the drain deadline")
)

// Part is one piece of a process that runs until it is told to stop.
type Part struct {
	// Name appears in errors and logs.
	Name string

	// Run does the work and blocks until ctx ends. It then finishes what it has
	// begun and returns; context.Cause(ctx) is what stopped it. An error that is
	// only ctx's own counts as none.
	Run func(ctx context.Context) error

	// Ready, if set, blocks until the part can serve those that start after it,
	// or until ctx ends. Without it the next part starts at once.
	Ready func(ctx context.Context) error

	// Drain, if set, is called before any part is stopped: stop accepting, answer
	// "not ready". Drains run in reverse order, one after the other, and share
	// the drain deadline, after which ctx ends.
	Drain func(ctx context.Context) error

	// MayEnd allows Run to return nil while the others go on.
	MayEnd bool
}

// Config tunes a Group. A zero field takes the default it documents.
type Config struct {
	// Drain is the time from the beginning of the stop to its deadline, for all
	// drains and parts together. Default 30 s.
	Drain time.Duration

	// Signals stop the group: the first drains it, the second calls Exit. nil
	// means that only the context stops it. Subscribe with signal.Notify and a
	// buffer of 2.
	Signals <-chan os.Signal

	// Exit ends the process at the second signal, with status 130. Default
	// os.Exit.
	Exit func(code int)
}

// Group runs parts. Make it with New; it runs once.
type Group struct {
	cfg   Config
	log   zerolog.Logger
	parts []Part
}

// New returns a group that has started nothing. It fails if a part has no name
// or no Run, or if two share a name.
func New(cfg Config, log zerolog.Logger, parts ...Part) (*Group, error) {
	if cfg.Drain <= 0 {
		cfg.Drain = DefaultDrain
	}
	if cfg.Exit == nil {
		cfg.Exit = os.Exit
	}
	seen := map[string]bool{}
	for i, p := range parts {
		switch {
		case p.Name == "" || p.Run == nil:
			return nil, fmt.Errorf("lifecycle: part %d (%q) needs a name and a Run", i, p.Name)
		case seen[p.Name]:
			return nil, fmt.Errorf("lifecycle: two parts are named %q", p.Name)
		}
		seen[p.Name] = true
	}
	return &Group{cfg, log.With().Str("component", "lifecycle").Logger(), parts}, nil
}

// running is a started part.
type running struct {
	Part
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what Run returned; read after done
}

// errStop is the cause with which a part is stopped in good order.
var errStop = errors.New("the process stops")

// Run starts the parts in order and blocks until all have ended. It stops them
// when ctx ends, at the first signal, or when a part fails or ends early; the
// part started last is stopped first, and each has ended before the next is
// told. At the drain deadline all that are left are told at once and get one
// more second.
//
// Run returns nil after a stop in good order. Otherwise the error begins with
// the name of the part that failed first. If parts are left at the end, the
// error is ErrDrain with their names, and their goroutines are abandoned.
func (g *Group) Run(ctx context.Context) error {
	signaled, quit := g.watchSignals()
	defer quit()

	r := &run{Group: g, signaled: signaled, ended: make(chan *running, len(g.parts)), left: len(g.parts)}
	first := r.startAll(ctx)
	if first == nil {
		first = r.wait(ctx)
	}
	return r.stopAll(ctx, first)
}

// run is what one Run keeps track of; only its goroutine touches it.
type run struct {
	*Group
	started  []*running
	signaled <-chan struct{} // closed at the first signal
	ended    chan *running   // every part whose Run has returned
	left     int             // parts that were not received from ended
}

// watchSignals returns a channel that is closed at the first signal, and a
// function that ends the watch.
func (g *Group) watchSignals() (<-chan struct{}, func()) {
	signaled, quit := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case sig, ok := <-g.cfg.Signals:
				switch {
				case !ok:
					return
				case n == 0:
					g.log.Info().Stringer("signal", sig).Dur("drain_ms", g.cfg.Drain).Msg("stopping, a second signal ends the process at once")
					close(signaled)
				default:
					g.log.Warn().Stringer("signal", sig).Msg("second signal, ending at once")
					g.cfg.Exit(130)
					return
				}
			}
		}
	})
	return signaled, func() { close(quit); wg.Wait() }
}

// startAll starts part after part. It returns the failure that kept it from
// finishing, or nil.
func (g *run) startAll(ctx context.Context) error {
	for _, p := range g.parts {
		if ctx.Err() != nil || closed(g.signaled) {
			return nil
		}
		// Not a child of ctx: a part hears of the stop in its turn.
		partCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		r := &running{Part: p, cancel: cancel, done: make(chan struct{})}
		g.started = append(g.started, r)
		g.log.Debug().Str("part", p.Name).Msg("part starts")
		go func() {
			r.err = r.Run(partCtx)
			close(r.done)
			g.ended <- r
		}()
		if p.Ready == nil {
			continue
		}
		if err := g.awaitReady(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits for r, and gives up when another part fails meanwhile or,
// without an error, when the group is to stop.
func (g *run) awaitReady(ctx context.Context, r *running) error {
	readyCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- r.Ready(readyCtx) }()
	for {
		select {
		case err := <-ready:
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("%s: become ready: %w", r.Name, err)
			}
			return nil
		case other := <-g.ended:
			g.left--
			err := other.failure(ctx)
			if err == nil && other != r {
				continue
			}
			cancel()
			_ = <-ready
			return err
		case <-g.signaled:
			cancel()
			_ = <-ready
			return nil
		}
	}
}

// wait blocks until something stops the group and returns the failure, if that
// is what it was.
func (g *run) wait(ctx context.Context) error {
	for g.left > 0 {
		select {
		case r := <-g.ended:
			g.left--
			if err := r.failure(ctx); err != nil {
				return err
			}
		case <-g.signaled:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil // every part was free to end, and did
}

// failure is what is wrong with a part that ended before it was stopped.
func (r *running) failure(ctx context.Context) error {
	switch {
	case r.err == nil && (r.MayEnd || ctx.Err() != nil):
		return nil
	case r.err == nil:
		return fmt.Errorf("%s: %w", r.Name, ErrEnded)
	}
	return fmt.Errorf("%s: %w", r.Name, r.err)
}

// stopAll drains and stops what was started, last first.
func (g *run) stopAll(ctx context.Context, first error) error {
	started := g.started
	if first != nil {
		g.log.Error().Err(first).Msg("stopping after a failure")
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Drain)
	defer cancel()
	errs := []error{first}
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		if r.Drain == nil || closed(r.done) {
			continue
		}
		if err := bounded(deadline, r.Drain); err != nil && deadline.Err() == nil {
			errs = append(errs, fmt.Errorf("%s: drain: %w", r.Name, err))
		}
	}
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		ranUntilNow := !closed(r.done)
		r.cancel(errStop)
		select {
		case <-r.done:
		case <-deadline.Done():
			return errors.Join(append(errs, g.abandon(started))...)
		}
		g.log.Debug().Str("part", r.Name).Msg("part ended")
		switch {
		case r.err == nil || r.stopped():
		case ranUntilNow:
			errs = append(errs, fmt.Errorf("%s: stop: %w", r.Name, r.err))
		case !errors.Is(first, r.err): // failed beside the first, whose consequence it may be
			g.log.Warn().Str("part", r.Name).Err(r.err).Msg("part had failed too")
		}
	}
	return errors.Join(errs...)
}

// bounded calls f and returns when it does or when ctx ends, whichever is first:
// a drain that ignores its context must not hold up the process.
func bounded(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopped reports whether the part's error only says that it was stopped.
func (r *running) stopped() bool {
	return errors.Is(r.err, context.Canceled) || errors.Is(r.err, errStop)
}

// abandon stops all that still run at once, gives them a second, and returns
// ErrDrain with the names of those that had to be told.
func (g *run) abandon(started []*running) error {
	var late []string
	for _, r := range started {
		if !closed(r.done) {
			late = append(late, r.Name)
		}
		r.cancel(ErrDrain)
	}
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	for _, r := range started {
		select {
		case <-r.done:
		case <-grace.C:
			grace.Reset(0) // spent for the others as well
		}
	}
	if len(late) == 0 { // the last ended just at the deadline
		return nil
	}
	g.log.Error().Strs("parts", late).Msg("drain deadline passed")
	return fmt.Errorf("%s: %w", strings.Join(late, ", "), ErrDrain)
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
