package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync/atomic"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

const (
	ageFile = "age"
	// agePersist is how often the age goes to disk.
	agePersist = time.Minute
	// defaultMaxStaleness applies where a tenant names no limit.
	defaultMaxStaleness = 24 * time.Hour
	// unknownAge is the age of what was never confirmed.
	unknownAge = time.Duration(math.MaxInt64)
)

// age knows how old the authorization data is: the time since the control plane,
// having looked into PostgreSQL, last said that the node's identity domain is the
// current one. It grows on the monotonic clock, so that steps of the wall clock do
// not matter. Reading is safe for concurrent use; one goroutine writes.
type age struct {
	dir   string // empty keeps nothing on disk
	clock func() clockReading
	now   atomic.Pointer[ageReading]
}

// ageReading says that at a time the age was so much.
type ageReading struct {
	at   time.Time // with the monotonic clock
	was  time.Duration
	kept map[string]agePoint // tenants with pinned identity shards, whose age goes on
}

type agePoint struct {
	at  time.Time
	was time.Duration
}

func (p agePoint) age(now time.Time) time.Duration {
	if p.was == unknownAge {
		return unknownAge
	}
	return p.was + max(0, now.Sub(p.at))
}

func newAge(dir string, clock func() clockReading) *age {
	a := &age{dir: dir, clock: clock}
	a.now.Store(&ageReading{was: unknownAge})
	return a
}

// of returns the age for a tenant; the empty id stands for tenants without pins.
func (a *age) of(tenantID string, now time.Time) time.Duration {
	r := a.now.Load()
	if p, ok := r.kept[tenantID]; ok {
		return p.age(now)
	}
	return agePoint{r.at, r.was}.age(now)
}

// confirm says that at now the identity domain is as it was in PostgreSQL so long
// ago. Tenants with pins are not confirmed: what serves for them is older.
func (a *age) confirm(now time.Time, ago time.Duration, pinned map[string]bool) {
	next := &ageReading{at: now, was: max(0, ago)}
	// A replica that has not seen PostgreSQL for long does not make older what
	// another one confirmed since.
	if before := (agePoint{a.now.Load().at, a.now.Load().was}).age(now); before < next.was {
		next.was = before
	}
	for tenant := range pinned {
		if next.kept == nil {
			next.kept = make(map[string]agePoint, len(pinned))
		}
		next.kept[tenant] = agePoint{now, a.of(tenant, now)}
	}
	a.now.Store(next)
}

// ageRecord is the file. Ages of pinned tenants are in it too, so that a restart
// makes none of them younger.
type ageRecord struct {
	AgeMS   int64            `json:"age_ms"`
	Tenants map[string]int64 `json:"tenants,omitempty"`
	Clock   clockReading     `json:"clock"`
}

// clockReading is the time by the clocks that go on while the process is down.
type clockReading struct {
	// Boot names the run of the machine, and Up is the time since its start; both
	// are empty where the system does not say.
	Boot string `json:"boot,omitempty"`
	UpMS int64  `json:"up_ms,omitempty"`
	Wall int64  `json:"wall_ms"`
}

// since returns how long ago c was, at the reading now. Within one run of the
// machine that does not depend on the wall clock. Over a restart of the machine it
// does, and a wall clock that went back counts as no time at all.
func (c clockReading) since(now clockReading) time.Duration {
	ms := now.Wall - c.Wall
	if c.Boot != "" && c.Boot == now.Boot {
		ms = now.UpMS - c.UpMS
	}
	return time.Duration(max(0, ms)) * time.Millisecond
}

// save puts the age on disk.
func (a *age) save(now time.Time) error {
	r := a.now.Load()
	if a.dir == "" || r.was == unknownAge {
		return nil
	}
	rec := ageRecord{AgeMS: a.of("", now).Milliseconds(), Clock: a.clock()}
	for tenant, p := range r.kept {
		if rec.Tenants == nil {
			rec.Tenants = make(map[string]int64, len(r.kept))
		}
		rec.Tenants[tenant] = p.age(now).Milliseconds()
	}
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("marshal age: %w", err)
	}
	return writeFile(filepath.Join(a.dir, ageFile), b)
}

// load reads the age on disk and adds the time since. None there leaves it unknown.
func (a *age) load(now time.Time) error {
	if a.dir == "" {
		return nil
	}
	b, err := readFile(filepath.Join(a.dir, ageFile), 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read age: %w", err)
	}
	var rec ageRecord
	if err := json.Unmarshal(b, &rec); err != nil || rec.AgeMS < 0 {
		return fmt.Errorf("read age: the file is damaged")
	}
	down := rec.Clock.since(a.clock())
	next := &ageReading{at: now, was: ageOf(rec.AgeMS, down)}
	for tenant, ms := range rec.Tenants {
		if next.kept == nil {
			next.kept = make(map[string]agePoint, len(rec.Tenants))
		}
		next.kept[tenant] = agePoint{now, ageOf(ms, down)}
	}
	a.now.Store(next)
	return nil
}

func ageOf(ms int64, down time.Duration) time.Duration {
	const most = unknownAge / 2 // leaves room to grow
	if ms < 0 || ms > most.Milliseconds() || down > most {
		return unknownAge
	}
	return time.Duration(ms)*time.Millisecond + down
}

// staleFor reports whether a tenant's authorization is older than the tenant allows
// and the tenant wants to be refused then.
func staleFor(v *View, tenantID string, age time.Duration) bool {
	s := v.Subject(syncv1.SubjectKind_SUBJECT_KIND_TENANT, tenantID)
	if s == nil || s.GetOnStale() != configv1.OnStale_ON_STALE_DENY {
		return false
	}
	limit := time.Duration(s.GetMaxAuthStalenessS()) * time.Second
	if limit <= 0 {
		limit = defaultMaxStaleness
	}
	return age > limit
}
