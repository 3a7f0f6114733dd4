package store

import (
	configv1 "github.com/aidy-gateway/aidy-gateway/proto/gen/aidy/config/v1"
	"github.com/aidy-gateway/aidy-gateway/shared/ident"
)

func providerKind() Kind {
	return Kind{
		Message: (*configv1.Provider)(nil), Prefix: ident.Provider, Table: "provider", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}},
		Unique:     map[string][]string{"provider_name": {"tenant_id", "name"}},
		Shards:     inTenant,
	}
}

func providerPluginConfigKind() Kind {
	return Kind{
		Message: (*configv1.ProviderPluginConfig)(nil), Prefix: ident.ProviderPluginConfig, Table: "provider_plugin_config", Parent: "provider_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"provider_id", "Provider"}, {"upstream_id", "Upstream"}},
		Unique:     map[string][]string{"provider_plugin_config_key": {"provider_id", "upstream_id", "plugin_key", "plugin_sub_key"}},
		Shards:     inTenant,
	}
}

func providerPricingKind() Kind {
	return Kind{
		Message: (*configv1.ProviderPricing)(nil), Prefix: ident.ProviderPricing, Table: "provider_pricing", Parent: "provider_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"provider_id", "Provider"}},
		Unique: map[string][]string{
			"provider_pricing_version": {"provider_id", "model", "region", "service_tier", "effective_from"},
			"price_version_no_overlap": {"model", "effective_from", "effective_until"},
		},
		Shards:  inTenant,
		project: projectPrices,
	}
}

func priceBookEntryKind() Kind {
	return Kind{
		Message: (*configv1.PriceBookEntry)(nil), Prefix: ident.PriceBookEntry, Table: "price_book_entry", Parent: "tenant_id",
		References: []Reference{{"tenant_id", "Tenant"}, {"provider_id", "Provider"}},
		Unique: map[string][]string{
			"price_book_entry_version": {"book", "provider_id", "model", "region", "service_tier", "effective_from"},
			"price_version_no_overlap": {"model", "effective_from", "effective_until"},
		},
		Shards:  inTenant,
		project: projectPrices,
	}
}
