// Package requestlog carries one row a request to the control plane. Requests never wait
// for it: a row that finds no room is lost and counted. It is apart from the usage log, so
// that logs never take the room of money.
package requestlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
)

// Ingester stores batches.
type Ingester interface {
	IngestLogs(ctx context.Context, batch *ledgerv1.IngestLogsRequest) (*ledgerv1.IngestLogsResponse, error)
}

// Config tunes a Log. A zero field takes the default it documents.
type Config struct {
	// Memory bounds the rows that wait to be written to the spool, in bytes. Default 16 MiB.
	Memory int64
	// Spool bounds the rows on disk, in bytes; the oldest go first. Default 1 GiB.
	Spool int64
	// Batch is how many rows are sent at a time. Default 500, at most 1,000.
	Batch int
	// Linger is how long a row waits for others. Default 1 s.
	Linger time.Duration
}

const (
	batchBytes = 2 << 20
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
	sendTime   = 15 * time.Second

	// foldedAbove is how many equal refusals of one caller a second have rows of their own.
	foldedAbove = 10
	// maxFolds bounds the callers and refusals that are told apart.
	maxFolds = 4096
)

// Log takes rows, keeps them on disk, and sends them. Safe for concurrent use.
type Log struct {
	cfg   Config
	log   zerolog.Logger
	spool *spool
	moved chan struct{} // holds one when rows wait
	count metric.Int64Counter

	mu      sync.Mutex
	waiting []*ledgerv1.RequestRecord // guarded by mu
	bytes   int64                     // of waiting; guarded by mu
	lost    int64                     // since the last batch that was stored; guarded by mu
	folds   map[fold]*folded          // guarded by mu
}

// fold is what refusals have in common that are equal.
type fold struct{ tenant, key, model, code string }

type folded struct {
	second int64
	seen   int64
	row    *ledgerv1.RequestRecord // stands for those above the bound; nil for none
}

// Open opens the spool in dir, with what an earlier run left there.
func Open(dir string, cfg Config, log zerolog.Logger, m metric.Meter) (*Log, error) {
	if cfg.Memory <= 0 {
		cfg.Memory = 16 << 20
	}
	if cfg.Spool <= 0 {
		cfg.Spool = 1 << 30
	}
	if cfg.Batch <= 0 || cfg.Batch > 1000 {
		cfg.Batch = 500
	}
	if cfg.Linger <= 0 {
		cfg.Linger = time.Second
	}
	sp, err := openSpool(dir, cfg.Spool)
	if err != nil {
		return nil, err
	}
	count, err := m.Int64Counter("gateway.requestlog.events", metric.WithUnit("{row}"), metric.WithDescription("Rows of the request log, by what became of them."))
	if err != nil {
		return nil, fmt.Errorf("create metrics: %w", err)
	}
	return &Log{
		cfg: cfg, log: log.With().Str("component", "request_log").Logger(), spool: sp, moved: make(chan struct{}, 1), count: count,
		folds: make(map[fold]*folded),
	}, nil
}

var (
	shipped = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", "shipped")))
	dropped = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", "dropped")))
)

// Put takes a row, which must not be changed afterwards. It never blocks. refused says
// that the gateway refused the request itself: of many equal ones within a second, one
// row stands for all but the first.
func (l *Log) Put(r *ledgerv1.RequestRecord, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused && l.fold(r) {
		return
	}
	l.put(r)
}

// put queues a row. The caller holds l.mu.
func (l *Log) put(r *ledgerv1.RequestRecord) {
	size := int64(proto.Size(r)) + rowOverhead
	if l.bytes+size > l.cfg.Memory {
		l.drop(max(r.GetCount(), 1))
		return
	}
	l.waiting = append(l.waiting, r)
	l.bytes += size
	select {
	case l.moved <- struct{}{}:
	default:
	}
}

// rowOverhead is what a row in memory costs beside its bytes: its structures.
const rowOverhead = 512

// drop counts lost rows. The caller holds l.mu.
func (l *Log) drop(n int64) {
	l.lost += n
	l.count.Add(context.Background(), n, dropped)
}

// fold reports that another row stands for this one. The caller holds l.mu.
func (l *Log) fold(r *ledgerv1.RequestRecord) bool {
	key := fold{r.GetTenantId(), r.GetApiKeyId(), r.GetModelRequested(), r.GetCode()}
	second := r.GetStartTime().GetSeconds()
	f := l.folds[key]
	if f == nil {
		if len(l.folds) >= maxFolds {
			return false
		}
		f = &folded{second: second}
		l.folds[key] = f
	}
	if f.second != second {
		l.unfold(f)
		f.second, f.seen = second, 0
	}
	if f.seen++; f.seen <= foldedAbove {
		return false
	}
	if f.row == nil {
		f.row = r
		f.row.Count = 0
	}
	f.row.Count++
	return true
}

// unfold queues the row that stands for many. The caller holds l.mu.
func (l *Log) unfold(f *folded) {
	if f.row != nil {
		l.put(f.row)
		f.row = nil
	}
}

// settle queues rows of refusals whose second is over.
func (l *Log) settle(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, f := range l.folds {
		if f.second < now.Unix() {
			l.unfold(f)
			delete(l.folds, key)
		}
	}
}

// Run writes rows to the spool and sends them until ctx ends. What cannot be sent then
// stays in the spool.
func (l *Log) Run(ctx context.Context, node string, to Ingester) error {
	backoff := time.Duration(0)
	tick := time.NewTicker(l.cfg.Linger)
	defer tick.Stop()
	var again time.Time
	for {
		select {
		case <-ctx.Done():
			l.settle(time.Now().Add(time.Minute))
			l.write()
			return l.spool.close()
		case <-l.moved:
		case <-tick.C:
		}
		l.settle(time.Now())
		l.write()
		for ctx.Err() == nil && !time.Now().Before(again) {
			more, err := l.send(ctx, node, to)
			if err != nil {
				if connect.CodeOf(err) == connect.CodeUnimplemented {
					backoff = maxBackoff // the control plane is older than this node
				}
				backoff = min(max(2*backoff, minBackoff), maxBackoff)
				again = time.Now().Add(backoff)
				l.log.Debug().Err(err).Dur("again_ms", backoff).Msg("request log not sent")
				break
			}
			backoff = 0
			if !more {
				break
			}
		}
	}
}

// Drain sends what is left until there is nothing or ctx ends. It is for after Run.
func (l *Log) Drain(ctx context.Context, node string, to Ingester) error {
	for ctx.Err() == nil {
		if more, err := l.send(ctx, node, to); err != nil || !more {
			return errors.Join(err, l.spool.close())
		}
	}
	return errors.Join(ctx.Err(), l.spool.close())
}

// Close lets go of the spool of a Log that never ran.
func (l *Log) Close() error {
	l.write()
	return l.spool.close()
}

// write moves rows from memory to disk.
func (l *Log) write() {
	l.mu.Lock()
	rows := l.waiting
	l.waiting, l.bytes = nil, 0
	l.mu.Unlock()
	if len(rows) == 0 {
		return
	}
	lost, err := l.spool.append(rows)
	if err != nil {
		l.log.Error().Err(err).Int64("rows", lost).Msg("rows of the request log are lost")
	}
	if lost > 0 {
		l.mu.Lock()
		l.drop(lost)
		l.mu.Unlock()
	}
}

// send sends one batch, and reports whether there is more.
func (l *Log) send(ctx context.Context, node string, to Ingester) (more bool, err error) {
	batch, bad, err := l.spool.next(l.cfg.Batch, batchBytes)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	if bad > 0 {
		l.drop(bad)
	}
	lost := l.lost
	l.mu.Unlock()
	if len(batch) == 0 && lost == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if _, err := to.IngestLogs(ctx, &ledgerv1.IngestLogsRequest{NodeId: node, Records: batch, Lost: lost}); err != nil {
		if connect.CodeOf(err) != connect.CodeInvalidArgument {
			return false, err
		}
		// A batch that is refused now is refused for ever.
		l.mu.Lock()
		l.drop(int64(len(batch)))
		l.mu.Unlock()
		return true, l.spool.done()
	}
	l.mu.Lock()
	l.lost -= lost
	l.mu.Unlock()
	l.count.Add(ctx, int64(len(batch)), shipped)
	return true, l.spool.done()
}
