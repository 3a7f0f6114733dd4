package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

type nodesCommand struct {
	List      nodesList      `cmd:"" help:"List nodes with what they run."`
	Get       nodesGet       `cmd:"" help:"Show one node."`
	JoinToken nodesJoinToken `cmd:"" help:"Make a token with which one node joins; it is shown this once."`
	Revoke    nodesRevoke    `cmd:"" help:"End the certificate of a node for ever."`
}

func (nodesCommand) Help() string {
	return `Examples:

    aidy nodes list
    aidy nodes join-token --label zone=eu-1
    aidy nodes revoke edge-1`
}

type nodesList struct {
	Limit int `help:"At most so many; 0 is all." default:"0" placeholder:"N"`
}

func (nodesList) Help() string {
	return `RUNNING and TARGET are generations of the policy configuration. Keys, consumers, and what is switched on or off have generations of their own, which -o yaml shows, too.

Examples:

    aidy nodes list
    aidy nodes list -o json | jq -r '.[] | select(.state != "NODE_STATE_CURRENT").name'`
}

func (c *nodesList) Run(ctx context.Context, a *app) error {
	if c.Limit < 0 {
		return usage("--limit: %d is negative", c.Limit)
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	var (
		rows  [][]string
		out   = list{a: a}
		token string
		n     int
	)
pages:
	for {
		res, err := conn.nodes.ListNodes(ctx, &adminv1.ListNodesRequest{PageSize: resource.PageSize, PageToken: token})
		if err != nil {
			return err
		}
		for _, node := range res.GetNodes() {
			if c.Limit > 0 && n == c.Limit {
				a.progress("there are more than %d; raise --limit", c.Limit)
				break pages
			}
			n++
			if a.globals.Output != "table" {
				if err := out.add(node); err != nil {
					return err
				}
				continue
			}
			rows = append(rows, nodeRow(node))
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	if a.globals.Output != "table" {
		return out.end()
	}
	if n == 0 {
		a.progress("no nodes; `aidy nodes join-token` lets one join")
		return nil
	}
	return a.table([]string{"NAME", "STATE", "VERSION", "RUNNING", "TARGET", "LAST-SEEN", "ID"}, rows)
}

func nodeRow(n *adminv1.Node) []string {
	running, target := "", ""
	for _, v := range n.GetViews() {
		if v.GetView() == syncv1.View_VIEW_STABLE {
			running, target = fmt.Sprint(v.GetRunning().GetGeneration()), fmt.Sprint(v.GetTarget().GetGeneration())
		}
	}
	state := n.GetState()
	word := document.EnumName(state.Descriptor().Values().ByNumber(0))
	if d := state.Descriptor().Values().ByNumber(state.Number()); d != nil {
		word = document.EnumName(d)
	}
	return []string{n.GetName(), word, n.GetVersion(), running, target, stamp(n.GetLastSeenTime()), n.GetId()}
}

type nodesGet struct {
	Node string `arg:"" help:"Name or id of the node."`
}

func (nodesGet) Help() string {
	return `Examples:

    aidy nodes get nod_01j9zq4m6k7f5x8v2w3y4z5a6b
    aidy nodes get edge-1 -o json`
}

func (c *nodesGet) Run(ctx context.Context, a *app) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	id, err := findNode(ctx, conn, c.Node)
	if err != nil {
		return err
	}
	res, err := conn.nodes.GetNode(ctx, &adminv1.GetNodeRequest{Id: id})
	if err != nil {
		return err
	}
	return a.one(res.GetNode())
}

// findNode returns the id of a node that a word names.
func findNode(ctx context.Context, c *admin, word string) (string, error) {
	if resource.IsNodeID(word) {
		return word, nil
	}
	var ids []string
	for token := ""; ; {
		res, err := c.nodes.ListNodes(ctx, &adminv1.ListNodesRequest{PageSize: resource.PageSize, PageToken: token})
		if err != nil {
			return "", err
		}
		for _, n := range res.GetNodes() {
			if n.GetName() == word {
				ids = append(ids, n.GetId())
			}
		}
		if token = res.GetNextPageToken(); token == "" {
			break
		}
	}
	switch len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", fmt.Errorf("there is no node %q; `aidy nodes list` lists them", word)
	}
	return "", fmt.Errorf("%d nodes are named %q; give one of these ids: %v", len(ids), word, ids)
}

type nodesJoinToken struct {
	Name  string            `help:"Name of the node, for people. The node states its name itself: AIDY_NAME, or else its host's." placeholder:"NAME"`
	Label map[string]string `short:"l" help:"Labels that the node gets." placeholder:"KEY=VALUE"`
	TTL   time.Duration     `help:"How long it can be used, at most 24h." default:"1h" placeholder:"TIME"`
}

func (nodesJoinToken) Help() string {
	return `The token goes to standard output and everything else to standard error. It works once.

Examples:

    aidy nodes join-token --label zone=eu-1
    export AIDY_CONTROL_PLANE_JOIN_TOKEN=$(aidy nodes join-token)`
}

func (c *nodesJoinToken) Run(ctx context.Context, a *app) error {
	if c.TTL < time.Second || c.TTL > 24*time.Hour {
		return usage("--ttl: %s is not between 1s and 24h", c.TTL)
	}
	conn, err := a.connect()
	if err != nil {
		return err
	}
	res, err := conn.nodes.CreateJoinToken(ctx, &adminv1.CreateJoinTokenRequest{Name: c.Name, Labels: c.Label, TtlS: int64(c.TTL / time.Second)})
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.one(res)
	}
	name := ""
	if c.Name != "" {
		name = "AIDY_NAME=" + c.Name + " "
	}
	a.progress("one node can join with this token until %s; start it with\n  %sAIDY_CONTROL_PLANE_ENDPOINTS=https://CONTROL-PLANE:8082 AIDY_CONTROL_PLANE_JOIN_TOKEN=TOKEN aidy-dataplane", stamp(res.GetJoinToken().GetExpireTime()), name)
	_, err = fmt.Fprintln(a.Stdout, res.GetToken())
	return err
}

type nodesRevoke struct {
	Node   string `arg:"" help:"Name or id of the node."`
	Reason string `short:"m" help:"Why; kept in the audit." placeholder:"TEXT"`
}

func (nodesRevoke) Help() string {
	return `Its streams close, and the keys under which secrets are delivered change. It can join again with a new token.

Examples:

    aidy nodes revoke edge-1 -m "machine lost"`
}

func (c *nodesRevoke) Run(ctx context.Context, a *app) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	id, err := findNode(ctx, conn, c.Node)
	if err != nil {
		return err
	}
	res, err := conn.nodes.RevokeNode(ctx, &adminv1.RevokeNodeRequest{Id: id, Reason: c.Reason})
	if err != nil {
		return err
	}
	if a.globals.Output != "table" {
		return a.one(res)
	}
	_, err = fmt.Fprintf(a.Stdout, "revoked node %s\n", id)
	return err
}
