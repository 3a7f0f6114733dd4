-- +goose Up

-- The gate of every configuration write, and what the fleet must run.
CREATE TABLE config_head (
  one_row boolean PRIMARY KEY DEFAULT true CHECK (one_row),
  epoch bigint NOT NULL,               -- the lineage of this database; the bits of a fixed64
  generation bigint NOT NULL CHECK (generation >= 0),
  identity_gen bigint NOT NULL,        -- the newest generation that touched the identity view
  stable_gen bigint NOT NULL,
  candidate_gen bigint,
  identity_root bytea,                 -- null until first touched: the root of the empty set
  stable_root bytea,
  candidate_root bytea,
  frozen_by text                       -- the admin account that froze policy commits
);
INSERT INTO config_head (epoch, generation, identity_gen, stable_gen)
VALUES (('x' || substr(replace(gen_random_uuid()::text, '-', ''), 17))::bit(64)::bigint, 0, 0, 0);

CREATE TABLE config_blob (
  hash bytea PRIMARY KEY CHECK (length(hash) = 32),  -- SHA-256 of bytes
  bytes bytea NOT NULL
);

-- view: 1 identity, 2 stable, 3 candidate overlay (null hash = removed there).
CREATE TABLE config_shard (
  view smallint NOT NULL CHECK (view BETWEEN 1 AND 3),
  key text COLLATE "C" NOT NULL,
  bucket smallint NOT NULL CHECK (bucket BETWEEN 0 AND 1023),
  hash bytea REFERENCES config_blob,
  generation bigint NOT NULL,
  PRIMARY KEY (view, key),
  CHECK (hash IS NOT NULL OR view = 3)
);
CREATE INDEX config_shard_view_bucket ON config_shard (view, bucket);
CREATE INDEX config_shard_hash ON config_shard (hash);

CREATE TABLE config_bucket (
  view smallint NOT NULL CHECK (view BETWEEN 1 AND 3),
  bucket smallint NOT NULL CHECK (bucket BETWEEN 0 AND 1023),
  hash bytea NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (view, bucket)
);

CREATE TABLE config_change (
  generation bigint NOT NULL,
  seq int NOT NULL,
  view smallint NOT NULL CHECK (view BETWEEN 1 AND 3),
  key text COLLATE "C" NOT NULL,
  tx_group int NOT NULL,
  old_hash bytea REFERENCES config_blob,
  new_hash bytea REFERENCES config_blob,  -- null = tombstone
  PRIMARY KEY (generation, seq)
) PARTITION BY RANGE (generation);
CREATE INDEX config_change_view_key ON config_change (view, key, generation);
CREATE INDEX config_change_old_hash ON config_change (old_hash);
CREATE INDEX config_change_new_hash ON config_change (new_hash);

CREATE TABLE generation_log (
  generation bigint NOT NULL,
  created_at timestamptz NOT NULL,
  change_id text NOT NULL,             -- made by the writer: it can tell whether a commit it lost sight of happened
  actor text NOT NULL,
  message text NOT NULL DEFAULT '',
  rollout text NOT NULL DEFAULT '',
  touched_identity boolean NOT NULL,
  touched_policy boolean NOT NULL,
  resources int NOT NULL,
  shards int NOT NULL,
  identity_root bytea,
  stable_root bytea,
  PRIMARY KEY (generation, created_at)
) PARTITION BY RANGE (created_at);

-- A row after each change, without secrets; null = deleted.
CREATE TABLE resource_revision (
  kind text NOT NULL,
  id text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  generation bigint NOT NULL,
  tenant_id text NOT NULL DEFAULT '',
  message bytea,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (kind, id, revision, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX resource_revision_generation ON resource_revision (generation);

CREATE TABLE audit_event (
  id text COLLATE "C" NOT NULL,
  occurred_at timestamptz NOT NULL,
  actor text NOT NULL,
  actor_kind text NOT NULL DEFAULT '',
  action text NOT NULL,
  kind text NOT NULL DEFAULT '',
  resource_id text NOT NULL DEFAULT '',
  resource_name text NOT NULL DEFAULT '',
  tenant_id text NOT NULL DEFAULT '',
  generation bigint NOT NULL DEFAULT 0,
  message text NOT NULL DEFAULT '',
  remote text NOT NULL DEFAULT '',
  before bytea,                        -- messages of aidy.config.v1, secrets removed
  after bytea,
  PRIMARY KEY (id, occurred_at)
) PARTITION BY RANGE (occurred_at);
CREATE INDEX audit_event_resource ON audit_event (resource_id, id);
CREATE INDEX audit_event_tenant ON audit_event (tenant_id, id);
CREATE INDEX audit_event_actor ON audit_event (actor, id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_event FOR EACH ROW EXECUTE FUNCTION aidy_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON audit_event FOR EACH STATEMENT EXECUTE FUNCTION aidy_append_only();

-- Answers of writes that carried a key, kept for 24 h.
CREATE TABLE idempotency (
  day date NOT NULL,
  actor text NOT NULL,
  key text NOT NULL,
  request_hash bytea NOT NULL,
  generation bigint NOT NULL,
  response bytea NOT NULL,             -- without secrets
  created_at timestamptz NOT NULL,
  PRIMARY KEY (day, actor, key)
) PARTITION BY RANGE (day);

-- What must be denied at once, on its way to the fleet's fast path.
CREATE TABLE revocation_outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  epoch bigint NOT NULL,
  generation bigint NOT NULL,
  kind text NOT NULL CHECK (kind IN ('key', 'tenant', 'project', 'consumer', 'credential', 'issuer')),
  subject text NOT NULL,
  created_at timestamptz NOT NULL,
  sent_at timestamptz
);
CREATE INDEX revocation_outbox_unsent ON revocation_outbox (id) WHERE sent_at IS NULL;

-- Soft state of nodes, at most 10 minutes old: losing it in a crash is fine.
CREATE UNLOGGED TABLE fleet_signal (
  id text COLLATE "C" PRIMARY KEY,
  node_id text NOT NULL,
  kind smallint NOT NULL,
  scope text NOT NULL,
  subject text NOT NULL,
  cause text NOT NULL DEFAULT '',
  until timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX fleet_signal_created ON fleet_signal (created_at);
