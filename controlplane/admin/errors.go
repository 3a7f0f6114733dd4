package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	validatev1 "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"

	"github.com/aidy-gateway/aidy-gateway/controlplane/compile"
	"github.com/aidy-gateway/aidy-gateway/controlplane/store"
)

// Reasons of ErrorInfo.
const (
	reasonInvalid    = "VALIDATION_FAILED"
	reasonReferenced = "REFERENCED"
	reasonFrozen     = "FROZEN"
	reasonConfirm    = "CONFIRM_REQUIRED"
	reasonETag       = "ETAG_MISMATCH"
	reasonMoved      = "GENERATION_MOVED"
	reasonLimit      = "LIMIT_EXCEEDED"
	reasonGate       = "GATE_TIMEOUT"
	reasonStoreDown  = "STORE_DOWN"
	reasonExists     = "ALREADY_EXISTS"
	reasonNotFound   = "NOT_FOUND"
)

// maxMessage bounds the text of an error in bytes: it may quote what was sent.
const maxMessage = 4 << 10

// invalidError is everything that is wrong with what an author sent.
type invalidError struct{ violations []*syncv1.Violation }

func (e *invalidError) Error() string {
	const shown = 5
	var b strings.Builder
	for i, v := range e.violations {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", len(e.violations)-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(sentence(v))
	}
	return b.String()
}

// sentence says where a violation is and what to do.
func sentence(v *syncv1.Violation) string {
	where := v.GetKind()
	if v.GetName() != "" {
		where += fmt.Sprintf(" %q", v.GetName())
	}
	if v.GetFieldPath() != "" {
		where = strings.TrimSpace(where + " " + v.GetFieldPath())
	}
	if where == "" {
		return v.GetHint()
	}
	return where + ": " + v.GetHint()
}

// wrong is one violation of a resource.
func wrong(m proto.Message, path, rule, format string, args ...any) error {
	v := &syncv1.Violation{FieldPath: path, Rule: rule, Hint: fmt.Sprintf(format, args...)}
	if m != nil {
		v.Kind, v.Name = string(m.ProtoReflect().Descriptor().Name()), text(m, "name")
	}
	return &invalidError{[]*syncv1.Violation{v}}
}

// confirmError asks for a danger to be confirmed.
type confirmError struct{ needs []compile.Need }

func (e *confirmError) Error() string {
	var b strings.Builder
	for i, n := range e.needs {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s; if that is meant, repeat the call with change.confirm %s", n.Reason, n.Confirm)
	}
	return b.String()
}

// mapping turns errors of handlers into what the wire carries. What is not known
// becomes an internal error whose text stays in the log.
func (a *API) mapping() connect.ServerInterceptor {
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			err := next(ctx, spec, stream)
			if err == nil {
				return nil
			}
			mapped := asConnect(err)
			if mapped.Code() == connect.CodeInternal {
				a.log.Error().Err(err).Str("procedure", spec.Procedure).Msg("admin call failed")
			}
			return mapped
		}
	}
}

func asConnect(err error) *connect.Error {
	if ce, ok := errors.AsType[*connect.Error](err); ok && !ce.IsRemote() {
		if bad, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
			return refusal(connect.CodeInvalidArgument, &invalidError{contractViolations(bad)}, nil)
		}
		return ce
	}
	if e, ok := errors.AsType[*invalidError](err); ok {
		return refusal(connect.CodeInvalidArgument, e, nil)
	}
	if e, ok := errors.AsType[*confirmError](err); ok {
		info := &adminv1.ErrorInfo{Reason: reasonConfirm}
		for _, n := range e.needs {
			info.Confirm = append(info.Confirm, n.Confirm)
		}
		return refusal(connect.CodeFailedPrecondition, e, info)
	}
	if e, ok := errors.AsType[*compile.LimitError](err); ok {
		return refusal(connect.CodeResourceExhausted, e, &adminv1.ErrorInfo{Reason: reasonLimit, Limit: e.Limit, Value: e.Value, Max: e.Max})
	}
	return fromStore(err)
}

// fromStore maps what the store fails with.
func fromStore(err error) *connect.Error {
	if e, ok := errors.AsType[*store.ReferencedError](err); ok {
		info := &adminv1.ErrorInfo{Reason: reasonReferenced}
		for _, r := range e.Referrers {
			info.Referrers = append(info.Referrers, r.Kind+"/"+r.Name+"/"+r.ID)
		}
		return refusal(connect.CodeFailedPrecondition, e, info)
	}
	if e, ok := errors.AsType[*store.ETagError](err); ok {
		return refusal(connect.CodeAborted, e, &adminv1.ErrorInfo{Reason: reasonETag, CurrentEtag: e.Current})
	}
	if e, ok := errors.AsType[*store.GenerationError](err); ok {
		return refusal(connect.CodeAborted, e, &adminv1.ErrorInfo{Reason: reasonMoved, CurrentGeneration: e.Current})
	}
	if e, ok := errors.AsType[*store.InvalidError](err); ok {
		v := &syncv1.Violation{Kind: e.Kind, Name: e.ID, FieldPath: e.Field, Rule: "stored", Hint: e.Reason}
		code := connect.CodeInvalidArgument
		if e.Kind == "AdminAccount" && e.Field == "role" {
			code = connect.CodeFailedPrecondition // the last owner stays
		}
		return refusal(code, e, &adminv1.ErrorInfo{Reason: reasonInvalid, Violations: []*syncv1.Violation{v}})
	}
	retry := store.RetryAfter(err).Milliseconds()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refusal(connect.CodeNotFound, innermost(err), &adminv1.ErrorInfo{Reason: reasonNotFound})
	case errors.Is(err, store.ErrAlreadyExists), errors.Is(err, store.ErrIdempotencyReuse):
		return refusal(connect.CodeAlreadyExists, innermost(err), &adminv1.ErrorInfo{Reason: reasonExists})
	case errors.Is(err, store.ErrFrozen):
		return refusal(connect.CodeFailedPrecondition, err, &adminv1.ErrorInfo{Reason: reasonFrozen})
	case errors.Is(err, store.ErrGateTimeout):
		return refusal(connect.CodeUnavailable, store.ErrGateTimeout, &adminv1.ErrorInfo{Reason: reasonGate, RetryAfterMs: retry}).WithCause(err)
	case errors.Is(err, store.ErrStoreDown):
		return refusal(connect.CodeUnavailable, store.ErrStoreDown, &adminv1.ErrorInfo{Reason: reasonStoreDown, RetryAfterMs: retry}).WithCause(err)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, "the caller went away").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, "the deadline of the call passed").WithCause(err)
	}
	return connect.NewError(connect.CodeInternal, "the control plane could not do this; its log says why").WithCause(err)
}

// innermost is the typed error that says what it is about, without the words of
// those who passed it on.
func innermost(err error) error {
	if e, ok := errors.AsType[*store.NotFoundError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*store.ExistsError](err); ok {
		return e
	}
	for _, known := range []error{store.ErrIdempotencyReuse, store.ErrNotFound, store.ErrAlreadyExists} {
		if errors.Is(err, known) {
			return known
		}
	}
	return err
}

func refusal(code connect.Code, err error, info *adminv1.ErrorInfo) *connect.Error {
	if info == nil {
		info = &adminv1.ErrorInfo{Reason: reasonInvalid}
		if e, ok := err.(*invalidError); ok { //nolint:errorlint // made here
			info.Violations = e.violations
		}
	}
	message := err.Error()
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	out := connect.NewError(code, message).WithCause(err)
	if detail, derr := connectproto.NewErrorDetail(info); derr == nil {
		out = out.WithDetail(detail)
	}
	return out
}

// contractViolations are those of the rules that stand in the contracts.
func contractViolations(bad *protovalidate.ValidationError) []*syncv1.Violation {
	var out []*syncv1.Violation
	for _, v := range bad.ToProto().GetViolations() {
		out = append(out, contractViolation(v))
	}
	return out
}

func contractViolation(v *validatev1.Violation) *syncv1.Violation {
	hint := v.GetMessage()
	if hint == "" {
		hint = "the value breaks the rule " + v.GetRuleId()
	}
	return &syncv1.Violation{FieldPath: protovalidate.FieldPathString(v.GetField()), Rule: v.GetRuleId(), Hint: hint}
}

// contractError is an error of the rules of the contracts in our words.
func contractError(err error) error {
	if bad, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
		return &invalidError{contractViolations(bad)}
	}
	return err
}
