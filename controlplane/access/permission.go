package access

import (
	"slices"

	adminv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1"
)

// Permission is a right that roles have and procedures need.
type Permission string

// The permissions.
const (
	// ReadSelf: ask who one is, and what the API looks like.
	ReadSelf Permission = "self.read"
	// ReadConfig: resources, generations, exports; never a secret.
	ReadConfig Permission = "config.read"
	// WriteConfig: change resources and bundles.
	WriteConfig Permission = "config.write"
	// WritePrices: draft and end price versions.
	WritePrices Permission = "prices.write"
	// ApprovePrices: publish price versions.
	ApprovePrices Permission = "prices.approve"
	// AllowPrivate: let a provider stand at a private address.
	AllowPrivate Permission = "config.allow_private_address"
	// OverrideFreeze: commit a policy change through a freeze.
	OverrideFreeze Permission = "config.override_freeze"
	// ReadSettings and WriteSettings: defaults of the whole fleet.
	ReadSettings  Permission = "settings.read"
	WriteSettings Permission = "settings.write"
	// RenewEpoch: begin a new lineage of the database.
	RenewEpoch Permission = "epoch.renew"
	// ReadNodes and ManageNodes: nodes of the data plane and their join tokens.
	ReadNodes   Permission = "nodes.read"
	ManageNodes Permission = "nodes.manage"
	// ManageRollouts: rollouts and freezes.
	ManageRollouts Permission = "rollouts.manage"
	// ReadRuntime and ManageRuntime: what nodes hold in memory.
	ReadRuntime   Permission = "runtime.read"
	ManageRuntime Permission = "runtime.manage"
	// ReadLedger: usage and money. CorrectLedger: book corrections, bills and
	// credit. ClosePeriods: end a period.
	ReadLedger    Permission = "ledger.read"
	CorrectLedger Permission = "ledger.correct"
	ClosePeriods  Permission = "periods.close"
	// ReadAudit: who did what. ReadLogs: requests.
	ReadAudit Permission = "audit.read"
	ReadLogs  Permission = "logs.read"
	// ManageAccess: accounts and tokens of administrators.
	ManageAccess Permission = "access.manage"
)

// reads is what every role but node may do.
func reads() []Permission {
	return []Permission{
		ReadSelf, ReadConfig, ReadSettings, ReadNodes, ReadRuntime, ReadLedger, ReadAudit, ReadLogs,
	}
}

// roleCan is the table of roles. An owner may do everything, a node nothing here:
// its certificate is good for the sync listener alone.
func roleCan(role adminv1.Role, p Permission) bool {
	switch role {
	case adminv1.Role_ROLE_OWNER:
		return true
	case adminv1.Role_ROLE_EDITOR:
		return slices.Contains(reads(), p) || slices.Contains([]Permission{
			WriteConfig, WritePrices, WriteSettings, ManageRollouts, ManageRuntime,
		}, p)
	case adminv1.Role_ROLE_VIEWER:
		return slices.Contains(reads(), p)
	case adminv1.Role_ROLE_FINANCE:
		return slices.Contains(reads(), p) || slices.Contains([]Permission{
			WritePrices, ApprovePrices, CorrectLedger, ClosePeriods,
		}, p)
	}
	return false
}
