package ident

// Prefix says what kind of thing an id names. It stands before the underscore.
type Prefix string

// The prefixes in use. A prefix never changes its meaning: ids outlive releases.
const (
	Tenant               Prefix = "ten"
	Project              Prefix = "prj"
	Provider             Prefix = "prv"
	ProviderPricing      Prefix = "prc"
	Upstream             Prefix = "upr"
	UpstreamCredential   Prefix = "crd"
	UpstreamModel        Prefix = "upm"
	Group                Prefix = "grp"
	Route                Prefix = "rte"
	RoutePluginConfig    Prefix = "rpc"
	ProviderPluginConfig Prefix = "ppc"
	LogicalRoute         Prefix = "lrt"
	Policy               Prefix = "pol"
	Limit                Prefix = "lim"
	Consumer             Prefix = "con"
	JWTIssuer            Prefix = "iss"
	ConsumerAPIKey       Prefix = "key"
	Budget               Prefix = "bud"
	CreditAccount        Prefix = "cra"
	PriceBookEntry       Prefix = "pbk"
	AdminAccount         Prefix = "adm"
	AdminToken           Prefix = "adt"
	JoinToken            Prefix = "jnt"
	Node                 Prefix = "nod"
	Request              Prefix = "req"
	Decision             Prefix = "dec"
	Batch                Prefix = "bat"
	LedgerEntry          Prefix = "ent"
	Boot                 Prefix = "boot"
)

// prefixMin and prefixMax bound the length of a prefix in bytes.
const (
	prefixMin = 2
	prefixMax = 8
)

// wellFormed reports whether p could be a prefix: 2 to 8 lower-case letters.
func (p Prefix) wellFormed() bool {
	if len(p) < prefixMin || len(p) > prefixMax {
		return false
	}
	for i := range len(p) {
		if p[i] < 'a' || p[i] > 'z' {
			return false
		}
	}
	return true
}
