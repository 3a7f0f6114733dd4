package store

import (
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

func policyKind() Kind {
	return Kind{
		Message: (*configv1.Policy)(nil), Prefix: ident.Policy, Table: "policy", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}},
		Unique:     map[string][]string{"policy_name": {"tenant_id", "name"}},
		Shards:     inTenant,
	}
}

func budgetKind() Kind {
	return Kind{
		Message: (*configv1.Budget)(nil), Prefix: ident.Budget, Table: "budget", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"subject_ids", ""}},
		Unique:     map[string][]string{"budget_name": {"tenant_id", "name"}},
		Shards:     inTenant,
	}
}

// creditAccountKind is the definition of an account. Its balance is the
// ledger's table credit_account and never moves a generation.
func creditAccountKind() Kind {
	return Kind{
		Message: (*configv1.CreditAccount)(nil), Prefix: ident.CreditAccount, Table: "credit_account_definition", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"consumer_id", "Consumer"}, {"api_key_id", "ConsumerAPIKey"}},
		Unique: map[string][]string{
			"credit_account_definition_name":  {"tenant_id", "name"},
			"credit_account_definition_owner": {"consumer_id", "api_key_id"},
		},
		Shards: inTenant,
	}
}
