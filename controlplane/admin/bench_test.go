package admin

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

// One write of one resource, from the call to the answer, in a tenant of twenty
// resources.
func BenchmarkUpdateOneResource(b *testing.B) {
	f := setup(b)
	c := f.owner()
	apply(b, c, &adminv1.ApplyBundleRequest{Bundle: &adminv1.Bundle{Resources: world()}})
	id := f.byName(b)("Group", "spare")
	etag, slowest := "1", time.Duration(0)
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		res := must(call(b.Context(), c, "GroupService", "UpdateGroup", &adminv1.UpdateGroupRequest{
			Group:      &configv1.Group{Id: id, Etag: etag, Labels: map[string]string{"n": fmt.Sprint(i)}},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels"}},
		}))(b).(*adminv1.UpdateGroupResponse)
		etag = res.GetGroup().GetEtag()
		slowest = max(slowest, time.Since(began))
	}
	b.ReportMetric(float64(slowest.Microseconds())/1000, "ms-slowest")
}
