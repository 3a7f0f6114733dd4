package schedule

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/stateid"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
)

// The scenario cases: a configuration, a runtime state and a request, and what must
// come out. Money is in nano-USD, times are milliseconds.
type scenarios struct {
	Cases []*scenario `json:"cases"`
}

type scenario struct {
	ID                string            `json:"id"`
	Title             string            `json:"title"`
	Kind              string            `json:"kind"`
	NowMS             int64             `json:"now_ms"`
	Policy            map[string]any    `json:"policy"`
	CandidateDefaults json.RawMessage   `json:"candidate_defaults"`
	RawCandidates     []json.RawMessage `json:"candidates"`
	State             scenarioState     `json:"state"`
	Request           scenarioRequest   `json:"request"`
	Repeat            int               `json:"repeat"`
	Expect            map[string]any    `json:"expect"`
}

type scenarioCandidate struct {
	ID             string           `json:"id"`
	Provider       string           `json:"provider"`
	Upstream       string           `json:"upstream"`
	Model          string           `json:"model"`
	Credential     string           `json:"credential"`
	Group          string           `json:"group"`
	Priority       int32            `json:"priority"`
	Weight         int32            `json:"weight"`
	Disabled       bool             `json:"disabled"`
	ExpiresMS      int64            `json:"expires_ms"`
	AuthInvalid    bool             `json:"auth_invalid"`
	PolicyDenied   bool             `json:"policy_denied"`
	CredentialType string           `json:"credential_type"`
	Protocols      []string         `json:"protocols"`
	Capabilities   []string         `json:"capabilities"`
	MaxContext     int64            `json:"max_context"`
	QuotaGroup     string           `json:"quota_group"`
	CachePool      string           `json:"cache_pool"`
	StateScope     string           `json:"state_scope"`
	Limits         map[string]int64 `json:"limits"`
	MaxConcurrency *int32           `json:"max_concurrency"`
	Price          struct {
		In, Read, Write, Out int64
	} `json:"price"`
	QuotaResetMS  int64   `json:"quota_reset_ms"`
	QuotaWindowMS int64   `json:"quota_window_ms"`
	QuotaLeft     float64 `json:"quota_left"`
}

type scenarioState struct {
	Credentials map[string]struct {
		Inflight      int64              `json:"inflight"`
		Waiting       int64              `json:"waiting"`
		Used          map[string]float64 `json:"used"`
		ErrEWMA       float64            `json:"err_ewma"`
		ErrSamples    float64            `json:"err_samples"`
		TTFT          *float64           `json:"ttft_ms"`
		TTFTAgeMS     int64              `json:"ttft_age_ms"`
		CurrentWeight int64              `json:"current_weight"`
	} `json:"credentials"`
	Cooldowns []struct {
		Key     string `json:"key"`
		Class   string `json:"class"`
		UntilMS int64  `json:"until_ms"`
	} `json:"cooldowns"`
	Breakers []struct {
		Key       string `json:"key"`
		State     string `json:"state"`
		UntilMS   int64  `json:"until_ms"`
		ProbeBusy bool   `json:"probe_busy"`
	} `json:"breakers"`
	Matches []struct {
		Scope      string  `json:"scope"`
		Tokens     int64   `json:"tokens"`
		Confidence float64 `json:"confidence"`
		AgeMS      int64   `json:"age_ms"`
		TTLMinMS   int64   `json:"ttl_min_ms"`
		TTLMaxMS   int64   `json:"ttl_max_ms"`
		Session    bool    `json:"session"`
	} `json:"matches"`
}

type scenarioRequest struct {
	ID              string   `json:"id"`
	Protocol        string   `json:"protocol"`
	PromptTokens    int64    `json:"prompt_tokens"`
	OutputTokens    int64    `json:"output_tokens"`
	Needs           []string `json:"needs"`
	CredentialTypes []string `json:"credential_types"`
	CacheWrites     bool     `json:"cache_writes"`
	Affinity        string   `json:"affinity"`
	Root            string   `json:"root"`
	StateOwner      string   `json:"state_owner"`
	HeadTokens      int64    `json:"head_tokens"`
	HeadRecent      int64    `json:"head_recent"`
	PriorTokens     int64    `json:"prior_tokens"`
	Replay          string   `json:"replay"`
}

func readScenarios(t testing.TB) []*scenario {
	t.Helper()
	raw, err := os.ReadFile("testdata/scheduler.json")
	if err != nil {
		t.Fatal(err)
	}
	var all scenarios
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all.Cases
}

func (sc *scenario) now() time.Time { return time.UnixMilli(sc.NowMS) }

var featureNames = map[string]configv1.Feature{"tools": configv1.Feature_FEATURE_TOOLS}

// world is a scenario made into what the scheduler works on.
type world struct {
	s    *Scheduler
	q    *Query
	cs   []plan.Candidate
	from []scenarioCandidate
}

func (sc *scenario) build(t testing.TB) *world {
	t.Helper()
	w := &world{s: New(Config{})}
	secrets := &syncv1.CredentialShard{TenantId: "t"}
	shard := &syncv1.TenantShard{Tenant: &configv1.Tenant{Id: "t"}}
	for _, raw := range sc.RawCandidates {
		var c scenarioCandidate
		for _, from := range []json.RawMessage{sc.CandidateDefaults, raw} {
			if len(from) == 0 {
				continue
			}
			if err := json.Unmarshal(from, &c); err != nil {
				t.Fatal(err)
			}
		}
		w.from = append(w.from, c)
		secret := &syncv1.SealedSecret{CredentialId: c.Credential, Sealed: []byte("key")}
		if c.ExpiresMS != 0 {
			secret.ExpireTime = timestamppb.New(time.UnixMilli(c.ExpiresMS))
		}
		if !slices.ContainsFunc(secrets.Secrets, func(s *syncv1.SealedSecret) bool { return s.CredentialId == c.Credential }) {
			secrets.Secrets = append(secrets.Secrets, secret)
		}
		w.cs = append(w.cs, c.candidate(sc.Request.Protocol, shard))
	}
	v, err := snapshot.Static(nil, nil, shard, secrets)
	if err != nil {
		t.Fatal(err)
	}
	w.q = sc.query(t, v)
	sc.apply(t, w)
	return w
}

func (c *scenarioCandidate) candidate(protocol string, shard *syncv1.TenantShard) plan.Candidate {
	group := c.Group
	if group == "" {
		group = "default"
	}
	up := &configv1.Upstream{Id: c.Upstream, ProviderId: c.Provider, GroupId: group}
	cred := &configv1.UpstreamCredential{Id: c.Credential, MaxConcurrency: c.MaxConcurrency, Disabled: c.Disabled, StateScope: c.StateScope}
	if c.CredentialType == "oauth" {
		cred.Kind = configv1.CredentialKind_CREDENTIAL_KIND_API_KEY
	}
	if c.Limits != nil {
		l := &configv1.Limits{}
		for name, to := range map[string]**int64{"rpm": &l.Rpm, "tpm": &l.Tpm, "itpm": &l.Itpm, "otpm": &l.Otpm, "ipm": &l.Ipm, "rpd": &l.Rpd, "tpd": &l.Tpd} {
			if v, ok := c.Limits[name]; ok {
				*to = &v
			}
		}
		cred.Limits = l
	}
	cred.Cache = &configv1.CacheSettings{Pool: c.CachePool}
	var model *configv1.UpstreamModel
	if c.Model != "" {
		model = &configv1.UpstreamModel{Id: c.ID, UpstreamId: c.Upstream, Model: c.Model, MaxContextTokens: c.MaxContext}
		for _, name := range c.Capabilities {
			f, ok := featureNames[name]
			if !ok {
				f = configv1.Feature_FEATURE_BATCH
			}
			model.Features = append(model.Features, f)
		}
	}
	orSelf := func(s, self string) string {
		if s == "" {
			return self
		}
		return s
	}
	price := &configv1.ProviderPricing{Id: "price-" + c.ID, ProviderId: c.Provider, Model: c.Model, Published: true}
	for component, v := range map[configv1.PriceComponent]int64{
		configv1.PriceComponent_PRICE_COMPONENT_INPUT: c.Price.In, configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ: c.Price.Read,
		configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M: c.Price.Write, configv1.PriceComponent_PRICE_COMPONENT_OUTPUT: c.Price.Out,
	} {
		price.Items = append(price.Items, &configv1.PriceItem{Component: component, PerMtokNanos: v * 1_000_000})
	}
	shard.Pricing = append(shard.Pricing, price)
	out := plan.Candidate{
		Account: &plan.Account{
			ID: c.ID, TenantID: "t", Upstream: up, Model: model, Credential: cred,
			Priority: max(c.Priority, 1), Weight: max(c.Weight, 1),
			CredentialKey: c.Credential, QuotaKey: orSelf(c.QuotaGroup, c.Credential), StateScope: orSelf(c.StateScope, c.Credential),
			RotationKey: "t|m", SlotKeys: [3]string{"c:" + c.Credential, "u:" + c.Upstream, "p:" + c.Provider},
			Pricing: []*configv1.ProviderPricing{price},
		},
		Provider: &configv1.Provider{Id: c.Provider, Name: c.Provider},
		Denied:   c.PolicyDenied,
	}
	if slices.Contains(c.Protocols, protocol) {
		out.Capability = &configv1.Capability{}
	}
	return out
}

func (sc *scenario) query(t testing.TB, v *snapshot.View) *Query {
	r := &sc.Request
	q := &Query{
		View: v, Groups: []string{"default"}, Protocol: r.Protocol, RequestID: r.ID, Policy: policyFrom(t, sc.Policy),
		PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens, Writes: r.CacheWrites, Guarded: r.Replay == "guarded",
		CredentialTypes: r.CredentialTypes, Root: r.Root, Prior: r.PriorTokens, HeadTokens: r.HeadTokens, HeadRecent: r.HeadRecent,
		Owner: stateid.Owner{Scope: r.StateOwner},
	}
	q.PriorConf = q.Policy.PriorConfidence
	for k := range affinity.Pinned + 1 {
		if k.String() == r.Affinity {
			q.Affinity = k
		}
	}
	for _, n := range r.Needs {
		q.Needs.Feature(featureNames[n])
	}
	for _, m := range sc.State.Matches {
		q.Matches = append(q.Matches, affinity.Match{
			Scope: affinity.ScopeOf(m.Scope), Tokens: m.Tokens, Confidence: m.Confidence, Session: m.Session,
			Age: millis(m.AgeMS), TTLMin: millis(m.TTLMinMS), TTLMax: millis(m.TTLMaxMS),
		})
	}
	return q
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// policyFrom makes a policy of the names that the defaults are listed under.
func policyFrom(t testing.TB, values map[string]any) Policy {
	t.Helper()
	s := &configv1.SchedulingPolicy{}
	for name, v := range values {
		switch name {
		case "reset_bonus_nusd":
			n := int64(v.(float64))
			s.ResetBonusNusd = &n
		case "placement":
			s.Placement = map[string]configv1.Placement{"swrr": configv1.Placement_PLACEMENT_ROUND_ROBIN}[v.(string)]
		case "preserve_cache":
			s.PreserveCache = map[string]configv1.PreserveCache{"strict": configv1.PreserveCache_PRESERVE_CACHE_STRICT}[v.(string)]
		case "max_attempts":
		default:
			t.Fatalf("policy %s is not known here", name)
		}
	}
	return PolicyOf(s)
}

// apply puts the runtime state in.
func (sc *scenario) apply(t testing.TB, w *world) {
	t.Helper()
	now := sc.now()
	for i, c := range w.from {
		h := w.s.handleFor(&w.cs[i], w.q.Policy.Cache)
		if c.AuthInvalid {
			h.credential.invalid.Store(&Rest{})
		}
		if c.CredentialType == "oauth" {
			w.cs[i].Credential.Kind = configv1.CredentialKind_CREDENTIAL_KIND_OAUTH2_CLIENT
		}
		if c.QuotaWindowMS > 0 {
			w.s.QuotaLeft(&w.cs[i], c.QuotaLeft, time.UnixMilli(c.QuotaResetMS), millis(c.QuotaWindowMS))
		}
		st, ok := sc.State.Credentials[c.Credential]
		if !ok {
			continue
		}
		h.slots[0].running.Store(st.Inflight)
		h.slots[0].waiting.Store(st.Waiting)
		for d := range endOfDims {
			if used, ok := st.Used[d.String()]; ok {
				h.meters[0].buckets[d] = bucket{used: used, at: now}
			}
		}
		h.health.errs, h.health.samples, h.health.errsAt = st.ErrEWMA, st.ErrSamples, now
		if st.TTFT != nil {
			h.health.ttft, h.health.ttftAt = *st.TTFT, now.Add(-millis(st.TTFTAgeMS))
		}
		h.turns.credit[First].Store(st.CurrentWeight)
	}
	for _, c := range sc.State.Cooldowns {
		name, subject, _ := strings.Cut(c.Key, ":")
		scope, ok := ScopeNamed(name)
		if !ok {
			t.Fatalf("scope %q is not known", name)
		}
		w.s.cells.of(scope, subject).set(&Rest{Scope: scope, Subject: subject, Kind: c.Class, Until: time.UnixMilli(c.UntilMS)}, now)
	}
	for _, b := range sc.State.Breakers {
		br := w.s.breakers.of(b.Key)
		br.opened, br.probing = 1, b.ProbeBusy
		if b.UntilMS != 0 {
			br.until = time.UnixMilli(b.UntilMS)
		}
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	ran := 0
	for _, sc := range readScenarios(t) {
		if sc.Kind != "select" && sc.Kind != "sequence" {
			continue
		}
		ran++
		name := "Test" + strings.ReplaceAll(sc.ID, "-", "") + "_" + strings.ReplaceAll(sc.Title, " ", "_")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sc.build(t)
			if sc.Kind == "sequence" {
				sc.sequence(t, w)
				return
			}
			sel := w.s.Select(w.q, w.cs, sc.now())
			sc.compare(t, w, sel)
		})
	}
	if ran < 30 {
		t.Errorf("%d cases ran", ran)
	}
}

func (sc *scenario) sequence(t *testing.T, w *world) {
	var winners []any
	id := w.q.RequestID
	for i := range sc.Repeat {
		w.q.RequestID = id + "#" + strconv.Itoa(i)
		sel := w.s.Select(w.q, w.cs, sc.now())
		winners = append(winners, w.cs[sel.Order[0]].ID)
	}
	if want := sc.Expect["winners"].([]any); !slices.Equal(winners, want) {
		t.Errorf("winners %v, want %v", winners, want)
	}
}

func (sc *scenario) compare(t *testing.T, w *world, sel *Selection) {
	excluded := map[string]any{}
	for i, row := range sel.Rows {
		if row.Reason != "" {
			excluded[w.cs[i].ID] = string(row.Reason)
		}
	}
	var order []any
	for _, i := range sel.Order {
		order = append(order, w.cs[i].ID)
	}
	for key, want := range sc.Expect {
		switch key {
		case "winner":
			if len(order) == 0 || order[0] != want {
				t.Errorf("order %v, want the winner %v", order, want)
			}
		case "order":
			if !slices.Equal(order, want.([]any)) {
				t.Errorf("order %v, want %v", order, want)
			}
		case "excluded":
			if !maps.Equal(excluded, want.(map[string]any)) {
				t.Errorf("excluded %v, want %v", excluded, want)
			}
		case "affinity":
			if string(sel.Affinity) != want {
				t.Errorf("affinity %v, want %v", sel.Affinity, want)
			}
		case "how":
			if string(sel.How) != want {
				t.Errorf("how %v, want %v", sel.How, want)
			}
		case "hit_tokens", "total_nusd":
			for i, row := range sel.Rows {
				v, ok := want.(map[string]any)[w.cs[i].ID]
				got := row.Hit
				if key == "total_nusd" {
					got = row.Total
				}
				if ok && float64(got) != v {
					t.Errorf("%s of %s is %d, want %v (%+v)", key, w.cs[i].ID, got, v, row.Terms)
				}
			}
		default:
			t.Errorf("expectation %s is not checked", key)
		}
	}
	if t.Failed() {
		for i, row := range sel.Rows {
			t.Log(w.cs[i].ID, fmt.Sprintf("%+v", row))
		}
	}
}
