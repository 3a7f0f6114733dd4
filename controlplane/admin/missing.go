package admin

import (
	"context"
	"fmt"

	"connectrpc.com/connect/v2"
)

// Missing is a method that answers unimplemented, and what is missing for it.
type Missing struct {
	// Method is "Service.Method".
	Method string
	// Capability is what it needs, in the plural.
	Capability string
}

// MissingMethods lists every method of the admin API that this version does not
// serve. docs/status.md shows the same list.
func MissingMethods() []Missing {
	var out []Missing
	for _, group := range []struct {
		capability string
		methods    []string
	}{
		{"differences and rollbacks of generations", []string{"ConfigService.DiffGenerations", "ConfigService.Rollback"}},
		{"rollouts", []string{
			"RolloutService.StartRollout", "RolloutService.GetRollout", "RolloutService.ListRollouts", "RolloutService.AdvanceRollout",
			"RolloutService.PauseRollout", "RolloutService.AbortRollout",
		}},
		{"live views of the fleet", []string{"ObserveService.WatchOverview", "ObserveService.WatchPool"}},
		{"active probes", []string{"UpstreamService.TestCredential"}},
		{"credit bookings", []string{"CreditService.AdjustConsumerCredit", "CreditService.AdjustConsumerAPIKeyCredit"}},
		{"corrections of the ledger", []string{"LedgerService.Refund", "LedgerService.Adjust", "LedgerService.Reverse"}},
		{"bills and reconciliations", []string{
			"LedgerService.ImportBill", "LedgerService.ListReconciliations", "LedgerService.ApproveReconciliation", "LedgerService.ClosePeriod",
		}},
		{"live and summed request logs", []string{"LogService.TailRequests", "LogService.QueryUsage"}},
	} {
		for _, m := range group.methods {
			out = append(out, Missing{m, group.capability})
		}
	}
	return out
}

// missing answers the methods that are not served, with what they lack.
func missing() connect.ServerInterceptor {
	lacks := map[string]string{}
	for _, m := range MissingMethods() {
		lacks[m.Method] = m.Capability
	}
	return func(next connect.ServerFunc) connect.ServerFunc {
		return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
			method := methodOf(spec.Procedure)
			if capability, ok := lacks[method]; ok {
				return connect.NewError(connect.CodeUnimplemented, fmt.Sprintf("%s are not available in this version (%s)", capability, method))
			}
			return next(ctx, spec, stream)
		}
	}
}
