package dataplane

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/aidy-gateway/aidy-gateway/dataplane/schedule"
)

// runtimeReport is the running state of a node as operators read it. Ids join the lists: a
// cooldown's subject names what its scope says, joined by |.
type runtimeReport struct {
	Time        time.Time      `json:"time"`
	Node        string         `json:"node"`
	Nodes       int            `json:"nodes"` // of the fleet, which share the limits
	Credentials []runtimeState `json:"credentials"`
	Cooldowns   []cooldown     `json:"cooldowns"`
	Breakers    []breaker      `json:"breakers"`
	Limits      []limit        `json:"limits"`
	Affinity    int            `json:"affinity_entries"` // prefixes of prompts and sessions that are remembered
}

type runtimeState struct {
	Credential  string     `json:"credential_id"`
	InFlight    int64      `json:"in_flight"`
	Waiting     int64      `json:"waiting"`
	Failures    int64      `json:"failures_in_a_row"`
	AuthInvalid *cooldown  `json:"auth_invalid,omitempty"`
	Quota       *quota     `json:"quota,omitempty"`
	Health      []health   `json:"health"`
	Rotation    []rotation `json:"rotation"`
}

type quota struct {
	Left  float64   `json:"left"`
	Reset time.Time `json:"reset"`
}

type health struct {
	Model     string  `json:"model"`
	TTFT      float64 `json:"ttft_ms"`
	ErrorRate float64 `json:"error_rate"`
	Samples   float64 `json:"samples"`
}

type rotation struct {
	Upstream string `json:"upstream_id"`
	Model    string `json:"model"`
	Stage    string `json:"stage"`
	Credit   int64  `json:"credit"`
}

type breaker struct {
	Key   string    `json:"key"` // provider|upstream|model|class, and |credential where it is by credential
	State string    `json:"state"`
	Until time.Time `json:"until"`
	Times int       `json:"opened_in_a_row"`
	Node  string    `json:"node_id"` // that told of it; empty for this one
}

type limit struct {
	Key     string  `json:"key"` // quota:<id>, learned:<quota>|<model>, upstream:<id> or provider:<id>
	Dim     string  `json:"dimension"`
	Used    float64 `json:"used"`
	Limit   float64 `json:"limit"`
	Learned bool    `json:"learned"` // the provider itself said it
}

// cooldown is a cooldown as operators read it: why, since when, until when, and which
// request met it on which node.
type cooldown struct {
	Scope     string    `json:"scope"`
	Subject   string    `json:"subject"`
	Kind      string    `json:"kind"`
	Started   time.Time `json:"started"`
	Until     time.Time `json:"until,omitzero"`
	Announced bool      `json:"announced"` // the upstream said how long
	Source    string    `json:"source"`    // what said how long: the name of a header, or the error table
	Status    int       `json:"upstream_status"`
	RequestID string    `json:"request_id"`
	Node      string    `json:"node_id"` // that told of it; empty for this one
}

func cooldownOf(r *schedule.Rest) cooldown {
	return cooldown{
		Scope: r.Scope.String(), Subject: r.Subject, Kind: r.Kind, Started: r.Started.UTC(), Until: r.Until.UTC(),
		Announced: r.Announced, Source: r.Source, Status: r.Status, RequestID: r.RequestID, Node: r.Node,
	}
}

func (n *Node) cooldowns(now time.Time) []cooldown {
	list := []cooldown{}
	for _, r := range n.scheduler.Rests(now) {
		list = append(list, cooldownOf(&r))
	}
	slices.SortFunc(list, func(a, b cooldown) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Node, b.Node))
	})
	return list
}

// serveRuntime answers with the running state of the node.
func (n *Node) serveRuntime(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	out := runtimeReport{
		Time: now.UTC(), Node: n.subscriber.NodeID(), Nodes: n.nodes(),
		Affinity: n.affinity.Len(), Credentials: []runtimeState{}, Cooldowns: n.cooldowns(now), Breakers: []breaker{}, Limits: []limit{},
	}
	for _, a := range n.scheduler.Accounts(now) {
		out.Credentials = append(out.Credentials, stateOf(&a))
	}
	for _, b := range n.scheduler.Breakers(now) {
		out.Breakers = append(out.Breakers, breaker{Key: b.Key, State: b.State, Until: b.Until.UTC(), Times: b.Times, Node: b.Node})
	}
	slices.SortFunc(out.Breakers, func(a, b breaker) int { return cmp.Compare(a.Key, b.Key) })
	for _, l := range n.scheduler.Limits(now) {
		out.Limits = append(out.Limits, limit{Key: l.Key, Dim: l.Dim, Used: l.Used, Limit: l.Limit, Learned: l.Learned})
	}
	slices.SortFunc(out.Limits, func(a, b limit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Dim, b.Dim)) })
	writeJSON(w, http.StatusOK, out)
}

func stateOf(a *schedule.AccountState) runtimeState {
	s := runtimeState{
		Credential: a.Credential, InFlight: a.InFlight, Waiting: a.Waiting, Failures: a.Failures,
		Health: []health{}, Rotation: []rotation{},
	}
	if a.Invalid != nil {
		c := cooldownOf(a.Invalid)
		s.AuthInvalid = &c
	}
	if q := a.Quota; q != nil {
		s.Quota = &quota{Left: q.Left, Reset: q.Reset.UTC()}
	}
	for _, h := range a.Health {
		s.Health = append(s.Health, health{Model: h.Model, TTFT: h.TTFT, ErrorRate: h.ErrorRate, Samples: h.Samples})
	}
	for _, r := range a.Rotation {
		s.Rotation = append(s.Rotation, rotation{Upstream: r.Upstream, Model: r.Model, Stage: r.Stage, Credit: r.Credit})
	}
	return s
}
