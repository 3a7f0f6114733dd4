package meter

import (
	"context"
	"testing"

	"github.com/rs/zerolog"
)

func benchLog(b *testing.B) *Log {
	b.Helper()
	l, err := Open(b.TempDir(), LogConfig{MaxBytes: 1 << 40, SegmentBytes: 64 << 20}, zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return l
}

// BenchmarkAppend appends 500-byte records with nothing syncing beside it.
func BenchmarkAppend(b *testing.B) {
	l := benchLog(b)
	payload := make([]byte, 500)
	b.ReportAllocs()
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if _, err := l.Append(TypeSettle, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAppendWhileSyncing appends from all processors while Run syncs in
// groups.
func BenchmarkAppendWhileSyncing(b *testing.B) {
	l := benchLog(b)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	payload := make([]byte, 500)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Append(TypeSettle, payload); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	cancel()
	<-done
}

// BenchmarkAppendSync appends from 64 goroutines that each wait for the disk.
func BenchmarkAppendSync(b *testing.B) {
	l := benchLog(b)
	payload := make([]byte, 500)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.AppendSync(TypeSettle, payload); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
