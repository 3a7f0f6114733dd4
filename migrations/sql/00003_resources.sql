-- +goose Up

-- One table per resource of aidy.config.v1. A column is named as its field and
-- holds it as a scalar, an enum's number or an array of those; nested messages
-- are bytea: the encoded resource with that one field set. Plugin payloads are
-- jsonb. Secrets are in none of these tables. revision is the etag.
-- References are checked when a change is complete, so that its writes may come
-- in any order.

CREATE TABLE tenant (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  max_auth_staleness_s bigint NOT NULL DEFAULT 0,
  on_stale smallint NOT NULL DEFAULT 0,
  inbound_rate_limit_qps bigint,
  detect_rate_limit_cpm bigint,
  metering smallint NOT NULL DEFAULT 0,
  exhausted_status integer NOT NULL DEFAULT 0,
  ledger_labels text[] NOT NULL DEFAULT '{}',
  scheduling bytea,
  policy_id text COLLATE "C",
  suspended boolean NOT NULL DEFAULT false,
  data_labels text[] NOT NULL DEFAULT '{}',
  required_label_keys text[] NOT NULL DEFAULT '{}',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (exhausted_status IN (0, 402, 429))
);
CREATE UNIQUE INDEX tenant_name ON tenant (name);

CREATE TABLE project (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  policy_id text COLLATE "C",
  suspended boolean NOT NULL DEFAULT false,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX project_name ON project (tenant_id, name);

CREATE TABLE policy (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  mode smallint NOT NULL DEFAULT 0,
  reason text NOT NULL DEFAULT '',
  limits bytea,
  allowed_models bytea,
  denied_models bytea,
  allowed_cidrs bytea,
  allowed_regions bytea,
  allowed_providers bytea,
  max_data_label text NOT NULL DEFAULT '',
  on_disconnect smallint NOT NULL DEFAULT 0,
  price_basis smallint NOT NULL DEFAULT 0,
  on_revoke smallint NOT NULL DEFAULT 0,
  require_zero_retention boolean NOT NULL DEFAULT false,
  require_no_training boolean NOT NULL DEFAULT false,
  max_context_tokens bigint NOT NULL DEFAULT 0,
  max_output_tokens bigint NOT NULL DEFAULT 0,
  max_images integer,
  hide_denied_models boolean NOT NULL DEFAULT false,
  unknown_charge smallint NOT NULL DEFAULT 0,
  contact text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX policy_name ON policy (tenant_id, name);

CREATE TABLE provider (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  capabilities bytea,
  request_header_overrides bytea,
  cache bytea,
  limits bytea,
  max_concurrency integer,
  allow_plaintext boolean NOT NULL DEFAULT false,
  allow_private_address boolean NOT NULL DEFAULT false,
  error_rules bytea,
  connect_timeout_ms bigint NOT NULL DEFAULT 0,
  response_header_timeout_ms bigint NOT NULL DEFAULT 0,
  display_name text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX provider_name ON provider (coalesce(tenant_id, ''), name);
CREATE INDEX provider_tenant ON provider (tenant_id);

CREATE TABLE provider_pricing (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  provider_id text COLLATE "C" NOT NULL,
  model text NOT NULL DEFAULT '',
  region text NOT NULL DEFAULT '',
  service_tier text NOT NULL DEFAULT '',
  effective_from timestamptz,
  effective_until timestamptz,
  currency text NOT NULL DEFAULT '',
  items bytea,
  published boolean NOT NULL DEFAULT false,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX provider_pricing_version ON provider_pricing (provider_id, model, region, service_tier, coalesce(effective_from, '-infinity'), coalesce(tenant_id, '')) WHERE published;

CREATE TABLE price_book_entry (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  book text NOT NULL DEFAULT '',
  model text NOT NULL DEFAULT '',
  provider_id text COLLATE "C",
  region text NOT NULL DEFAULT '',
  service_tier text NOT NULL DEFAULT '',
  effective_from timestamptz,
  effective_until timestamptz,
  currency text NOT NULL DEFAULT '',
  items bytea,
  published boolean NOT NULL DEFAULT false,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX price_book_entry_version ON price_book_entry (coalesce(tenant_id, ''), book, coalesce(provider_id, ''), model, region, service_tier, coalesce(effective_from, '-infinity')) WHERE published;
CREATE INDEX price_book_entry_tenant ON price_book_entry (tenant_id);

CREATE TABLE upstream_group (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  fallback_groups text[] NOT NULL DEFAULT '{}',
  price_multiplier bytea,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX upstream_group_name ON upstream_group (tenant_id, name);

CREATE TABLE upstream (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  provider_id text COLLATE "C" NOT NULL,
  group_id text COLLATE "C" NOT NULL,
  priority integer NOT NULL DEFAULT 0,
  weight integer NOT NULL DEFAULT 0,
  region text NOT NULL DEFAULT '',
  base_urls bytea,
  headers bytea,
  compat bytea,
  request_header_overrides bytea,
  features smallint[] NOT NULL DEFAULT '{}',
  limits bytea,
  max_concurrency integer,
  proxy bytea,
  regions text[] NOT NULL DEFAULT '{}',
  retention smallint NOT NULL DEFAULT 0,
  training smallint NOT NULL DEFAULT 0,
  max_data_label text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX upstream_name ON upstream (tenant_id, name);
CREATE INDEX upstream_tenant_group ON upstream (tenant_id, group_id);

CREATE TABLE upstream_credential (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  upstream_id text COLLATE "C" NOT NULL,
  kind smallint NOT NULL DEFAULT 0,
  api_key bytea,
  oauth2_client bytea,
  oauth2_refresh bytea,
  gcp_service_account bytea,
  aws_sigv4 bytea,
  azure_ad bytea,
  secret_ref text NOT NULL DEFAULT '',
  secret_fingerprint text NOT NULL DEFAULT '',
  priority integer,
  weight integer,
  limits bytea,
  max_concurrency integer,
  cache bytea,
  on_auth_failure smallint NOT NULL DEFAULT 0,
  models text[] NOT NULL DEFAULT '{}',
  proxy bytea,
  quota_group text NOT NULL DEFAULT '',
  state_scope text NOT NULL DEFAULT '',
  expire_time timestamptz,
  secret_version bigint NOT NULL DEFAULT 0,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX upstream_credential_name ON upstream_credential (upstream_id, name);

CREATE TABLE upstream_model (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  upstream_id text COLLATE "C" NOT NULL,
  model text NOT NULL DEFAULT '',
  upstream_model text NOT NULL DEFAULT '',
  alias_of text NOT NULL DEFAULT '',
  modalities smallint[] NOT NULL DEFAULT '{}',
  output_modalities smallint[] NOT NULL DEFAULT '{}',
  features smallint[] NOT NULL DEFAULT '{}',
  max_context_tokens bigint NOT NULL DEFAULT 0,
  max_output_tokens bigint NOT NULL DEFAULT 0,
  quality bytea,
  max_task_risk smallint NOT NULL DEFAULT 0,
  capability_version text NOT NULL DEFAULT '',
  cache bytea,
  protocols smallint[] NOT NULL DEFAULT '{}',
  display_name text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX upstream_model_model ON upstream_model (upstream_id, model);
CREATE INDEX upstream_model_tenant_model ON upstream_model (tenant_id, model);

CREATE TABLE jwt_issuer (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  issuer text NOT NULL DEFAULT '',
  audiences text[] NOT NULL DEFAULT '{}',
  jwks_json text NOT NULL DEFAULT '',
  jwks_url text NOT NULL DEFAULT '',
  algorithms smallint[] NOT NULL DEFAULT '{}',
  scopes smallint[] NOT NULL DEFAULT '{}',
  claim_names bytea,
  group_ids text[] NOT NULL DEFAULT '{}',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX jwt_issuer_name ON jwt_issuer (tenant_id, name);
CREATE UNIQUE INDEX jwt_issuer_issuer ON jwt_issuer (tenant_id, issuer);

CREATE TABLE route (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  host text NOT NULL DEFAULT '',
  path_prefix text NOT NULL DEFAULT '',
  group_ids text[] NOT NULL DEFAULT '{}',
  fallback_groups text[] NOT NULL DEFAULT '{}',
  disable_auth boolean NOT NULL DEFAULT false,
  passthrough_auth_token boolean NOT NULL DEFAULT false,
  legacy_bearer_auth_tokens bytea,
  consumer_api_keys boolean NOT NULL DEFAULT false,
  jwt_issuers text[] NOT NULL DEFAULT '{}',
  protocols smallint[] NOT NULL DEFAULT '{}',
  replay smallint NOT NULL DEFAULT 0,
  task_risk smallint NOT NULL DEFAULT 0,
  max_attempts integer,
  min_quality bytea,
  deadline_ms bigint NOT NULL DEFAULT 0,
  max_body_bytes bigint NOT NULL DEFAULT 0,
  first_event_timeout_ms bigint NOT NULL DEFAULT 0,
  idle_timeout_ms bigint NOT NULL DEFAULT 0,
  scheduling bytea,
  policy_id text COLLATE "C",
  hide_account_headers boolean NOT NULL DEFAULT false,
  data_label text NOT NULL DEFAULT '',
  price_book text NOT NULL DEFAULT '',
  keep_alive_before_headers boolean NOT NULL DEFAULT false,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX route_name ON route (coalesce(tenant_id, ''), name);
CREATE UNIQUE INDEX route_path_prefix ON route (host, path_prefix);
CREATE INDEX route_tenant ON route (tenant_id);

CREATE TABLE route_plugin_config (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  route_id text COLLATE "C" NOT NULL,
  plugin_key text NOT NULL DEFAULT '',
  plugin_sub_key text NOT NULL DEFAULT '',
  payload jsonb,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX route_plugin_config_key ON route_plugin_config (route_id, plugin_key, plugin_sub_key);

CREATE TABLE provider_plugin_config (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C",
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  provider_id text COLLATE "C",
  upstream_id text COLLATE "C",
  plugin_key text NOT NULL DEFAULT '',
  plugin_sub_key text NOT NULL DEFAULT '',
  payload jsonb,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (num_nonnulls(provider_id, upstream_id) = 1)
);
CREATE UNIQUE INDEX provider_plugin_config_key ON provider_plugin_config (coalesce(provider_id, ''), coalesce(upstream_id, ''), plugin_key, plugin_sub_key);

CREATE TABLE logical_route (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  "order" integer NOT NULL DEFAULT 0,
  "match" bytea,
  condition bytea,
  targets bytea,
  rewrites bytea,
  scheduling bytea,
  route_ids text[] NOT NULL DEFAULT '{}',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX logical_route_name ON logical_route (tenant_id, name);
-- Deferred, so that one change can exchange two places.
ALTER TABLE logical_route ADD CONSTRAINT logical_route_order UNIQUE (tenant_id, "order") DEFERRABLE INITIALLY DEFERRED;

CREATE TABLE consumer (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  project_id text COLLATE "C",
  group_ids text[] NOT NULL DEFAULT '{}',
  policy_id text COLLATE "C",
  claims bytea,
  allowed_models bytea,
  suspended boolean NOT NULL DEFAULT false,
  price_book text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX consumer_name ON consumer (tenant_id, name);

CREATE TABLE consumer_api_key (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  consumer_id text COLLATE "C" NOT NULL,
  sha256 text NOT NULL DEFAULT '',
  hint text NOT NULL DEFAULT '',
  scopes smallint[] NOT NULL DEFAULT '{}',
  group_ids text[] NOT NULL DEFAULT '{}',
  project_id text COLLATE "C",
  policy_id text COLLATE "C",
  expire_time timestamptz,
  revoke_time timestamptz,
  successor_id text COLLATE "C",
  issuer_route_id text COLLATE "C",
  traffic_class smallint NOT NULL DEFAULT 0,
  allowed_models bytea,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (sha256 ~ '^[0-9a-f]{64}$')
);
CREATE UNIQUE INDEX consumer_api_key_name ON consumer_api_key (consumer_id, name);
CREATE UNIQUE INDEX consumer_api_key_sha256 ON consumer_api_key (sha256);

CREATE TABLE budget (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  currency text NOT NULL DEFAULT '',
  amount_nanos bigint NOT NULL DEFAULT 0,
  "window" smallint NOT NULL DEFAULT 0,
  time_zone text NOT NULL DEFAULT '',
  scope smallint[] NOT NULL DEFAULT '{}',
  subject_ids text[] NOT NULL DEFAULT '{}',
  enforcement smallint NOT NULL DEFAULT 0,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (amount_nanos >= 0)
);
CREATE UNIQUE INDEX budget_name ON budget (tenant_id, name);

CREATE TABLE credit_account_definition (
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text NOT NULL CHECK (name ~ '^[a-z0-9-]{1,63}$'),
  labels text[] NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  consumer_id text COLLATE "C" NOT NULL,
  api_key_id text COLLATE "C",
  currency text NOT NULL DEFAULT '',
  floor_nanos bigint NOT NULL DEFAULT 0,
  own_balance boolean NOT NULL DEFAULT false,
  cap_nanos bigint,
  grace_nanos bigint NOT NULL DEFAULT 0,
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX credit_account_definition_name ON credit_account_definition (tenant_id, name);
CREATE UNIQUE INDEX credit_account_definition_owner ON credit_account_definition (consumer_id, coalesce(api_key_id, ''));

-- References that are members of lists or of nested messages, a row each.
CREATE TABLE resource_reference (
  referrer_kind text NOT NULL,
  referrer_id text COLLATE "C" NOT NULL,
  field text NOT NULL,
  ordinal int NOT NULL,
  target_tenant text COLLATE "C" REFERENCES tenant DEFERRABLE INITIALLY DEFERRED,
  target_project text COLLATE "C" REFERENCES project DEFERRABLE INITIALLY DEFERRED,
  target_provider text COLLATE "C" REFERENCES provider DEFERRABLE INITIALLY DEFERRED,
  target_upstream_group text COLLATE "C" REFERENCES upstream_group DEFERRABLE INITIALLY DEFERRED,
  target_upstream text COLLATE "C" REFERENCES upstream DEFERRABLE INITIALLY DEFERRED,
  target_upstream_credential text COLLATE "C" REFERENCES upstream_credential DEFERRABLE INITIALLY DEFERRED,
  target_upstream_model text COLLATE "C" REFERENCES upstream_model DEFERRABLE INITIALLY DEFERRED,
  target_jwt_issuer text COLLATE "C" REFERENCES jwt_issuer DEFERRABLE INITIALLY DEFERRED,
  target_route text COLLATE "C" REFERENCES route DEFERRABLE INITIALLY DEFERRED,
  target_consumer text COLLATE "C" REFERENCES consumer DEFERRABLE INITIALLY DEFERRED,
  target_consumer_api_key text COLLATE "C" REFERENCES consumer_api_key DEFERRABLE INITIALLY DEFERRED,
  PRIMARY KEY (referrer_id, field, ordinal),
  CHECK (num_nonnulls(target_tenant, target_project, target_provider, target_upstream_group, target_upstream, target_upstream_credential, target_upstream_model, target_jwt_issuer, target_route, target_consumer, target_consumer_api_key) = 1)
);
CREATE INDEX ON resource_reference (target_tenant) WHERE target_tenant IS NOT NULL;
CREATE INDEX ON resource_reference (target_project) WHERE target_project IS NOT NULL;
CREATE INDEX ON resource_reference (target_provider) WHERE target_provider IS NOT NULL;
CREATE INDEX ON resource_reference (target_upstream_group) WHERE target_upstream_group IS NOT NULL;
CREATE INDEX ON resource_reference (target_upstream) WHERE target_upstream IS NOT NULL;
CREATE INDEX ON resource_reference (target_upstream_credential) WHERE target_upstream_credential IS NOT NULL;
CREATE INDEX ON resource_reference (target_upstream_model) WHERE target_upstream_model IS NOT NULL;
CREATE INDEX ON resource_reference (target_jwt_issuer) WHERE target_jwt_issuer IS NOT NULL;
CREATE INDEX ON resource_reference (target_route) WHERE target_route IS NOT NULL;
CREATE INDEX ON resource_reference (target_consumer) WHERE target_consumer IS NOT NULL;
CREATE INDEX ON resource_reference (target_consumer_api_key) WHERE target_consumer_api_key IS NOT NULL;

-- Foreign keys, after all tables: tenants and policies name each other.
ALTER TABLE tenant ADD FOREIGN KEY (policy_id) REFERENCES policy DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON tenant (policy_id);
ALTER TABLE project ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE project ADD FOREIGN KEY (policy_id) REFERENCES policy DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON project (policy_id);
ALTER TABLE policy ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE provider ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE provider_pricing ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON provider_pricing (tenant_id);
ALTER TABLE provider_pricing ADD FOREIGN KEY (provider_id) REFERENCES provider DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE price_book_entry ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE price_book_entry ADD FOREIGN KEY (provider_id) REFERENCES provider DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON price_book_entry (provider_id);
ALTER TABLE upstream_group ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE upstream ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE upstream ADD FOREIGN KEY (provider_id) REFERENCES provider DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON upstream (provider_id);
ALTER TABLE upstream ADD FOREIGN KEY (group_id) REFERENCES upstream_group DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON upstream (group_id);
ALTER TABLE upstream_credential ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON upstream_credential (tenant_id);
ALTER TABLE upstream_credential ADD FOREIGN KEY (upstream_id) REFERENCES upstream DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE upstream_model ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON upstream_model (tenant_id);
ALTER TABLE upstream_model ADD FOREIGN KEY (upstream_id) REFERENCES upstream DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE jwt_issuer ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE route ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE route ADD FOREIGN KEY (policy_id) REFERENCES policy DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON route (policy_id);
ALTER TABLE route_plugin_config ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON route_plugin_config (tenant_id);
ALTER TABLE route_plugin_config ADD FOREIGN KEY (route_id) REFERENCES route DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE provider_plugin_config ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON provider_plugin_config (tenant_id);
ALTER TABLE provider_plugin_config ADD FOREIGN KEY (provider_id) REFERENCES provider DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE provider_plugin_config ADD FOREIGN KEY (upstream_id) REFERENCES upstream DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON provider_plugin_config (upstream_id);
ALTER TABLE logical_route ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE consumer ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE consumer ADD FOREIGN KEY (project_id) REFERENCES project DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer (project_id);
ALTER TABLE consumer ADD FOREIGN KEY (policy_id) REFERENCES policy DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer (policy_id);
ALTER TABLE consumer_api_key ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer_api_key (tenant_id);
ALTER TABLE consumer_api_key ADD FOREIGN KEY (consumer_id) REFERENCES consumer DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE consumer_api_key ADD FOREIGN KEY (project_id) REFERENCES project DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer_api_key (project_id);
ALTER TABLE consumer_api_key ADD FOREIGN KEY (policy_id) REFERENCES policy DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer_api_key (policy_id);
ALTER TABLE consumer_api_key ADD FOREIGN KEY (successor_id) REFERENCES consumer_api_key DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer_api_key (successor_id);
ALTER TABLE consumer_api_key ADD FOREIGN KEY (issuer_route_id) REFERENCES route DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON consumer_api_key (issuer_route_id);
ALTER TABLE budget ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE credit_account_definition ADD FOREIGN KEY (tenant_id) REFERENCES tenant DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE credit_account_definition ADD FOREIGN KEY (consumer_id) REFERENCES consumer DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON credit_account_definition (consumer_id);
ALTER TABLE credit_account_definition ADD FOREIGN KEY (api_key_id) REFERENCES consumer_api_key DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX ON credit_account_definition (api_key_id);

-- Since when keys of a subject are valid: RevokeAll moves it forward.
CREATE TABLE subject_purge (
  kind text NOT NULL CHECK (kind IN ('tenant', 'project', 'consumer')),
  id text COLLATE "C" NOT NULL,
  purge_time timestamptz NOT NULL,
  PRIMARY KEY (kind, id)
);

-- Defaults that belong to no resource.
CREATE TABLE global_default (
  one_row boolean PRIMARY KEY DEFAULT true CHECK (one_row),
  scheduling bytea,                    -- aidy.config.v1.SchedulingPolicy
  revision bigint NOT NULL DEFAULT 1
);
INSERT INTO global_default DEFAULT VALUES;
