package dataplane

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/aidy-gateway/aidy-gateway/dataplane/attempt"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// schedulerMetrics tell how accounts are chosen and what became of it.
type schedulerMetrics struct {
	affinity    metric.Int64Counter
	cacheTokens metric.Int64Counter
	cooldowns   metric.Int64Counter
	score       metric.Int64Gauge
	fallbacks   metric.Int64Counter
	excluded    metric.Int64Counter
	escapes     metric.Int64Counter
	spillovers  metric.Int64Counter
	queueWait   metric.Float64Histogram
	exhausted   metric.Int64Counter
	selecting   metric.Float64Histogram

	decisions atomic.Uint64
	sets      *xsync.Map[labels3, *options]
}

// labels3 are up to three labels, name and value.
type labels3 [6]string

// scoreEvery is how many decisions there are for one whose scores are told.
const scoreEvery = 100

func newSchedulerMetrics(m metric.Meter, n *Node) (*schedulerMetrics, error) {
	out := &schedulerMetrics{sets: xsync.NewMap[labels3, *options]()}
	var errs []error
	counter := func(to *metric.Int64Counter, name, unit, text string) {
		var err error
		*to, err = m.Int64Counter("gateway.scheduler."+name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
	}
	counter(&out.affinity, "cache_affinity", "{request}", "Requests by what became of their prompt cache.")
	counter(&out.cacheTokens, "cache_tokens", "{token}", "Tokens of prompts expected in a cache, read from it, and written to it.")
	counter(&out.cooldowns, "credential_cooldown", "{cooldown}", "Cooldowns that failures started, by reason.")
	counter(&out.fallbacks, "fallback", "{attempt}", "Attempts after the first one of a request, by where they came from and went to.")
	counter(&out.excluded, "excluded", "{candidate}", "Candidates that were out, by reason.")
	counter(&out.escapes, "escape", "{request}", "Requests that left a warm account because it failed or was slow.")
	counter(&out.spillovers, "spillover", "{request}", "Requests served by another priority than the first.")
	counter(&out.exhausted, "retry_budget_exhausted", "{request}", "Requests that ended because too many were retried.")
	var err error
	out.score, err = m.Int64Gauge("gateway.scheduler.candidate_score", metric.WithUnit("1"),
		metric.WithDescription("Score of a candidate in nano-USD, of one decision in a hundred."))
	errs = append(errs, err)
	out.queueWait, err = m.Float64Histogram("gateway.scheduler.queue_wait", metric.WithUnit("s"),
		metric.WithDescription("Time that requests waited for a free slot or for room in a limit."),
		metric.WithExplicitBucketBoundaries(.001, .005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5))
	errs = append(errs, err)
	out.selecting, err = m.Float64Histogram("gateway.scheduler.select", metric.WithUnit("s"),
		metric.WithDescription("Time that the selections of a request took."),
		metric.WithExplicitBucketBoundaries(1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3))
	errs = append(errs, err)
	_, err = m.Int64ObservableGauge("gateway.scheduler.breaker_state", metric.WithUnit("{breaker}"),
		metric.WithDescription("Circuit breakers that are open or half open."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			counts := make(map[labels3]int64)
			for _, b := range n.scheduler.Breakers(time.Now()) {
				parts := strings.Split(b.Key, "|")
				if len(parts) >= 4 {
					counts[labels3{"provider_name", n.providerName(parts[0]), "class", parts[3], "state", b.State}]++
				}
			}
			for l, v := range counts {
				o.Observe(v, metric.WithAttributes(l.attributes()...))
			}
			return nil
		}))
	errs = append(errs, err)
	return out, errors.Join(errs...)
}

// providerName is the configured name of a provider, be it a tenant's own; its id if the
// node does not know it.
func (n *Node) providerName(id string) string {
	v := n.holder.Load()
	if v == nil {
		return id
	}
	if p := v.Global.Providers[id]; p != nil {
		return p.GetName()
	}
	name := id
	v.EachTenant(func(t *snapshot.Tenant) bool { // it is asked of few: those whose breakers are open
		p := t.Providers[id]
		if p != nil {
			name = p.GetName()
		}
		return p == nil
	})
	return name
}

func (l labels3) attributes() []attribute.KeyValue {
	var kv []attribute.KeyValue
	for i := 0; i < len(l) && l[i] != ""; i += 2 {
		kv = append(kv, attribute.String(l[i], l[i+1]))
	}
	return kv
}

func (m *schedulerMetrics) set(l labels3) *options {
	o, _ := m.sets.LoadOrCompute(l, func() (*options, bool) { return optionsOf(l.attributes()...), false })
	return o
}

func (m *schedulerMetrics) count(ctx context.Context, c metric.Int64Counter, n int64, l labels3) {
	if n > 0 {
		c.Add(ctx, n, m.set(l).add...)
	}
}

// request counts the decisions of a request and what they led to.
func (m *schedulerMetrics) request(ctx context.Context, res *attempt.Result) {
	if len(res.Selections) == 0 {
		return
	}
	m.selecting.Record(ctx, res.Selecting.Seconds())
	if res.Queued > 0 {
		m.queueWait.Record(ctx, res.Queued.Seconds())
	}
	if res.Affinity != "" {
		m.count(ctx, m.affinity, 1, labels3{"outcome", string(res.Affinity)})
	}
	for _, sel := range res.Selections {
		for i := range sel.Rows {
			if r := sel.Rows[i].Reason; r != "" {
				m.count(ctx, m.excluded, 1, labels3{"reason", string(r)})
			}
		}
	}
	first := res.Selections[0]
	for i := range first.Rows {
		if why := first.Rows[i].Fled; why != "" {
			m.count(ctx, m.escapes, 1, labels3{"reason", why})
			break
		}
	}
	if m.decisions.Add(1)%scoreEvery == 1 {
		for _, i := range first.Order {
			c := first.Candidate(i)
			m.score.Record(ctx, first.Rows[i].Total, m.set(labels3{"provider_name", c.Provider.GetName(), "credential_id", c.CredentialID()}).record...)
		}
	}
	m.attempts(ctx, res)
}

func (m *schedulerMetrics) attempts(ctx context.Context, res *attempt.Result) {
	for i := range res.Tries {
		t := &res.Tries[i]
		if t.Cooldown != nil {
			m.count(ctx, m.cooldowns, 1, labels3{"reason", t.Cooldown.Kind})
		}
		if i > 0 {
			m.count(ctx, m.fallbacks, 1, labels3{"from_provider", res.Tries[i-1].Candidate.Provider.GetName(), "to_provider", t.Candidate.Provider.GetName(), "stage", t.Stage})
		}
	}
	if res.Stop == attempt.StopRetryBudget && len(res.Tries) > 0 {
		m.count(ctx, m.exhausted, 1, labels3{"provider_name", res.Tries[len(res.Tries)-1].Candidate.Provider.GetName()})
	}
	c := res.Winner
	if c == nil || res.Choice == nil {
		return
	}
	if res.Choice.Priority > 0 {
		m.count(ctx, m.spillovers, 1, labels3{"priority", strconv.Itoa(int(c.Priority))})
	}
	u := res.Answer.Usage
	for kind, n := range map[string]int64{"predicted": res.Choice.Hit, "read": u.CacheRead, "written": u.CacheWrite()} {
		m.count(ctx, m.cacheTokens, n, labels3{"provider_name", c.Provider.GetName(), "model", c.Model.GetModel(), "kind", kind})
	}
}
