package schedule

import (
	"time"

	"github.com/puzpuzpuz/xsync/v4"
)

// resorts bounds last resorts to one a second and candidate.
type resorts struct {
	last *xsync.Map[string, time.Time]
}

func newResorts() resorts { return resorts{last: xsync.NewMap[string, time.Time]()} }

// take takes the right to a last resort. A dry take only looks whether it could.
func (r *resorts) take(id string, dry bool, now time.Time) bool {
	if dry {
		old, taken := r.last.Load(id)
		return !taken || now.Sub(old) >= time.Second
	}
	taken := false
	r.last.Compute(id, func(old time.Time, loaded bool) (time.Time, xsync.ComputeOp) {
		if loaded && now.Sub(old) < time.Second {
			return old, xsync.CancelOp
		}
		taken = true
		return now, xsync.UpdateOp
	})
	return taken
}
