package ledger

import (
	"context"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixedPrices is a source of prices that tests set.
type fixedPrices struct {
	mu    sync.Mutex
	set   *PriceSet
	err   error
	reads int
}

func (f *fixedPrices) LoadPrices(context.Context) (*PriceSet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return f.set, f.err
}

func (f *fixedPrices) put(set *PriceSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set = set
}

func (f *fixedPrices) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}
