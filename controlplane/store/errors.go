package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What a caller tells apart. The types below carry the details and match these
// with errors.Is.
var (
	// ErrNotFound: there is no such row, or none the reader may see.
	ErrNotFound = errors.New("not found")
	// ErrETagMismatch: the row changed since it was read.
	ErrETagMismatch = errors.New("changed since it was read")
	// ErrGenerationMoved: the configuration moved on from the expected generation.
	ErrGenerationMoved = errors.New("the configuration has a newer generation")
	// ErrReferenced: other resources name what was to be deleted.
	ErrReferenced = errors.New("still referenced")
	// ErrAlreadyExists: a value that must be unique is taken.
	ErrAlreadyExists = errors.New("already exists")
	// ErrInvalid: a value cannot be stored.
	ErrInvalid = errors.New("invalid value")
	// ErrIdempotencyReuse: the idempotency key was used for another request.
	ErrIdempotencyReuse = errors.New("the idempotency key was used for another request")
	// ErrFrozen: policy commits are frozen.
	ErrFrozen = errors.New("policy changes are frozen")
	// ErrGateTimeout: another writer held the gate too long. Try again.
	ErrGateTimeout = errors.New("another change is being committed; try again")
	// ErrStoreDown: PostgreSQL cannot be reached or does not answer. Try again.
	ErrStoreDown = errors.New("the configuration store is unavailable")
)

// NotFoundError is ErrNotFound with what was looked for.
type NotFoundError struct{ Kind, ID string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("%s %s not found", e.Kind, e.ID) }
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// ETagError is ErrETagMismatch with the value the row has now.
type ETagError struct{ Kind, ID, Current string }

func (e *ETagError) Error() string {
	return fmt.Sprintf("%s %s changed since it was read (etag is now %s); read it again", e.Kind, e.ID, e.Current)
}
func (e *ETagError) Unwrap() error { return ErrETagMismatch }

// GenerationError is ErrGenerationMoved with where the configuration stands.
type GenerationError struct{ Expected, Current uint64 }

func (e *GenerationError) Error() string {
	return fmt.Sprintf("the configuration is at generation %d, not %d; look at what changed and try again", e.Current, e.Expected)
}
func (e *GenerationError) Unwrap() error { return ErrGenerationMoved }

// Referrer is a resource that names another.
type Referrer struct {
	Kind, ID, Name string
	Field          string
}

// ReferencedError is ErrReferenced with who refers; at most maxReferrers of
// them.
type ReferencedError struct {
	Kind, ID  string
	Referrers []Referrer
}

func (e *ReferencedError) Error() string {
	var b strings.Builder
	for i, r := range e.Referrers {
		if i == 5 {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", r.Kind, r.ID)
		if r.Name != "" {
			fmt.Fprintf(&b, " (%s)", r.Name)
		}
	}
	return fmt.Sprintf("%s %s is still referenced by %s; change or delete those first", e.Kind, e.ID, b.String())
}
func (e *ReferencedError) Unwrap() error { return ErrReferenced }

// ExistsError is ErrAlreadyExists with the fields that must be unique.
type ExistsError struct {
	Kind   string
	Fields []string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("another %s has the same %s", e.Kind, strings.Join(e.Fields, ", "))
}
func (e *ExistsError) Unwrap() error { return ErrAlreadyExists }

// InvalidError is ErrInvalid with the field, e.g. a reference to nothing.
type InvalidError struct{ Kind, ID, Field, Reason string }

func (e *InvalidError) Error() string {
	where := e.Field
	if e.Kind != "" {
		where = strings.TrimSpace(e.Kind+" "+e.ID) + ": " + e.Field
	}
	return fmt.Sprintf("%s: %s", where, e.Reason)
}
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// RetryAfter is how long to wait before trying again after ErrGateTimeout or
// ErrStoreDown; 0 for other errors.
func RetryAfter(err error) time.Duration {
	switch {
	case errors.Is(err, ErrGateTimeout):
		return 200 * time.Millisecond
	case errors.Is(err, ErrStoreDown):
		return time.Second
	default:
		return 0
	}
}

// PostgreSQL's condition codes.
const (
	codeLockTimeout    = "55P03"
	codeForeignKey     = "23503"
	codeUnique         = "23505"
	codeCheck          = "23514"
	codeExclusion      = "23P01"
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeQueryCancelled = "57014"
)

// classify turns an error of the driver into one that callers can decide by. k
// is the kind being written, nil if there is none.
func (c *catalog) classify(err error, k *kind) error {
	if err == nil {
		return nil
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		if errors.Is(err, context.Canceled) || isOurs(err) {
			return err
		}
		if connectionLost(err) {
			return fmt.Errorf("%w: %w", ErrStoreDown, err)
		}
		return err
	}
	name := func() (string, []string) {
		if fields, ok := c.uniqueFields(pg.ConstraintName, k); ok {
			return fields.kind, fields.names
		}
		return pg.TableName, []string{pg.ConstraintName}
	}
	switch pg.Code {
	case codeUnique, codeExclusion:
		kindName, fields := name()
		return &ExistsError{Kind: kindName, Fields: fields}
	case codeForeignKey:
		return &InvalidError{Kind: pg.TableName, Field: pg.ConstraintName, Reason: "names a resource that does not exist"}
	case codeCheck:
		return &InvalidError{Kind: pg.TableName, Field: pg.ConstraintName, Reason: "the value is not allowed"}
	case codeLockTimeout:
		return fmt.Errorf("%w: %w", ErrGateTimeout, err)
	case codeSerialization, codeDeadlock:
		return fmt.Errorf("%w: %w", ErrGateTimeout, err)
	case codeQueryCancelled:
		return fmt.Errorf("%w: %w", ErrStoreDown, err)
	}
	switch pg.Code[:2] {
	case "08", "53", "57", "58", "25": // connection, resources, operator, system; 25P03: idle in transaction too long
		return fmt.Errorf("%w: %w", ErrStoreDown, err)
	case "22": // data exceptions: bytes that text cannot hold, numbers out of range
		return &InvalidError{Field: "value", Reason: pg.Message}
	}
	return err
}

func isOurs(err error) bool {
	for _, known := range []error{
		ErrNotFound, ErrETagMismatch, ErrGenerationMoved, ErrReferenced, ErrAlreadyExists, ErrInvalid,
		ErrIdempotencyReuse, ErrFrozen, ErrGateTimeout, ErrStoreDown,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

func connectionLost(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, net.ErrClosed) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, isNet := errors.AsType[net.Error](err)
	return isNet || strings.Contains(err.Error(), "unexpected EOF") || strings.Contains(err.Error(), "conn closed")
}

type uniqueFields struct {
	kind  string
	names []string
}

func (c *catalog) uniqueFields(constraint string, k *kind) (uniqueFields, bool) {
	candidates := c.ordered
	if k != nil {
		candidates = append([]*kind{k}, c.ordered...)
	}
	for _, k := range candidates {
		if fields, ok := k.Unique[constraint]; ok {
			return uniqueFields{k.name, fields}, true
		}
		if constraint == k.Table+"_pkey" {
			return uniqueFields{k.name, []string{"id"}}, true
		}
	}
	return uniqueFields{}, false
}
