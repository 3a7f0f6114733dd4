package dataplane

import (
	"testing"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
)

func TestQualityFloorOfATaskComesBeforeThatOfEveryTask(t *testing.T) {
	t.Parallel()
	every, code := &configv1.QualityFloor{Min: 0.5}, &configv1.QualityFloor{Task: "code"}
	for _, list := range [][]*configv1.QualityFloor{{every, code}, {code, every}} {
		for task, want := range map[string]float64{"code": 0, "prose": 0.5, "": 0.5} {
			if got := floor(list, task); got != want {
				t.Errorf("%v: the floor of %q is %v, want %v", list, task, got, want)
			}
		}
	}
	if got := floor(nil, "code"); got != 0 {
		t.Errorf("without a list the floor is %v", got)
	}
}
