package configcheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	syncv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/sync/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/shard"
)

const stringKind = protoreflect.StringKind

// KnownFeatures are the required-feature bits that this release knows. A shard
// that sets another bit needs a newer release and is refused.
const KnownFeatures uint64 = 0

// Config tunes a Checker. The zero value is what a node uses.
type Config struct {
	// CrossDomain also checks references between the identity and the policy
	// domain. Only the control plane sees both at one moment and sets it.
	CrossDomain bool
}

// Checker checks configuration. It keeps compiled rules, so make one and share
// it; it is safe for concurrent use.
type Checker struct {
	cfg   Config
	rules protovalidate.Validator
	zones sync.Map // names of time zones that exist; bounded by the zone database
}

// New returns a Checker. It fails if the rules in the contracts do not compile,
// which is a defect of the contracts.
func New(cfg Config) (*Checker, error) {
	rules, err := protovalidate.New(protovalidate.WithMessages(
		&syncv1.GlobalShard{}, &syncv1.TenantShard{}, &syncv1.CredentialShard{},
		&syncv1.SubjectRecord{}, &syncv1.KeyRecord{}, &syncv1.IssuerRecord{},
	))
	if err != nil {
		return nil, fmt.Errorf("compile the rules of the contracts: %w", err)
	}
	return &Checker{cfg: cfg, rules: rules}, nil
}

// Check returns every violation of a whole configuration, sorted by shard key.
// It calls v.Index.
func (c *Checker) Check(v *View) []*syncv1.Violation {
	v.Index()
	var keys []string
	if v.GlobalShard != nil {
		keys = append(keys, shard.Global())
	}
	for id := range v.Tenants {
		keys = append(keys, shard.Tenant(id))
	}
	for id := range v.Credentials {
		keys = append(keys, shard.Credentials(id))
	}
	for k := range v.Subjects {
		keys = append(keys, shard.Subject(subjectWord(k.Kind), k.ID))
	}
	for sum := range v.Keys {
		keys = append(keys, shard.Key(sum))
	}
	for id := range v.Issuers {
		keys = append(keys, shard.Issuer(id))
	}
	return c.check(v, keys, wholeView)
}

// CheckChanged returns the violations of the named shards and of what they can
// break elsewhere, sorted by shard key. A key whose shard is gone from v is a
// deletion. The cost follows from the size of the named shards, not from the
// size of the configuration.
func (c *Checker) CheckChanged(v Lookup, changed []string) []*syncv1.Violation {
	return c.check(v, changed, changedOnly)
}

type scope bool

const (
	wholeView   scope = true
	changedOnly scope = false
)

func (c *Checker) check(v Lookup, keys []string, s scope) []*syncv1.Violation {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, cmp.Compare)
	var all []*syncv1.Violation
	for _, key := range slices.Compact(keys) {
		l := &list{shardKey: key}
		c.checkShard(l, v, key, s)
		all = append(all, l.done()...)
	}
	return all
}

func (c *Checker) checkShard(l *list, v Lookup, key string, s scope) {
	n, err := shard.Parse(key)
	if err != nil {
		l.add(subject{kind: "Shard", name: key}, "", "shard.key", "%v", err)
		return
	}
	switch id := n.ID; n.Kind {
	case shard.KindGlobal:
		if g := v.Global(); g != nil {
			c.checkGlobal(l, v, g)
		}
		if s == changedOnly {
			c.checkProvidersInUse(l, v)
		}
	case shard.KindTenant:
		if t := v.Tenant(id); t != nil {
			c.checkTenant(l, v, id, t)
		}
	case shard.KindCredentials:
		if cr := v.CredentialShard(id); cr != nil {
			c.checkCredentials(l, v, id, cr)
		}
	case shard.KindSubject:
		kind := subjectKindOf(n.Subject)
		rec := v.Subject(kind, id)
		if rec == nil {
			return
		}
		c.checkSubject(l, v, kind, id, rec)
		if lister, ok := v.(KeyLister); ok && s == changedOnly && kind == syncv1.SubjectKind_SUBJECT_KIND_CONSUMER {
			for k := range lister.KeysOf(id) {
				checkKeyGroups(l, k, rec)
			}
		}
	case shard.KindKey:
		if rec := v.Key(id); rec != nil {
			c.checkKey(l, v, id, rec)
		}
	case shard.KindIssuer:
		if rec := v.Issuer(id); rec != nil {
			c.checkIssuer(l, v, id, rec)
		}
	}
}

// CheckResource returns what is wrong with one resource taken alone, as an
// author wrote it. References to other resources are checked with the shards.
func (c *Checker) CheckResource(m proto.Message) []*syncv1.Violation {
	l := &list{}
	if m == nil || !m.ProtoReflect().IsValid() {
		l.add(subject{kind: "Resource"}, "", "required", "send a resource; there is none in the call")
		return l.done()
	}
	c.alone(l, m)
	return l.done()
}

// features refuses a shard that needs more than this release knows.
func features(l *list, m proto.Message, bits uint64) bool {
	if unknown := bits &^ KnownFeatures; unknown != 0 {
		l.add(subject{kind: Kind(m), name: l.shardKey}, "required_features", "shard.features",
			"the shard needs features %#x that this release does not know; update this node, or undo the change that needs them", unknown)
		return false
	}
	return true
}

// contract runs the rules that stand in the contracts. skip names fields, at
// the top of m, that do not apply where m stands.
func (c *Checker) contract(l *list, m proto.Message, skip ...string) {
	err := c.rules.Validate(m)
	if err == nil {
		return
	}
	who := subjectOf(m)
	var bad *protovalidate.ValidationError
	if !errors.As(err, &bad) {
		// A rule could not be evaluated on this value, so the value cannot be
		// called valid.
		l.add(who, "", "contract.evaluation", "the value cannot be checked: %v", err)
		return
	}
	for _, v := range bad.Violations {
		path := protovalidate.FieldPathString(v.Proto.GetField())
		if slices.Contains(skip, path) {
			continue
		}
		what := v.Proto.GetMessage()
		if what == "" {
			what = "the value breaks this rule; correct it"
		}
		l.add(who, path, v.Proto.GetRuleId(), "%s: %s", field(path), what)
	}
}

func field(path string) string {
	if path == "" {
		return "this resource"
	}
	return path
}

func subjectWord(k syncv1.SubjectKind) shard.SubjectKind {
	switch k {
	case syncv1.SubjectKind_SUBJECT_KIND_TENANT:
		return shard.SubjectTenant
	case syncv1.SubjectKind_SUBJECT_KIND_PROJECT:
		return shard.SubjectProject
	case syncv1.SubjectKind_SUBJECT_KIND_CONSUMER:
		return shard.SubjectConsumer
	}
	return "unknown"
}

func subjectKindOf(word shard.SubjectKind) syncv1.SubjectKind {
	switch word {
	case shard.SubjectTenant:
		return syncv1.SubjectKind_SUBJECT_KIND_TENANT
	case shard.SubjectProject:
		return syncv1.SubjectKind_SUBJECT_KIND_PROJECT
	case shard.SubjectConsumer:
		return syncv1.SubjectKind_SUBJECT_KIND_CONSUMER
	}
	return syncv1.SubjectKind_SUBJECT_KIND_UNSPECIFIED
}
