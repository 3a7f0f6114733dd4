package store

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// BenchmarkCommit is a change of one resource (B-9): how long the gate is held,
// from its lock to the commit, on 100 and on 5,000 tenants.
func BenchmarkCommit(b *testing.B) {
	for _, tenants := range []int{100, 5000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			ctx := context.Background()
			s := freshStore(b)
			var m *configv1.Tenant
			commit(b, s, func(tx *Tx) (err error) {
				for i := range tenants {
					if m, err = Insert(ctx, tx, &configv1.Tenant{Name: fmt.Sprintf("t%d", i)}); err != nil {
						return err
					}
				}
				return nil
			})
			n := int64(0)
			var held time.Duration
			for b.Loop() {
				var entered time.Time
				n++
				commit(b, s, func(tx *Tx) error {
					entered = time.Now()
					m, _ := proto.Clone(m).(*configv1.Tenant)
					m.Etag, m.InboundRateLimitQps = "", proto.Int64(n)
					_, err := Update(ctx, tx, m)
					return err
				})
				held += time.Since(entered)
			}
			b.ReportMetric(float64(held.Microseconds())/float64(n)/1000, "gate-ms/op")
			b.ReportMetric(float64(runtime.NumCPU()), "cpus")
		})
	}
}
