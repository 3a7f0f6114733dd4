package attempt

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/dataplane/affinity"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/plan"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol"
	"github.com/aidy-gateway/aidy-gateway/dataplane/protocol/openaichat"
	"github.com/aidy-gateway/aidy-gateway/dataplane/resolve"
	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// scenario is a scenario case of the kinds failover and classify; the others are read
// where selections are tested.
type scenario struct {
	ID                string                      `json:"id"`
	Title             string                      `json:"title"`
	Kind              string                      `json:"kind"`
	NowMS             int64                       `json:"now_ms"`
	Policy            map[string]any              `json:"policy"`
	CandidateDefaults json.RawMessage             `json:"candidate_defaults"`
	RawCandidates     []json.RawMessage           `json:"candidates"`
	Upstream          map[string][]scriptedAnswer `json:"upstream"`
	Result            scriptedAnswer              `json:"result"`
	State             struct {
		Cooldowns []struct {
			Key     string `json:"key"`
			Class   string `json:"class"`
			UntilMS int64  `json:"until_ms"`
		} `json:"cooldowns"`
		Credentials map[string]struct {
			Used map[string]int `json:"used"`
		} `json:"credentials"`
		Matches []struct {
			Scope      string  `json:"scope"`
			Tokens     int64   `json:"tokens"`
			Confidence float64 `json:"confidence"`
			AgeMS      int64   `json:"age_ms"`
			TTLMinMS   int64   `json:"ttl_min_ms"`
			TTLMaxMS   int64   `json:"ttl_max_ms"`
		} `json:"matches"`
		FirstAttempts map[string]int `json:"first_attempts"`
		Retries       map[string]int `json:"retries"`
	} `json:"state"`
	Request struct {
		PromptTokens int64  `json:"prompt_tokens"`
		OutputTokens int64  `json:"output_tokens"`
		Affinity     string `json:"affinity"`
		Root         string `json:"root"`
		Replay       string `json:"replay"`
		Stream       bool   `json:"stream"`
	} `json:"request"`
	Expect map[string]any `json:"expect"`

	chain     map[int]string // models, by position
	providers map[int]string
}

type scriptedAnswer struct {
	Status       int    `json:"status"`
	Kind         string `json:"kind"`
	Code         string `json:"code"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

const firstEvent = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}` + "\n\n"

// answer is what the scripted upstream sends.
func (a scriptedAnswer) answer() answer {
	switch a.Kind {
	case "connect":
		return answer{err: &fault.Error{Class: fault.Connect}}
	case "ttfb_timeout":
		return answer{err: &fault.Error{Class: fault.Timeout}}
	case "cut_after_first":
		return answer{status: 200, body: firstEvent, header: http.Header{"Content-Type": {"text/event-stream"}}}
	}
	if a.Status == 200 {
		return ok()
	}
	out := answer{status: a.Status, body: `{"error":{"message":"no","code":` + strconv.Quote(a.Code) + `}}`, header: http.Header{"Content-Type": {"application/json"}}}
	if a.RetryAfterMS > 0 {
		out.header.Set("Retry-After-Ms", strconv.FormatInt(a.RetryAfterMS, 10))
	}
	return out
}

// shard puts the case's candidates into a tenant's configuration.
func (sc *scenario) shard(t *testing.T, s *syncv1.TenantShard) {
	sc.chain, sc.providers = map[int]string{}, map[int]string{}
	s.Providers, s.Upstreams, s.Models, s.Credentials = nil, nil, nil, nil
	for _, raw := range sc.RawCandidates {
		var c struct {
			ID, Provider, Upstream, Model, Credential, Role string
			Priority, Weight                                *int32
			Chain                                           int
			Disabled                                        bool
			QuotaGroup                                      string           `json:"quota_group"`
			CachePool                                       string           `json:"cache_pool"`
			MaxContext                                      int64            `json:"max_context"`
			Limits                                          map[string]int64 `json:"limits"`
			Price                                           struct{ In, Read, Write, Out int64 }
		}
		for _, from := range []json.RawMessage{sc.CandidateDefaults, raw} {
			if err := json.Unmarshal(from, &c); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.ContainsFunc(s.Providers, func(p *configv1.Provider) bool { return p.Id == c.Provider }) {
			s.Providers = append(s.Providers, &configv1.Provider{Id: c.Provider, Name: c.Provider, Capabilities: []*configv1.Capability{
				{Protocol: configv1.Protocol_PROTOCOL_OPENAI_CHAT, BaseUrl: "https://" + c.Provider + ".example/v1"},
			}})
		}
		if !slices.ContainsFunc(s.Upstreams, func(u *configv1.Upstream) bool { return u.Id == c.Upstream }) {
			s.Upstreams = append(s.Upstreams, &configv1.Upstream{Id: c.Upstream, ProviderId: c.Provider, GroupId: "grp_1"})
		}
		if !slices.ContainsFunc(s.Models, func(m *configv1.UpstreamModel) bool { return m.UpstreamId == c.Upstream && m.Model == c.Model }) {
			s.Models = append(s.Models, &configv1.UpstreamModel{Id: "upm-" + c.Upstream + "-" + c.Model, UpstreamId: c.Upstream, Model: c.Model, MaxContextTokens: c.MaxContext})
			price := &configv1.ProviderPricing{ProviderId: c.Provider, Model: c.Model, Published: true}
			for component, v := range map[configv1.PriceComponent]int64{
				configv1.PriceComponent_PRICE_COMPONENT_INPUT: c.Price.In, configv1.PriceComponent_PRICE_COMPONENT_CACHE_READ: c.Price.Read,
				configv1.PriceComponent_PRICE_COMPONENT_CACHE_WRITE_5M: c.Price.Write, configv1.PriceComponent_PRICE_COMPONENT_OUTPUT: c.Price.Out,
			} {
				price.Items = append(price.Items, &configv1.PriceItem{Component: component, PerMtokNanos: v * 1_000_000})
			}
			s.Pricing = append(s.Pricing, price)
		}
		cred := &configv1.UpstreamCredential{
			Id: c.Credential, UpstreamId: c.Upstream, Disabled: c.Disabled, Models: []string{c.Model}, Priority: c.Priority, Weight: c.Weight,
			QuotaGroup: c.QuotaGroup, Cache: &configv1.CacheSettings{Pool: c.CachePool},
		}
		if rpm, ok := c.Limits["rpm"]; ok {
			cred.Limits = &configv1.Limits{Rpm: &rpm}
		}
		s.Credentials = append(s.Credentials, cred)
		switch c.Role {
		case "model_chain":
			sc.chain[c.Chain] = c.Model
		case "provider_chain":
			sc.providers[c.Chain] = c.Provider
		}
	}
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../schedule/testdata/scheduler.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []*scenario }
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, sc := range all.Cases {
		name := "Test" + strings.ReplaceAll(sc.ID, "-", "") + "_" + strings.ReplaceAll(sc.Title, " ", "_")
		switch sc.Kind {
		case "failover":
			ran++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, sc.failover)
			})
		case "classify":
			ran++
			t.Run(name, func(t *testing.T) { t.Parallel(); sc.classify(t) })
		}
	}
	if ran < 20 {
		t.Errorf("%d cases ran", ran)
	}
}

func (sc *scenario) failover(t *testing.T) {
	w := sc.world(t)
	now := time.Now()
	for _, c := range sc.State.Cooldowns {
		name, subject, _ := strings.Cut(c.Key, ":")
		scope, _ := schedule.ScopeNamed(name)
		w.scheduler.Hear(schedule.Signal{Rest: &schedule.Rest{
			Scope: scope, Subject: subject, Kind: c.Class, Until: now.Add(time.Duration(c.UntilMS-sc.NowMS) * time.Millisecond),
		}}, now)
	}
	for provider, n := range sc.State.FirstAttempts {
		b := w.budgets.of("ten_1", provider)
		for range n {
			b.first(now)
		}
		b.retries[b.slot(now)] = sc.State.Retries[provider]
	}
	res, rec := w.run(t, t.Context(), func(r *Request) { sc.request(t, w, r, now) })
	sc.compare(t, res, rec.Code)
}

func (sc *scenario) world(t *testing.T) *world {
	scripts := map[string][]answer{}
	for name, list := range sc.Upstream {
		for _, a := range list {
			scripts[name] = append(scripts[name], a.answer())
		}
	}
	w := newWorld(t, func(s *syncv1.TenantShard) { sc.shard(t, s) }, nil)
	secrets := &syncv1.CredentialShard{TenantId: "ten_1"}
	for _, c := range w.view.Tenant("ten_1").Message.GetCredentials() {
		secrets.Secrets = append(secrets.Secrets, &syncv1.SealedSecret{CredentialId: c.Id, Sealed: []byte(c.Id)})
		if scripts[c.Id] == nil {
			scripts[c.Id] = []answer{ok()}
		}
	}
	w.scripts = scripts
	w.secrets(t, secrets)
	return w
}

// request changes the request of a test into the case's.
func (sc *scenario) request(t *testing.T, w *world, r *Request, now time.Time) {
	d := resolve.Decision{Requested: "m1", Model: "m1"}
	for i := range len(sc.chain) {
		d.Chain = append(d.Chain, resolve.Target{Model: sc.chain[i]})
	}
	for i := range len(sc.providers) {
		d.Providers = append(d.Providers, sc.providers[i])
	}
	r.Candidates = plan.Expand(w.view, r.Principal, d, configv1.Protocol_PROTOCOL_OPENAI_CHAT)
	for name, v := range sc.Policy {
		switch name {
		case "preserve_cache":
			r.Scheduling.Policy.PreserveCache = configv1.PreserveCache_PRESERVE_CACHE_STRICT
		case "max_attempts":
			r.Policy.MaxAttempts = int(v.(float64))
		default:
			t.Fatalf("policy %s is not known here", name)
		}
	}
	r.Policy.Guarded = sc.Request.Replay == "guarded"
	r.Target.Stream = sc.Request.Stream
	if sc.Request.Stream {
		r.Target.Framing = protocol.FramingSSE
	}
	key := &affinity.Key{PromptTokens: sc.Request.PromptTokens, Root: sc.Request.Root}
	for k := range affinity.Pinned + 1 {
		if k.String() == sc.Request.Affinity {
			key.Kind = k
		}
	}
	r.Scheduling.Affinity = key
	r.Shape.MaxOutputTokens = sc.Request.OutputTokens
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, m := range sc.State.Matches {
		r.Scheduling.Matches = append(r.Scheduling.Matches, affinity.Match{
			Scope: affinity.ScopeOf(m.Scope), Tokens: m.Tokens, Confidence: m.Confidence, Age: ms(m.AgeMS), TTLMin: ms(m.TTLMinMS), TTLMax: ms(m.TTLMaxMS),
		})
	}
	for name, c := range sc.State.Credentials {
		for i := range r.Candidates {
			if r.Candidates[i].CredentialID() != name {
				continue
			}
			q := w.query(r)
			q.Groups = r.Groups
			for range c.Used["rpm"] {
				lease, why := w.scheduler.Acquire(w.scheduler.Select(&q, r.Candidates, now), i, now)
				if why != "" {
					t.Fatal(why)
				}
				lease.Settle(schedule.Used{}, true, now)
				lease.Release()
			}
		}
	}
}

func (sc *scenario) compare(t *testing.T, res *Result, status int) {
	consumed := fault.ConsumedNone
	var path []any
	for _, a := range res.Tries {
		consumed = max(consumed, a.Consumed)
		path = append(path, a.Candidate.CredentialID()+":"+a.Stage+":"+className(a))
	}
	for key, want := range sc.Expect {
		switch key {
		case "path":
			if !slices.Equal(path, want.([]any)) {
				t.Errorf("path %v, want %v", path, want)
			}
		case "attempts":
			list := want.([]any)
			if len(list) != len(res.Tries) {
				t.Errorf("attempts %v, want %v", path, want)
				continue
			}
			for i, w := range list {
				compareAttempt(t, i, res.Tries[i], w.(map[string]any))
			}
		case "status":
			if res.Fault != nil {
				status = res.Fault.Status()
			}
			if float64(status) != want {
				t.Errorf("status %d, want %v (%v)", status, want, res.Fault)
			}
		case "code":
			code := ""
			if res.Fault != nil {
				code = res.Fault.StableCode()
			} else if res.Answer.Fault != nil {
				code = res.Answer.Fault.StableCode()
			}
			if code != want {
				t.Errorf("code %q, want %v", code, want)
			}
		case "stop":
			if string(res.Stop) != want {
				t.Errorf("stop %q, want %v", res.Stop, want)
			}
		case "consumption":
			if consumed.String() != want {
				t.Errorf("consumption %v, want %v", consumed, want)
			}
		case "retry_after_ms":
			if res.Fault == nil || float64(res.Fault.RetryAfter.Milliseconds()) != want {
				t.Errorf("retry after %v, want %v ms", res.Fault, want)
			}
		default:
			t.Errorf("expectation %s is not checked", key)
		}
	}
}

func className(a Tried) string {
	if a.OK && a.Class == fault.Internal {
		return "ok"
	}
	return a.Class.String()
}

func compareAttempt(t *testing.T, i int, got Tried, want map[string]any) {
	for key, v := range want {
		var is any
		switch key {
		case "candidate":
			is = got.Candidate.CredentialID()
		case "stage":
			is = got.Stage
		case "class":
			is = className(got)
		case "wait_ms":
			is = float64(got.Waited.Milliseconds())
		case "cooldown":
			is = ""
			if got.Cooldown != nil {
				// A quota group is a name of its tenant's; the cases have no tenants.
				is = strings.Replace(got.Cooldown.Key(), "group:ten_1:", "", 1)
			}
		case "cooldown_ms":
			is = 0.0
			if got.Cooldown != nil {
				is = float64(got.Cooldown.Until.Sub(got.Cooldown.Started).Milliseconds())
			}
		}
		if is != v {
			t.Errorf("%s of attempt %d is %v, want %v", key, i, is, v)
		}
	}
	if _, ok := want["cooldown"]; !ok && got.Cooldown != nil {
		t.Errorf("attempt %d started the cooldown %s, want none", i, got.Cooldown.Key())
	}
}

func (sc *scenario) classify(t *testing.T) {
	a := sc.Result.answer()
	f := openaichat.New().Classify(a.status, a.header, []byte(a.body), time.Now())
	row, known := table[f.Class]
	if row.stops {
		known = false
	}
	got := map[string]any{
		"class": f.Class.String(), "consumption": f.Consumption().String(), "retry_same": float64(row.same), "final_status": float64(f.Status()), "cooldown": row.kind,
	}
	for key, want := range sc.Expect {
		if key == "switch" {
			if known != (len(want.([]any)) > 0) {
				t.Errorf("switches %v, want %v", row.to, want)
			}
			continue
		}
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
}
