// Package decide lets a control plane decide about calls with the code that nodes run:
// the two planes do not know each other, so programs bring them together.
package decide

import (
	"encoding/json"
	"fmt"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/proto"

	"github.com/aidy-gateway/aidy-gateway/controlplane/admin"
	"github.com/aidy-gateway/aidy-gateway/dataplane"
	"github.com/aidy-gateway/aidy-gateway/dataplane/decision"
	"github.com/aidy-gateway/aidy-gateway/dataplane/fault"
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
	ledgerv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/ledger/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/secret"
)

// Decider implements admin.Decider. Its zero value is ready; it is safe for concurrent
// use.
type Decider struct{}

var _ admin.Decider = Decider{}

// Explain implements admin.Decider.
func (Decider) Explain(shards []proto.Message, asked admin.Asked) ([]byte, error) {
	q := new(dataplane.Question)
	if asked.QuestionJSON != "" {
		var f error
		if q, f = question(asked.QuestionJSON); f != nil {
			return nil, f
		}
	}
	for _, x := range [...]struct {
		to *string
		v  string
	}{{&q.Tenant, asked.Tenant}, {&q.Route, asked.Route}, {&q.Model, asked.Model}} {
		if x.v != "" {
			*x.to = x.v
		}
	}
	v, err := view(shards, asked.Generation)
	if err != nil {
		return nil, err
	}
	p := dataplane.NewPlanner(v)
	var rec *decision.Record
	if asked.FeaturesJSON != "" {
		f := new(decision.Features)
		if err := json.Unmarshal([]byte(asked.FeaturesJSON), f); err != nil {
			return nil, fmt.Errorf("read the features of a request: %w", err)
		}
		rec = p.ExplainAgain(f, time.Now())
	} else {
		var f *fault.Error
		if rec, f = p.Explain(q, time.Now()); f != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, f.Text())
		}
	}
	out, err := json.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("encode a decision: %w", err)
	}
	return out, nil
}

func question(text string) (*dataplane.Question, error) {
	q, f := dataplane.ReadQuestion([]byte(text))
	if f != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, f.Text())
	}
	return q, nil
}

func view(shards []proto.Message, generation uint64) (*snapshot.View, error) {
	v, err := snapshot.Static(dataplane.Builders(), sealed{}, shards...)
	if err != nil {
		return nil, fmt.Errorf("build the configuration: %w", err)
	}
	v.Policy.Generation, v.Identity.Generation = generation, generation
	return v, nil
}

// sealed leaves every secret closed: that there is one is all that decisions need.
type sealed struct{}

// Open implements snapshot.Opener.
func (sealed) Open(string, *syncv1.SealedSecret) (secret.Text, error) {
	return secret.New("sealed"), nil
}

// OpenProxy implements snapshot.Opener.
func (sealed) OpenProxy(string, *syncv1.SealedSecret) (secret.Text, error) {
	return secret.New("sealed"), nil
}

// Replay implements admin.Decider.
func (Decider) Replay(current, draft []proto.Message, rows func(fn func(*ledgerv1.RequestRecord) error) error, seen func(rows int64) error) ([]byte, error) {
	before, err := view(current, 0)
	if err != nil {
		return nil, err
	}
	after, err := view(draft, 0)
	if err != nil {
		return nil, err
	}
	r, n := dataplane.NewReplay(before, after), int64(0)
	if err := rows(func(rec *ledgerv1.RequestRecord) error {
		r.Add(rec)
		n++
		return seen(n)
	}); err != nil {
		return nil, err
	}
	out, err := json.Marshal(r.Summary())
	if err != nil {
		return nil, fmt.Errorf("encode the summary of a replay: %w", err)
	}
	return out, nil
}
