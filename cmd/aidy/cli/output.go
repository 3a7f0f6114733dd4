package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/document"
	"github.com/aidy-gateway/aidy-gateway/cmd/aidy/resource"
	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// table prints rows under headers, aligned. Without rows it says so on stderr.
func (a *app) table(headers []string, rows [][]string) error {
	if len(rows) == 0 {
		a.progress("nothing to show")
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		for i, c := range cells {
			if c == "" {
				c = "-"
			}
			// What people wrote must not break the table or drive the terminal.
			c = strings.Map(printable, c)
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, c)
		}
		fmt.Fprintln(w)
	}
	line(headers)
	for _, r := range rows {
		line(r)
	}
	return w.Flush()
}

func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// one prints a message in the chosen form; a table of one thing is its YAML.
func (a *app) one(m proto.Message) error {
	if a.globals.Output == "json" {
		return document.JSON(a.Stdout, m)
	}
	return document.YAML(a.Stdout, m)
}

// list writes messages as they come: documents of YAML, or one array of JSON.
type list struct {
	a *app
	n int
}

func (l *list) add(m proto.Message) error {
	l.n++
	if l.a.globals.Output == "yaml" {
		if l.n > 1 {
			fmt.Fprintln(l.a.Stdout, "---")
		}
		return document.YAML(l.a.Stdout, m)
	}
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	var v json.RawMessage = b
	if b, err = json.MarshalIndent(v, "  ", "  "); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	before := ",\n  "
	if l.n == 1 {
		before = "[\n  "
	}
	_, err = fmt.Fprintf(l.a.Stdout, "%s%s", before, b)
	return err
}

func (l *list) end() error {
	if l.a.globals.Output != "json" {
		return nil
	}
	text := "\n]\n"
	if l.n == 0 {
		text = "[]\n"
	}
	_, err := fmt.Fprint(l.a.Stdout, text)
	return err
}

// plain prints a value that is no message of the contract.
func (a *app) plain(v any) error {
	if a.globals.Output == "yaml" {
		enc := yaml.NewEncoder(a.Stdout)
		enc.SetIndent(2)
		if err := enc.Encode(v); err != nil {
			return err
		}
		return enc.Close()
	}
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}

// change prints what a write did, for people.
func (a *app) change(ctx context.Context, c *admin, r *adminv1.ChangeResult) {
	if r == nil {
		return
	}
	names := resource.NewNames(c.resources, a.kinds)
	made := map[string]string{} // what is new is not there to be asked for in a dry run
	for _, d := range r.GetDiff() {
		if d.GetName() != "" {
			made[d.GetId()] = d.GetName()
		}
	}
	for _, line := range warningLines(r.GetWarnings(), made) {
		a.progress("%s", line)
	}
	for _, i := range r.GetImpact() {
		for _, part := range []struct {
			word  string
			items []string
		}{
			{"gains models", i.GetModelsGained()},
			{"loses models", i.GetModelsLost()},
			{"gains routes", i.GetRoutesGained()},
			{"loses routes", i.GetRoutesLost()},
		} {
			if len(part.items) > 0 {
				tenant := orElse(made[i.GetTenantId()], names.Of(ctx, "tenant_id", i.GetTenantId()))
				a.progress("tenant %s %s: %s", tenant, part.word, strings.Join(part.items, ", "))
			}
		}
	}
	for _, n := range r.GetRefusedNodes() {
		a.progress("node %s refused it:", n.GetNodeId())
		for _, v := range n.GetViolations() {
			for _, line := range violation(v) {
				a.progress("%s", line)
			}
		}
	}
	if len(r.GetAckedNodes())+len(r.GetPendingNodes())+len(r.GetRefusedNodes()) > 0 {
		a.progress("nodes: %d run it, %d pending, %d refused", len(r.GetAckedNodes()), len(r.GetPendingNodes()), len(r.GetRefusedNodes()))
	}
}

// mostSubjects bounds how many resources one line of a warning names.
const mostSubjects = 5

// warningLines puts warnings that say the same of several resources on one line. made
// are names by id.
func warningLines(warnings []*adminv1.Warning, made map[string]string) []string {
	type line struct {
		before, after string
		subjects      []string
	}
	var lines []*line
	known := map[string]*line{}
	for _, w := range warnings {
		before, subject, after := splitQuoted(w.GetMessage())
		if subject == "" && w.GetId() != "" {
			// The message names nothing: the resource is beside it.
			after, subject = ": "+after, strings.TrimSpace(w.GetKind()+" "+orElse(made[w.GetId()], w.GetId()))
		}
		key := w.GetCode() + "\x00" + before + "\x00" + after
		l := known[key]
		if l == nil {
			l = &line{before: "warning " + w.GetCode() + ": " + before, after: after}
			known[key] = l
			lines = append(lines, l)
		}
		if subject != "" && !slices.Contains(l.subjects, subject) {
			l.subjects = append(l.subjects, subject)
		}
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		more := ""
		if n := len(l.subjects) - mostSubjects; n > 0 {
			l.subjects, more = l.subjects[:mostSubjects], fmt.Sprintf(" and %d more", n)
		}
		out[i] = l.before + strings.Join(l.subjects, ", ") + more + l.after
	}
	return out
}

// splitQuoted cuts a message around the first word in double quotes, which stay with
// the word. Without one everything is after it.
func splitQuoted(s string) (before, quoted, after string) {
	start := strings.IndexByte(s, '"')
	if start < 0 {
		return "", "", s
	}
	end := strings.IndexByte(s[start+1:], '"')
	if end < 0 {
		return "", "", s
	}
	end += start + 2
	return s[:start], s[start:end], s[end:]
}

// settled says where a write ended, as the end of a sentence.
func settled(r *adminv1.ChangeResult) string {
	switch {
	case r.GetValidatedOnly():
		return " (checked against generation " + fmt.Sprint(r.GetGeneration()) + "; nothing was stored)"
	case r.GetUnchanged():
		return " (nothing differs from generation " + fmt.Sprint(r.GetGeneration()) + ")"
	}
	return " in generation " + fmt.Sprint(r.GetGeneration())
}
