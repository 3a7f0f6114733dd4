package dataplane

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync/atomic"
)

// Bounds of TuneGC: garbage may grow to slack bytes, or to maxPercent of what lives,
// whichever is less, before it is collected.
const (
	gcSlack      = 24 << 20
	gcMaxPercent = 400
	gcMinPercent = 100 // the runtime's own default
)

// TuneGC lets a small heap grow further between two collections than the runtime
// does by itself. A node at work has a few megabytes that live and makes garbage
// quickly, so that it would collect many times a second. The more lives, the less is
// given: a large heap is collected as by default, so the peak does not grow. It does
// nothing if GOGC is set. It is for the process to call, once, when it starts.
func TuneGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := new(gcTuner)
	t.percent.Store(gcMinPercent)
	t.adjust()
	t.arm()
}

// gcTuner chooses the percentage anew after every collection.
type gcTuner struct {
	percent atomic.Int64
}

// arm leaves an object behind that the next collection finds dead.
func (t *gcTuner) arm() {
	sentinel := new([16]byte)
	runtime.AddCleanup(sentinel, func(t *gcTuner) {
		t.adjust()
		t.arm()
	}, t)
}

func (t *gcTuner) adjust() {
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtimemetrics.Read(live)
	if live[0].Value.Kind() != runtimemetrics.KindUint64 {
		return
	}
	want, have := gcPercent(live[0].Value.Uint64()), t.percent.Load()
	// Setting it stops the world for a moment, so small steps are not taken.
	if d := want - have; d < have/10 && d > -have/10 {
		return
	}
	t.percent.Store(want)
	debug.SetGCPercent(int(want))
}

// gcPercent is the GOGC for a heap of which so many bytes live.
func gcPercent(live uint64) int64 {
	if live == 0 {
		return gcMaxPercent
	}
	return int64(min(max(gcSlack*100/live, gcMinPercent), gcMaxPercent))
}
