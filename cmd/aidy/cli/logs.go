package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type logsCommand struct {
	List logsList `cmd:"" help:"List requests, the newest first."`
	Get  logsGet  `cmd:"" help:"Show everything that is kept of one request."`
}

func (logsCommand) Help() string {
	return `The request log has one row a request, without its content.

Examples:

    aidy logs list --tenant dev --min-status 500
    aidy logs get req_01j9z8k7
    aidy explain req_01j9z8k7`
}

type logsList struct {
	Since       time.Duration `help:"How far back; at most 24h." default:"1h" placeholder:"TIME"`
	Before      time.Duration `help:"Leave out the newest of it: rows of the last TIME." default:"0" placeholder:"TIME"`
	Tenant      string        `short:"t" help:"Name or id of the tenant." env:"AIDY_TENANT" placeholder:"TENANT"`
	Key         string        `help:"Name or id of the key that called." placeholder:"KEY"`
	Consumer    string        `short:"c" help:"Name or id of the consumer." placeholder:"CONSUMER"`
	Route       string        `help:"Name or id of the route." placeholder:"ROUTE"`
	Model       string        `help:"Model that was asked for, or that served." placeholder:"NAME"`
	Credential  string        `help:"Name or id of the credential that served." placeholder:"CREDENTIAL"`
	Outcome     string        `help:"ok, or the class of a failure, such as rate_limited." placeholder:"NAME"`
	Code        string        `help:"Code that the client was told." placeholder:"NAME"`
	MinStatus   int32         `help:"Least HTTP status." default:"0" placeholder:"N"`
	MinAttempts int32         `help:"Least number of attempts." default:"0" placeholder:"N"`
	Slower      time.Duration `help:"Requests that took at least so long." default:"0" placeholder:"TIME"`
	Limit       int           `help:"At most so many." default:"50" placeholder:"N"`
}

func (logsList) Help() string {
	return `TRIES are attempts at providers, MS is to the end of the answer, and TIMES is how many equal refusals the row stands for.

Examples:

    aidy logs list --since 24h --min-attempts 2
    aidy logs list --model gpt-5 --slower 10s -o json | jq -r '.[].request_id'`
}

// logPage is how many rows are asked for at a time.
const logPage = 500

func (c *logsList) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Since <= 0 || c.Before < 0 {
		return usage("--limit and --since must be above 0, and --before not below")
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	to := a.Now().Add(-c.Before)
	req := &adminv1.ListRequestLogsRequest{
		Model: c.Model, Outcome: c.Outcome, Code: c.Code, MinStatus: c.MinStatus, MinAttempts: c.MinAttempts, MinDurationMs: c.Slower.Milliseconds(),
		From: timestamppb.New(a.Now().Add(-c.Since)), To: timestamppb.New(to),
	}
	if err := c.who(ctx, a, conn, req); err != nil {
		return err
	}
	var rows [][]string
	out, n := list{a: a}, 0
	names := resource.NewNames(conn.resources, a.kinds)
	for n < c.Limit {
		req.PageSize = int32(min(c.Limit-n, logPage))
		res, err := conn.logs.ListRequestLogs(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range res.GetRequestLogs() {
			n++
			if a.globals.Output != "table" {
				if err := out.add(r); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, logRow(r, names.Of(ctx, "credential_id", r.GetCredentialId())))
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if req.GetPageToken() != "" {
		a.progress("there are more than %d; raise --limit", c.Limit)
	}
	if a.globals.Output != "table" {
		return out.end()
	}
	return a.table([]string{"TIME", "REQUEST", "STATUS", "OUTCOME", "MODEL", "SERVED BY", "TRIES", "MS", "IN", "CACHED", "OUT", "TIMES"}, rows)
}

// who fills in the resources that the rows must be of.
func (c *logsList) who(ctx context.Context, a *app, conn *admin, req *adminv1.ListRequestLogsRequest) error {
	for _, f := range []struct {
		kind, word, parent string
		id                 *string
	}{
		{"tenant", c.Tenant, "", &req.TenantId},
		{"consumer", c.Consumer, "", &req.ConsumerId},
		{"key", c.Key, c.Consumer, &req.ApiKeyId},
		{"route", c.Route, "", &req.RouteId},
		{"credential", c.Credential, "", &req.CredentialId},
	} {
		var err error
		if *f.id, err = a.idOf(ctx, conn, f.kind, f.word, req.GetTenantId(), f.parent); err != nil {
			return err
		}
	}
	return nil
}

// logRow is a line of the table; servedBy is the credential's name, or its id.
func logRow(r *adminv1.RequestLog, servedBy string) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		stamp(r.GetCreateTime()), r.GetRequestId(), number(int64(r.GetStatus())), r.GetOutcome(), r.GetModel(), servedBy,
		number(int64(r.GetAttempts())), number(r.GetDurationMs()), number(r.GetInputTokens()), number(r.GetCachedTokens()),
		number(r.GetOutputTokens()), number(r.GetCount()),
	}
}

type logsGet struct {
	ID string `arg:"" help:"Id of the request." placeholder:"ID"`
}

func (logsGet) Help() string {
	return `The decision and what a replay needs are long: they are shown with -o yaml and -o json alone.

Examples:

    aidy logs get req_01j9z8k7
    aidy logs get req_01j9z8k7 -o json`
}

func (c *logsGet) Run(ctx context.Context, a *app) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	res, err := conn.logs.GetRequest(ctx, &adminv1.GetRequestRequest{RequestId: c.ID})
	if err != nil {
		return err
	}
	row := res.GetRequestLog()
	if row == nil {
		return fmt.Errorf("the answer has no request")
	}
	if r := row.GetRecord(); r != nil && a.globals.Output == "table" {
		if r.GetDecisionJson() != "" {
			a.progress("its decision is kept: `aidy explain %s` shows it", c.ID)
		}
		r.DecisionJson, r.FeaturesJson = "", ""
	}
	return a.one(row)
}
