package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// CatalogConfig tunes a Catalog. A zero field takes the default it documents.
type CatalogConfig struct {
	// Interval is the longest the catalogue goes without reading the prices
	// again, which heals a notice that was lost. Default 60 s.
	Interval time.Duration
	// Retry is the pause after a read that failed, and the shortest time
	// between two reads made because an attempt pinned a version the catalogue
	// does not hold. Default 1 s.
	Retry time.Duration
	// ReadTimeout bounds one read. Default 10 s.
	ReadTimeout time.Duration
}

func (c CatalogConfig) withDefaults() CatalogConfig {
	if c.Interval <= 0 {
		c.Interval = time.Minute
	}
	if c.Retry <= 0 {
		c.Retry = time.Second
	}
	if c.ReadTimeout <= 0 {
		c.ReadTimeout = 10 * time.Second
	}
	return c
}

// Catalog keeps the published prices in memory. All methods are safe for
// concurrent use.
type Catalog struct {
	source Prices
	cfg    CatalogConfig
	log    zerolog.Logger

	current atomic.Pointer[priceIndex] // nil until first read
	told    atomic.Uint64              // newest generation Notify was told of
	wake    chan struct{}

	mu       sync.Mutex // one read at a time; guards what follows
	lastRead time.Time
	missed   time.Time // of the last read that did not bring a generation it was made for
}

// NewCatalog returns a catalogue that has read nothing. It starts no goroutine.
func NewCatalog(source Prices, cfg CatalogConfig, log zerolog.Logger) (*Catalog, error) {
	if source == nil {
		return nil, errors.New("ledger catalogue: no source of prices given")
	}
	return &Catalog{
		source: source,
		cfg:    cfg.withDefaults(),
		log:    log.With().Str("component", "ledger_prices").Logger(),
		wake:   make(chan struct{}, 1),
	}, nil
}

// Notify says that a generation was committed. The prices are read again soon
// by Run; Notify does not wait.
func (c *Catalog) Notify(generation uint64) {
	for {
		told := c.told.Load()
		if generation <= told {
			return
		}
		if c.told.CompareAndSwap(told, generation) {
			break
		}
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Generation returns the generation of the prices in memory, 0 if none were
// read yet.
func (c *Catalog) Generation() uint64 {
	if x := c.current.Load(); x != nil {
		return x.generation
	}
	return 0
}

// Run reads the prices whenever Notify was told of a generation that is not in
// memory, and every Interval. It returns nil when ctx ends; a read that fails is
// logged and tried again, and the prices that were read before stay in use.
func (c *Catalog) Run(ctx context.Context) error {
	for {
		wait := c.cfg.Interval
		if err := c.Refresh(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			c.log.Warn().Err(err).Uint64("generation", c.Generation()).Msg("prices not read, the older ones stay in use")
			wait = c.cfg.Retry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
		}
	}
}

// Refresh reads the prices now. Versions that cannot be rated with are logged:
// what they would have priced is written as unpriced.
func (c *Catalog) Refresh(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read(ctx)
}

func (c *Catalog) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ReadTimeout)
	defer cancel()
	c.lastRead = time.Now()
	set, err := c.source.LoadPrices(ctx)
	if err != nil {
		return fmt.Errorf("read published prices: %w", err)
	}
	old := c.current.Load()
	if old != nil && set.Generation == old.generation && set.Generation != 0 {
		return nil
	}
	next, err := newPriceIndex(set)
	if err != nil {
		c.log.Error().Err(err).Uint64("generation", set.Generation).Msg("published prices cannot be rated with")
	}
	c.current.Store(next)
	return nil
}

// index returns the prices in memory, and reads them if there are none.
func (c *Catalog) index(ctx context.Context) (*priceIndex, error) {
	if x := c.current.Load(); x != nil {
		return x, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.current.Load(); x != nil {
		return x, nil
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	return c.current.Load(), nil
}

// indexAt returns prices that are at least as new as the configuration a node ran
// under: a price that was published before a request was served must price it, also
// where another replica published it a moment ago.
func (c *Catalog) indexAt(ctx context.Context, generation uint64) (*priceIndex, error) {
	x, err := c.index(ctx)
	if err != nil || x.generation >= generation {
		return x, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A node that states a generation of the future must not make a read of each event.
	if x = c.current.Load(); x.generation >= generation || time.Since(c.missed) < c.cfg.Retry {
		return x, nil
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	if x = c.current.Load(); x.generation < generation {
		c.missed = time.Now()
	}
	return x, nil
}

// indexWith returns prices that hold the version if any can: a node may pin a
// version this replica has not been told of.
func (c *Catalog) indexWith(ctx context.Context, side Side, id string) (*priceIndex, error) {
	x, err := c.index(ctx)
	if err != nil || x.byID[side][id] != nil {
		return x, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x = c.current.Load(); x.byID[side][id] != nil || time.Since(c.lastRead) < c.cfg.Retry {
		return x, nil
	}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	return c.current.Load(), nil
}
