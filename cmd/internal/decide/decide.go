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
	"github.com/aidy-gateway/aidy-gateway/dataplane/snapshot"
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
	p, err := planner(shards, asked.Generation)
	if err != nil {
		return nil, err
	}
	rec, f := p.Explain(q, time.Now())
	if f != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, f.Text())
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

func planner(shards []proto.Message, generation uint64) (*dataplane.Planner, error) {
	view, err := snapshot.Static(dataplane.Builders(), sealed{}, shards...)
	if err != nil {
		return nil, fmt.Errorf("build the configuration: %w", err)
	}
	view.Policy.Generation, view.Identity.Generation = generation, generation
	return dataplane.NewPlanner(view), nil
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
