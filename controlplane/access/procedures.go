package access

import "strings"

// Need is what a procedure asks of its caller.
type Need struct {
	Permission Permission
	// Fleet: the procedure is about the fleet as a whole, so an actor that is
	// limited to tenants may not call it.
	Fleet bool
}

// Table says what each method of the admin API needs, by "Service/Method". It is
// only read once it is made.
type Table map[string]Need

// NeedOf returns what a procedure, such as "/aidy.admin.v1.TenantService/GetTenant",
// needs. A procedure that is not in the table may be called by nobody.
func (t Table) NeedOf(procedure string) (Need, bool) {
	if strings.HasPrefix(procedure, "/grpc.reflection.") {
		return Need{Permission: ReadSelf}, true
	}
	method, ok := strings.CutPrefix(procedure, "/aidy.admin.v1.")
	if !ok {
		return Need{}, false
	}
	n, ok := t[method]
	return n, ok
}

// NewTable returns the table of permissions.
func NewTable() Table {
	table := Table{}
	add := func(n Need, methods ...string) {
		for _, m := range methods {
			table[m] = n
		}
	}
	// Every resource has the same five methods.
	for _, r := range []struct {
		service, one, many string
		write              Permission
	}{
		{"TenantService", "Tenant", "Tenants", WriteConfig},
		{"ProjectService", "Project", "Projects", WriteConfig},
		{"ProviderService", "Provider", "Providers", WriteConfig},
		{"ProviderService", "ProviderPricing", "ProviderPricings", WritePrices},
		{"ProviderService", "ProviderPluginConfig", "ProviderPluginConfigs", WriteConfig},
		{"UpstreamService", "Upstream", "Upstreams", WriteConfig},
		{"UpstreamService", "UpstreamCredential", "UpstreamCredentials", WriteConfig},
		{"UpstreamService", "UpstreamModel", "UpstreamModels", WriteConfig},
		{"GroupService", "Group", "Groups", WriteConfig},
		{"RouteService", "Route", "Routes", WriteConfig},
		{"RoutePluginConfigService", "RoutePluginConfig", "RoutePluginConfigs", WriteConfig},
		{"LogicalRouteService", "LogicalRoute", "LogicalRoutes", WriteConfig},
		{"PolicyService", "Policy", "Policies", WriteConfig},
		{"ConsumerService", "Consumer", "Consumers", WriteConfig},
		{"ConsumerService", "ConsumerAPIKey", "ConsumerAPIKeys", WriteConfig},
		{"ConsumerService", "JWTIssuer", "JWTIssuers", WriteConfig},
		{"BudgetService", "Budget", "Budgets", WriteConfig},
		{"CreditService", "CreditAccount", "CreditAccounts", WriteConfig},
		{"PriceBookService", "PriceBookEntry", "PriceBookEntries", WritePrices},
	} {
		add(Need{Permission: r.write}, r.service+"/Create"+r.one, r.service+"/Update"+r.one, r.service+"/Delete"+r.one)
		add(Need{Permission: ReadConfig}, r.service+"/Get"+r.one, r.service+"/List"+r.many)
	}
	add(Need{Permission: WriteConfig},
		"UpstreamService/EnableCredential", "UpstreamService/DisableCredential", "UpstreamService/ReplaceSecret", "UpstreamService/TestCredential",
		"ConsumerService/EnableConsumerAPIKey", "ConsumerService/DisableConsumerAPIKey", "ConsumerService/RotateAPIKey",
		"ConsumerService/RevokeAPIKey", "ConsumerService/RevokeAll", "RoutePluginConfigService/SetRoutePluginConfigs",
		"ConfigService/ApplyBundle")
	add(Need{Permission: ReadConfig}, "ConfigService/Export", "ConfigService/GetGeneration",
		"ConfigService/DiffGenerations", "ConfigService/Explain", "ConfigService/Replay")
	add(Need{WriteConfig, true}, "ConfigService/Rollback")
	add(Need{ReadConfig, true}, "ConfigService/ListGenerations")
	add(Need{RenewEpoch, true}, "ConfigService/RenewEpoch")
	add(Need{Permission: WritePrices}, "PriceBookService/ImportPrices")
	add(Need{Permission: ApprovePrices}, "PriceBookService/ApproveVersion")
	add(Need{Permission: CorrectLedger}, "CreditService/AdjustConsumerCredit", "CreditService/AdjustConsumerAPIKeyCredit",
		"LedgerService/Refund", "LedgerService/Adjust", "LedgerService/Reverse")
	add(Need{CorrectLedger, true}, "LedgerService/ImportBill", "LedgerService/ApproveReconciliation")
	add(Need{ReadLedger, true}, "LedgerService/ListReconciliations")
	add(Need{Permission: ReadLedger}, "LedgerService/ListEntries")
	add(Need{Permission: ClosePeriods}, "LedgerService/ClosePeriod")
	add(Need{Permission: ReadLogs}, "LogService/ListRequestLogs", "LogService/GetRequest", "LogService/TailRequests", "LogService/QueryUsage")
	add(Need{Permission: ReadAudit}, "AuditService/ListAuditEvents")
	add(Need{Permission: ReadRuntime}, "ObserveService/WatchOverview", "ObserveService/WatchPool", "ObserveService/GetDecision")
	add(Need{Permission: ManageRuntime}, "ObserveService/ClearRuntime", "ObserveService/FlushAffinity")
	add(Need{ReadNodes, true}, "NodeService/ListNodes", "NodeService/GetNode", "NodeService/WatchNodes", "NodeService/ListJoinTokens",
		"RolloutService/GetRollout", "RolloutService/ListRollouts")
	add(Need{ManageNodes, true}, "NodeService/RetryNode", "NodeService/RevokeNode", "NodeService/CreateJoinToken")
	add(Need{ManageRollouts, true}, "RolloutService/StartRollout", "RolloutService/AdvanceRollout", "RolloutService/PauseRollout",
		"RolloutService/AbortRollout", "RolloutService/Freeze", "RolloutService/Unfreeze")
	add(Need{ReadSettings, true}, "SettingsService/GetSettings")
	add(Need{WriteSettings, true}, "SettingsService/UpdateSettings")
	add(Need{ManageAccess, true}, "AdminService/CreateAdminAccount", "AdminService/GetAdminAccount", "AdminService/ListAdminAccounts",
		"AdminService/UpdateAdminAccount", "AdminService/DeleteAdminAccount", "AdminService/CreateAdminToken",
		"AdminService/ListAdminTokens", "AdminService/DeleteAdminToken")
	add(Need{Permission: ReadSelf}, "AdminService/WhoAmI")
	return table
}
