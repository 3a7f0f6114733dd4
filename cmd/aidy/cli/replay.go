package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/dataplane"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type replayCommand struct {
	Bundle string        `help:"File with the draft: a bundle, as for apply. Without it the current configuration is decided twice, which shows how well a replay fits." placeholder:"FILE"`
	Since  time.Duration `help:"How far back." default:"1h" placeholder:"TIME"`
	Until  time.Duration `help:"Leave out the newest of it: requests of the last TIME." default:"0" placeholder:"TIME"`
	Tenant string        `short:"t" help:"Name or id of the only tenant whose requests are decided." env:"AIDY_TENANT" placeholder:"TENANT"`
}

func (replayCommand) Help() string {
	return `Decides the requests of the request log again, in the order of their times: under the current configuration and as if a draft had been applied. Both begin with nothing cached and no load, and go on with their own choices, so what differs is the draft's doing. Nothing is sent and nothing is changed.

Examples:

    aidy replay --since 24h --bundle draft.yaml
    aidy replay --since 1h --tenant dev --bundle draft.yaml -o json | jq .cost_delta_nanos`
}

func (c *replayCommand) Run(ctx context.Context, a *app) error {
	if c.Since <= 0 || c.Until < 0 || c.Until >= c.Since {
		return usage("--since must be above 0, and above --until")
	}
	now := a.Now()
	req := &adminv1.ReplayRequest{
		Since: timestamppb.New(now.Add(-c.Since)), Until: timestamppb.New(now.Add(-c.Until)),
	}
	if c.Bundle != "" {
		var err error
		if req.Draft, err = a.readBundle(c.Bundle); err != nil {
			return err
		}
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	if req.TenantId, err = a.idOf(ctx, conn, "tenant", c.Tenant, "", ""); err != nil {
		return err
	}
	stream, err := conn.config.Replay(ctx, req)
	if err != nil {
		return err
	}
	for {
		res, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return errors.New("the replay ended without a summary")
		}
		if err != nil {
			return err
		}
		if !res.GetDone() {
			a.progress("%d requests decided", res.GetRows())
			continue
		}
		if a.globals.Output != "table" {
			var v any
			if err := json.Unmarshal([]byte(res.GetSummaryJson()), &v); err != nil {
				return fmt.Errorf("read the summary: %w", err)
			}
			return a.plain(v)
		}
		s := new(dataplane.ReplaySummary)
		if err := json.Unmarshal([]byte(res.GetSummaryJson()), s); err != nil {
			return fmt.Errorf("read the summary: %w", err)
		}
		return a.replay(s)
	}
}

// replay prints a summary for people.
func (a *app) replay(s *dataplane.ReplaySummary) error {
	line := func(format string, args ...any) { fmt.Fprintf(a.Stdout, format+"\n", args...) }
	line("%d requests, %d decided again", s.Rows, s.Decided)
	for _, x := range s.Skipped {
		line("  %d skipped: %s", x.Rows, x.Why)
	}
	if s.Decided == 0 {
		return nil
	}
	line("the current configuration sends %s to the account that served them then", share(s.Reproduced, s.Decided))
	if s.Rerouted > 0 {
		line("it leads %s to another model than then", share(s.Rerouted, s.Decided))
	}
	for _, side := range []struct {
		name string
		t    *dataplane.SideTotals
	}{{"the current configuration", &s.Before}, {"the draft", &s.After}} {
		if by := side.t.By; side.t.Uncertain > 0 {
			line("uncertain under %s: %s, led by what is not recorded: %d by a header, %d by a member of the body, %d by the name of a tool, %d by the effort of reasoning, %d by the conversation",
				side.name, share(side.t.Uncertain, s.Decided), by.Header, by.BodyField, by.ToolName, by.Effort, by.Root)
		}
	}
	line("\nunder the draft")
	line("  %s go to another account, %d of them to another provider or model, %d in another protocol",
		share(s.Changed.Account, s.Decided), s.Changed.Target, s.Changed.Protocol)
	line("  %d are refused that were served, %d are served that were refused", s.Refusals.New, s.Refusals.Gone)
	for _, r := range s.Refusals.Reasons {
		line("    %s: %d new, %d gone", r.Reason, r.New, r.Gone)
	}
	line("  requests that both serve cost %s more", usd(s.CostDeltaNanos))
	line("")
	rows := [][]string{}
	for _, side := range []struct {
		name string
		t    dataplane.SideTotals
	}{{"current", s.Before}, {"draft", s.After}} {
		t := side.t
		rows = append(rows, []string{
			side.name, strconv.FormatInt(t.Served, 10), strconv.FormatInt(t.Refused, 10), strconv.FormatInt(t.PromptTokens, 10),
			share(t.HitTokens, t.PromptTokens), usd(t.CostNanos), strconv.FormatInt(t.Unpriced, 10),
		})
	}
	if err := a.table([]string{"SIDE", "SERVED", "REFUSED", "PROMPT", "CACHED", "COST", "UNPRICED"}, rows); err != nil {
		return err
	}
	if len(s.Changes) == 0 {
		line("\nno request goes elsewhere")
		return nil
	}
	line("")
	rows = rows[:0]
	for _, c := range s.Changes {
		rows = append(rows, []string{
			strconv.FormatInt(c.Requests, 10), c.Model, c.From, c.To, usd(c.CostDeltaNanos), strconv.FormatInt(c.HitDelta, 10), strings.Join(c.Examples[:min(1, len(c.Examples))], ""),
		})
	}
	if err := a.table([]string{"REQUESTS", "MODEL", "FROM", "TO", "COST", "CACHED", "FOR EXAMPLE"}, rows); err != nil {
		return err
	}
	if s.OtherMoves > 0 {
		line("%d further requests move in other ways", s.OtherMoves)
	}
	line("\n%s", s.Assumptions)
	return nil
}

func share(n, of int64) string {
	if of == 0 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(of))
}

// usd writes nano-USD with its sign.
func usd(nanos int64) string {
	sign, n := "", nanos
	if n < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%06d USD", sign, n/1e9, n%1e9/1e3)
}
