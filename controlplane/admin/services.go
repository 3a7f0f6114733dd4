package admin

import (
	"strings"

	"connectrpc.com/connect/v2"

	"github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/admin/v1/adminv1connect"
)

func (a *API) register(server *connect.Server) {
	adminv1connect.RegisterTenantServiceHandler(server, tenantService{a})
	adminv1connect.RegisterProjectServiceHandler(server, projectService{a})
	adminv1connect.RegisterProviderServiceHandler(server, providerService{a})
	adminv1connect.RegisterUpstreamServiceHandler(server, upstreamService{api: a})
	adminv1connect.RegisterGroupServiceHandler(server, groupService{a})
	adminv1connect.RegisterRouteServiceHandler(server, routeService{a})
	adminv1connect.RegisterRoutePluginConfigServiceHandler(server, routePluginConfigService{a})
	adminv1connect.RegisterLogicalRouteServiceHandler(server, logicalRouteService{a})
	adminv1connect.RegisterPolicyServiceHandler(server, policyService{a})
	adminv1connect.RegisterConsumerServiceHandler(server, consumerService{a})
	adminv1connect.RegisterBudgetServiceHandler(server, budgetService{a})
	adminv1connect.RegisterCreditServiceHandler(server, creditService{api: a})
	adminv1connect.RegisterPriceBookServiceHandler(server, priceBookService{a})
	adminv1connect.RegisterConfigServiceHandler(server, configService{api: a})
	adminv1connect.RegisterNodeServiceHandler(server, nodeService{a})
	adminv1connect.RegisterAdminServiceHandler(server, accountService{a})
	adminv1connect.RegisterAuditServiceHandler(server, auditService{a})
	adminv1connect.RegisterLedgerServiceHandler(server, ledgerService{api: a})
	adminv1connect.RegisterSettingsServiceHandler(server, settingsService{a})
	adminv1connect.RegisterRolloutServiceHandler(server, rolloutService{api: a})
	adminv1connect.RegisterObserveServiceHandler(server, observeService{api: a})
	adminv1connect.RegisterLogServiceHandler(server, logService{api: a})
}

// methodOf turns "/aidy.admin.v1.TenantService/GetTenant" into
// "TenantService.GetTenant".
func methodOf(procedure string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/"), "/")
	return service[strings.LastIndexByte(service, '.')+1:] + "." + method
}
