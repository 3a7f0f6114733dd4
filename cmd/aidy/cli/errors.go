package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
)

// explain turns an error into lines for a person: what was wrong, then where, then
// what to do.
func explain(err error) []string {
	if errors.Is(err, context.Canceled) {
		return []string{"interrupted"}
	}
	rpc, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return strings.Split(err.Error(), "\n")
	}
	info := infoOf(rpc)
	message := rpc.Message()
	if message == "" {
		message = "the control plane gave no reason"
	}
	// What was being done stands before the error of the API, if it was wrapped.
	doing := strings.TrimSuffix(err.Error(), rpc.Error())
	if repeats(message, info.GetViolations()) {
		// The lines below say it with the name of the rule.
		message = "what is given breaks a rule"
		if n := len(info.GetViolations()); n > 1 {
			message = fmt.Sprintf("what is given breaks %d rules", n)
		}
	}
	lines := []string{fmt.Sprintf("%s%s: %s", doing, rpc.Code(), message)}
	for _, v := range info.GetViolations() {
		lines = append(lines, violation(v)...)
	}
	for _, r := range info.GetReferrers() {
		if id := r[strings.LastIndexByte(r, '/')+1:]; !strings.Contains(message, id) {
			lines = append(lines, "  still named by "+r)
		}
	}
	if len(info.GetConfirm()) > 0 {
		lines = append(lines, "  if that is meant, repeat with --confirm "+strings.Join(info.GetConfirm(), ","))
	}
	if p := info.GetPermission(); p != "" {
		lines = append(lines, "  missing permission: "+p)
	}
	if l := info.GetLimit(); l != "" {
		lines = append(lines, fmt.Sprintf("  limit %s: %d, at most %d", l, info.GetValue(), info.GetMax()))
	}
	if g := info.GetCurrentGeneration(); g != 0 {
		lines = append(lines, fmt.Sprintf("  the configuration is at generation %d", g))
	}
	if e := info.GetCurrentEtag(); e != "" {
		lines = append(lines, "  its etag is now "+e+"; read it again and repeat the change")
	}
	if ms := info.GetRetryAfterMs(); ms > 0 {
		lines = append(lines, fmt.Sprintf("  try again in %d ms", ms))
	}
	return append(lines, advice(rpc, info)...)
}

// repeats reports whether a message says all that the violations say.
func repeats(message string, violations []*syncv1.Violation) bool {
	for _, v := range violations {
		if v.GetHint() == "" || !strings.Contains(message, v.GetHint()) {
			return false
		}
	}
	return len(violations) > 0
}

// advice says what to do about errors that come without detail.
func advice(err *connect.Error, info *adminv1.ErrorInfo) []string {
	switch {
	case err.Code() == connect.CodeUnauthenticated:
		return []string{"  give the token of an administrator with --token or AIDY_ADMIN_TOKEN"}
	case err.Code() == connect.CodeUnavailable && info == nil:
		return []string{"  is the control plane running, and is --admin-url its address? `aidy dev` starts one on this machine"}
	}
	for _, v := range info.GetViolations() {
		if v.GetFieldPath() == "tenant_id" && v.GetRule() == "string.min_len" {
			return []string{"  say whose it is: -t TENANT, AIDY_TENANT, or tenant_id=TENANT; `aidy get tenants` lists them"}
		}
	}
	return nil
}

func infoOf(err *connect.Error) *adminv1.ErrorInfo {
	for _, d := range err.Details() {
		m, uerr := connectproto.UnmarshalErrorDetail(d)
		if uerr != nil {
			continue
		}
		if info, ok := m.(*adminv1.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// violation prints what breaks a rule on one line, and what to do on the next.
func violation(v *syncv1.Violation) []string {
	var b strings.Builder
	b.WriteString("  ")
	if v.GetKind() != "" {
		b.WriteString(strings.TrimSpace(v.GetKind()+" "+v.GetName()) + ": ")
	}
	if v.GetFieldPath() != "" {
		b.WriteString(v.GetFieldPath() + ": ")
	}
	hint := v.GetHint()
	if v.GetFieldPath() != "" {
		hint = strings.TrimPrefix(hint, v.GetFieldPath()+": ") // rules of the contract name it themselves
	}
	lines := []string{b.String() + orElse(hint, "not valid")}
	if v.GetRule() != "" {
		lines[0] += " (" + v.GetRule() + ")"
	}
	return lines
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
