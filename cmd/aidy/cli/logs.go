package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

type logsCommand struct {
	List logsList `cmd:"" help:"List requests, the newest first."`
	Get  logsGet  `cmd:"" help:"Show everything that is kept of one request."`
}

func (logsCommand) Help() string {
	return `The request log has one row a request, without its content.

Examples:

    aidy logs list --tenant ten_01j9z8k7 --min-status 500
    aidy logs get req_01j9z8k7
    aidy explain req_01j9z8k7`
}

type logsList struct {
	Since       time.Duration `help:"How far back; at most 24h." default:"1h" placeholder:"TIME"`
	Before      time.Duration `help:"Leave out the newest of it: rows of the last TIME." default:"0" placeholder:"TIME"`
	Tenant      string        `help:"Id of the tenant." placeholder:"ID"`
	Key         string        `help:"Id of the key that called." placeholder:"ID"`
	Consumer    string        `help:"Id of the consumer." placeholder:"ID"`
	Route       string        `help:"Id of the route." placeholder:"ID"`
	Model       string        `help:"Model that was asked for, or that served." placeholder:"NAME"`
	Credential  string        `help:"Id of the credential that served." placeholder:"ID"`
	Outcome     string        `help:"ok, or the class of a failure, such as rate_limited." placeholder:"NAME"`
	Code        string        `help:"Code that the client was told." placeholder:"NAME"`
	MinStatus   int32         `help:"Least HTTP status." default:"0" placeholder:"N"`
	MinAttempts int32         `help:"Least number of attempts." default:"0" placeholder:"N"`
	Slower      time.Duration `help:"Requests that took at least so long." default:"0" placeholder:"TIME"`
	Limit       int           `help:"At most so many." default:"50" placeholder:"N"`
}

func (logsList) Help() string {
	return `Examples:

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
		TenantId: c.Tenant, ApiKeyId: c.Key, ConsumerId: c.Consumer, RouteId: c.Route, Model: c.Model, CredentialId: c.Credential,
		Outcome: c.Outcome, Code: c.Code, MinStatus: c.MinStatus, MinAttempts: c.MinAttempts, MinDurationMs: c.Slower.Milliseconds(),
		From: timestamppb.New(a.Now().Add(-c.Since)), To: timestamppb.New(to),
	}
	var rows [][]string
	out, n := list{a: a}, 0
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
			rows = append(rows, logRow(r))
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

func logRow(r *adminv1.RequestLog) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		stamp(r.GetCreateTime()), r.GetRequestId(), number(int64(r.GetStatus())), r.GetOutcome(), r.GetModel(), r.GetCredentialId(),
		number(int64(r.GetAttempts())), number(r.GetDurationMs()), number(r.GetInputTokens()), number(r.GetCachedTokens()),
		number(r.GetOutputTokens()), number(r.GetCount()),
	}
}

type logsGet struct {
	ID string `arg:"" help:"Id of the request." placeholder:"ID"`
}

func (logsGet) Help() string {
	return `Examples:

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
	if res.GetRequestLog() == nil {
		return fmt.Errorf("the answer has no request")
	}
	return a.one(res.GetRequestLog())
}
