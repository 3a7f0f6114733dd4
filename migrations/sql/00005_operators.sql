-- +goose Up

-- Nodes of the data plane.
CREATE TABLE node (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL DEFAULT '',
  labels text[] NOT NULL DEFAULT '{}',
  enrolled_at timestamptz NOT NULL,
  certificate_serial text NOT NULL DEFAULT '',
  certificate_expires_at timestamptz,
  revoked_at timestamptz,
  revoke_reason text NOT NULL DEFAULT ''
);

-- What nodes last reported of themselves, a row per view.
CREATE TABLE node_status (
  node_id text COLLATE "C" NOT NULL REFERENCES node ON DELETE CASCADE,
  view smallint NOT NULL CHECK (view BETWEEN 1 AND 3),
  instance_id text NOT NULL,
  seq bigint NOT NULL,                 -- grows within one instance
  version text NOT NULL DEFAULT '',
  outcome smallint NOT NULL,           -- aidy.sync.v1.Outcome
  epoch bigint NOT NULL,
  generation bigint NOT NULL,          -- running
  from_disk boolean NOT NULL DEFAULT false,
  report bytea NOT NULL,               -- aidy.sync.v1.ReportRequest without signals
  reported_at timestamptz NOT NULL,
  PRIMARY KEY (node_id, view)
);

CREATE TABLE join_token (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL DEFAULT '',
  sha256 bytea NOT NULL UNIQUE CHECK (length(sha256) = 32),
  labels text[] NOT NULL DEFAULT '{}',
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz,
  node_id text COLLATE "C" REFERENCES node ON DELETE SET NULL
);
CREATE INDEX join_token_node ON join_token (node_id);

-- Operators. Roles: 1 owner, 2 editor, 3 viewer, 4 finance, 5 node.
CREATE TABLE admin_account (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL UNIQUE,
  role smallint NOT NULL CHECK (role BETWEEN 1 AND 5),
  tenant_ids text[] NOT NULL DEFAULT '{}',  -- empty = every tenant
  disabled boolean NOT NULL DEFAULT false,
  password_hash text NOT NULL DEFAULT '',   -- argon2id; empty = no password login
  oidc_issuer text NOT NULL DEFAULT '',
  oidc_subject text NOT NULL DEFAULT '',
  revision bigint NOT NULL CHECK (revision > 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX admin_account_oidc ON admin_account (oidc_issuer, oidc_subject) WHERE oidc_subject <> '';

CREATE TABLE admin_token (
  id text COLLATE "C" PRIMARY KEY,
  account_id text COLLATE "C" NOT NULL REFERENCES admin_account ON DELETE CASCADE,
  name text NOT NULL DEFAULT '',
  sha256 bytea NOT NULL UNIQUE CHECK (length(sha256) = 32),
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  last_used_at timestamptz
);
CREATE INDEX admin_token_account ON admin_token (account_id);

-- Keys. None is stored in the clear: each is wrapped under the root key.
CREATE TABLE data_key (                -- seals the secrets of one tenant at rest
  id text COLLATE "C" PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL DEFAULT '',
  wrapped bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  retired_at timestamptz
);
CREATE UNIQUE INDEX data_key_current ON data_key (tenant_id) WHERE retired_at IS NULL;

CREATE TABLE fleet_key (               -- shared by the nodes
  id text COLLATE "C" PRIMARY KEY,
  purpose text NOT NULL CHECK (purpose IN ('content', 'mac', 'prefix_seed', 'ca')),
  wrapped bytea NOT NULL,
  public bytea,                        -- the certificate of a CA key
  created_at timestamptz NOT NULL DEFAULT now(),
  retired_at timestamptz
);
CREATE UNIQUE INDEX fleet_key_current ON fleet_key (purpose) WHERE retired_at IS NULL;

-- Secrets of upstreams: sealed at rest under the tenant's data key, and once
-- more under the current content key, which are the bytes that nodes receive.
CREATE TABLE sealed_secret (
  owner_id text COLLATE "C" NOT NULL,  -- credential or upstream
  slot text NOT NULL CHECK (slot IN ('secret', 'proxy')),
  tenant_id text COLLATE "C" NOT NULL REFERENCES tenant DEFERRABLE INITIALLY DEFERRED,
  version bigint NOT NULL CHECK (version > 0),
  data_key_id text COLLATE "C" NOT NULL REFERENCES data_key,
  at_rest bytea NOT NULL,
  content_key_id text COLLATE "C" NOT NULL REFERENCES fleet_key,
  delivered bytea NOT NULL,
  fingerprint text NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (owner_id, slot)
);
CREATE INDEX sealed_secret_tenant ON sealed_secret (tenant_id);
CREATE INDEX sealed_secret_data_key ON sealed_secret (data_key_id);
CREATE INDEX sealed_secret_content_key ON sealed_secret (content_key_id);
