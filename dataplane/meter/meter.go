package meter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// ErrUnavailable is in the tree of every error with which Begin refuses an
// attempt because its usage could not be recorded. The call is answered with
// `metering_unavailable`.
var ErrUnavailable = errors.New("usage cannot be recorded")

// SyncMode says what a settlement waits for.
type SyncMode uint8

// The sync modes.
const (
	// SyncGroup lets records reach the disk within LogConfig.SyncInterval.
	// A power cut can lose that much.
	SyncGroup SyncMode = iota
	// SyncAlways makes Settle wait until the record is on disk.
	SyncAlways
)

// Config tunes a Meter. A zero field takes the default it documents.
type Config struct {
	// Sync says what Settle waits for. Default SyncGroup.
	Sync SyncMode

	// RetryEvery is how often Run tries again to write settlements that the log
	// refused. Default 1 s.
	RetryEvery time.Duration
}

// Meter records attempts in the node's log. All methods are safe for concurrent use.
type Meter struct {
	log     *Log
	cfg     Config
	logger  zerolog.Logger
	metrics *meterMetrics
	open    atomic.Int64
	scratch sync.Pool

	mu     sync.Mutex // guards the fields below
	unsaid []*Attempt // settled, and refused by the log
}

// scratch is what encoding one record needs.
type scratch struct {
	buf      []byte
	intent   ledgerv1.Intent
	progress ledgerv1.Progress
	settle   ledgerv1.Settle
}

// New returns a Meter that writes to log. Recover must have ended before the
// first Begin.
func New(log *Log, cfg Config, logger zerolog.Logger, meter metric.Meter) (*Meter, error) {
	if cfg.RetryEvery == 0 {
		cfg.RetryEvery = time.Second
	}
	if cfg.RetryEvery < 0 || cfg.Sync > SyncAlways {
		return nil, fmt.Errorf("meter configuration %+v is out of range", cfg)
	}
	m := &Meter{
		log: log, cfg: cfg, logger: logger.With().Str("component", "meter").Logger(),
		scratch: sync.Pool{New: func() any { return &scratch{buf: make([]byte, 0, 1024)} }},
	}
	var err error
	if m.metrics, err = newMeterMetrics(m, meter); err != nil {
		return nil, fmt.Errorf("create meter metrics: %w", err)
	}
	return m, nil
}

// Ready returns nil while attempts can be recorded, and otherwise an error that
// is ErrUnavailable and says why and what to do.
func (m *Meter) Ready() error {
	if err := m.log.Refusing(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// Open returns the number of attempts begun and not yet settled in the log.
func (m *Meter) Open() int64 { return m.open.Load() }

// Run writes settlements that the log refused, until ctx ends. It returns nil.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(m.cfg.RetryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.retry()
			return nil
		case <-tick.C:
			m.retry()
		}
	}
}

func (m *Meter) retry() {
	m.mu.Lock()
	waiting := m.unsaid
	m.unsaid = nil
	m.mu.Unlock()
	for _, a := range waiting {
		a.mu.Lock()
		_ = a.write() // queued again there
		a.mu.Unlock()
	}
}

// Attempt is one attempt under way. Its methods are safe for concurrent use,
// and each does nothing once the attempt is settled.
type Attempt struct {
	m *Meter

	mu       sync.Mutex // guards the fields below
	event    *ledgerv1.UsageEvent
	progress *ledgerv1.Units
	served   string
	at       place // of the INTENT
	settled  bool  // the outcome is fixed
	written  bool  // and in the log
	failed   bool  // and was refused by the log at least once
}

// Begin records that an attempt is about to be sent. It returns once the INTENT
// is in the kernel; only then may the first byte go upstream.
//
// intent identifies the attempt: request id, attempt number, who asked, where it
// goes, prices pinned. units hold the estimate, charged_units what the customer
// is charged if the outcome stays unknown (see UnknownCharge; unset charges
// nothing). Begin takes it over; the caller must not touch it again.
//
// Every attempt must end in Settle, Release or Close; `defer a.Close()` makes
// sure of it. Begin fails with ErrUnavailable if the attempt cannot be recorded.
func (m *Meter) Begin(ctx context.Context, intent *ledgerv1.UsageEvent) (*Attempt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if intent.GetRequestId() == "" {
		return nil, errors.New("begin attempt: the intent has no request id")
	}
	intent.ModelRequested = clip(intent.ModelRequested, 512)
	intent.ModelRouted = clip(intent.ModelRouted, 512)
	intent.ModelServed = clip(intent.ModelServed, 512)
	intent.ServiceTier = clip(intent.ServiceTier, 63)
	if intent.ChargedUnits == nil {
		intent.ChargedUnits = &ledgerv1.Units{}
	}
	a := &Attempt{m: m, event: intent}
	if err := a.intend(false); err != nil {
		m.metrics.refused.Add(ctx, 1)
		return nil, fmt.Errorf("begin attempt: %w: %w", ErrUnavailable, err)
	}
	m.open.Add(1)
	return a, nil
}

// intend writes the INTENT, the first time or in a newer segment. The caller
// holds mu or is the only one to know a.
func (a *Attempt) intend(again bool) error {
	s := a.m.scratch.Get().(*scratch)
	defer a.m.scratch.Put(s)
	s.intent.Event = a.event
	var err error
	s.buf, err = proto.MarshalOptions{}.MarshalAppend(s.buf[:0], &s.intent)
	s.intent.Event = nil
	if err != nil {
		return fmt.Errorf("encode intent: %w", err)
	}
	at, err := a.m.log.append(TypeIntent, s.buf, a.at, appendOpts{pin: true, underWay: again})
	if err != nil {
		return err
	}
	a.at = at
	return nil
}

// Progress is the usage of a stream so far.
type Progress struct {
	// Units so far, prompt included.
	Units *ledgerv1.Units
	// Reported says that the provider gave the numbers.
	Reported bool
	// ModelServed is the model the provider names, if it has.
	ModelServed string
}

// Progress records the usage so far, for the case that nothing more is heard.
// The relay calls it at most every 5 s. An error costs precision after a crash
// and nothing else.
func (a *Attempt) Progress(p Progress) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.settled {
		return nil
	}
	a.progress, a.served = sound(p.Units), clip(p.ModelServed, 512)
	// A segment is kept as long as it holds the INTENT of an open attempt.
	// Writing it anew keeps long streams from holding back the whole log.
	if a.m.log.behind(a.at.seg) {
		if err := a.intend(true); err != nil {
			return fmt.Errorf("record progress: %w", err)
		}
	}
	s := a.m.scratch.Get().(*scratch)
	defer a.m.scratch.Put(s)
	s.progress.IntentSeq, s.progress.Units = a.at.seq, a.progress
	s.progress.ModelServed, s.progress.Reported = a.served, p.Reported
	var err error
	s.buf, err = proto.MarshalOptions{}.MarshalAppend(s.buf[:0], &s.progress)
	s.progress.Units = nil
	if err != nil {
		return fmt.Errorf("encode progress: %w", err)
	}
	if _, err := a.m.log.append(TypeProgress, s.buf, place{}, appendOpts{}); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}

// Settlement is how an attempt ended. Texts are cut to what the ledger takes.
type Settlement struct {
	Outcome ledgerv1.AttemptOutcome
	// Count is what is known of the usage; what it is booked with, Assess says.
	Count Count
	// Charged is what the customer is charged for where that differs from what
	// the provider is owed for. Nil charges the same, and for an unknown
	// outcome what the INTENT said.
	Charged *ledgerv1.Units

	ModelServed       string // as the provider names it
	ServiceTier       string // as the provider names it; empty keeps the INTENT's
	ProviderRequestID string
	ErrorClass        string    // of an attempt that failed
	UpstreamStatus    int       // HTTP status, 0 without an answer
	At                time.Time // when the attempt ended; zero means now
}

// Settle records how the attempt ended. It returns once the SETTLE is in the
// kernel, or on disk with SyncAlways; only then may the last bytes of the
// response be released. The first call decides: later ones, of Settle, Release
// or Close, do nothing, except that they try again to write what the log refused.
//
// When Settle fails, Run keeps trying; if the process ends before that works,
// the next one finds the attempt open and books it as unknown.
func (a *Attempt) Settle(s Settlement) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.settled {
		a.settled = true
		a.decide(s)
	}
	return a.write()
}

// Release records that no byte of the attempt was sent. Nothing is due and the
// ledger gets no row.
func (a *Attempt) Release() error {
	return a.Settle(Settlement{Outcome: ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_NOT_SENT})
}

// Close settles an attempt whose end nobody has told as unknown, with the last
// progress. It is meant for defer: a panic leaves no attempt open.
func (a *Attempt) Close() error {
	return a.Settle(Settlement{Outcome: ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN})
}

// decide turns the intent into the event that goes to the ledger, or into none.
// The caller holds mu.
func (a *Attempt) decide(s Settlement) {
	if s.At.IsZero() {
		s.At = time.Now()
	}
	a.m.metrics.settle(s.Outcome)
	if s.Outcome == ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNSPECIFIED {
		s.Outcome = ledgerv1.AttemptOutcome_ATTEMPT_OUTCOME_UNKNOWN
	}
	if s.ModelServed == "" {
		s.ModelServed = a.served
	}
	if s.Count.Counted == nil && s.Count.Reported == nil {
		s.Count.Counted = a.progress
	}
	if !conclude(a.event, s) {
		a.event = nil
	}
}

// write puts the SETTLE into the log. The caller holds mu.
func (a *Attempt) write() error {
	if a.written {
		return nil
	}
	sc := a.m.scratch.Get().(*scratch)
	defer a.m.scratch.Put(sc)
	sc.settle.IntentSeq, sc.settle.Event = a.at.seq, a.event
	var err error
	sc.buf, err = proto.MarshalOptions{}.MarshalAppend(sc.buf[:0], &sc.settle)
	sc.settle.Event = nil
	if err != nil {
		return fmt.Errorf("settle attempt: encode: %w", err)
	}
	at, err := a.m.log.append(TypeSettle, sc.buf, a.at, appendOpts{})
	if err != nil {
		a.m.later(a, err)
		return fmt.Errorf("settle attempt: %w", err)
	}
	a.written = true
	a.event, a.progress, a.at.seg = nil, nil, nil
	a.m.open.Add(-1)
	if a.m.cfg.Sync == SyncAlways {
		if err := a.m.log.syncTo(at.seq); err != nil {
			return fmt.Errorf("settle attempt: %w", err)
		}
	}
	return nil
}

// later queues an attempt whose SETTLE the log refused. The number of attempts
// under way bounds the queue.
func (m *Meter) later(a *Attempt, err error) {
	if !a.failed {
		a.failed = true
		m.logger.Error().Err(err).Str("request_id", a.event.GetRequestId()).Int32("attempt", a.event.GetAttempt()).
			Msg("settlement refused by the usage log, trying again")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.unsaid {
		if w == a {
			return
		}
	}
	m.unsaid = append(m.unsaid, a)
}

// conclude completes the event of an INTENT with how the attempt ended. It
// reports false where the ledger gets no row.
func conclude(e *ledgerv1.UsageEvent, s Settlement) bool {
	v := Assess(s.Outcome, s.Count)
	if !v.Row {
		return false
	}
	e.Kind, e.Outcome, e.UsageSource = v.Kind, s.Outcome, v.Source
	hold := v.Kind == ledgerv1.EntryKind_ENTRY_KIND_HOLD
	switch {
	case v.Units == nil:
		e.Units = sound(e.Units)
	case hold && promptOf(v.Units) == 0:
		setPrompt(v.Units, sound(e.Units))
		e.Units = v.Units
	default:
		e.Units = v.Units
	}
	if s.Charged != nil {
		e.ChargedUnits = sound(s.Charged)
	} else if !hold {
		e.ChargedUnits = nil
	}
	if s.ModelServed != "" {
		e.ModelServed = clip(s.ModelServed, 512)
	}
	if s.ServiceTier != "" {
		e.ServiceTier = clip(s.ServiceTier, 63)
	}
	e.ProviderRequestId = clip(s.ProviderRequestID, 256)
	e.ErrorClass = clip(s.ErrorClass, 63)
	e.UpstreamStatus = int32(min(max(s.UpstreamStatus, 0), 999))
	e.OccurredAt = timestamppb.New(s.At)
	return true
}

// clip cuts s to at most n bytes of valid UTF-8. Providers choose these texts,
// and a settlement must not be refused for them.
func clip(s string, n int) string {
	if len(s) <= n && utf8.ValidString(s) {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
