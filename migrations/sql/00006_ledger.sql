-- +goose Up

-- Amounts are integers: nano units of the row's currency.

CREATE TABLE ingest_batch (
  id text COLLATE "C" PRIMARY KEY,
  node_id text NOT NULL,
  boot_id text NOT NULL,
  first_seq bigint NOT NULL CHECK (first_seq > 0),
  last_seq bigint NOT NULL,
  rows int NOT NULL,
  sum_cost bigint NOT NULL,            -- over all currencies: a checksum, not an amount
  sum_price bigint NOT NULL,
  prev_hash bytea,                     -- of the batch before it of this node and boot
  hash bytea NOT NULL CHECK (length(hash) = 32),
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (last_seq >= first_seq)
);
CREATE INDEX ingest_batch_node ON ingest_batch (node_id, boot_id, first_seq);

-- Up to where the log of one start of a node is stored.
CREATE TABLE ingest_watermark (
  node_id text NOT NULL,
  boot_id text NOT NULL,
  last_seq bigint NOT NULL,
  last_hash bytea,
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (node_id, boot_id)
);

CREATE TABLE usage_ledger (
  ledger_day date NOT NULL,            -- from the request id, so that a replay meets its first copy
  request_id text COLLATE "C" NOT NULL,
  attempt int NOT NULL CHECK (attempt >= 0),
  kind smallint NOT NULL CHECK (kind BETWEEN 1 AND 8),  -- aidy.ledger.v1.EntryKind
  seq int NOT NULL CHECK (seq >= 0),
  entry_id text COLLATE "C" NOT NULL,
  ref_entry_id text COLLATE "C",       -- the row that this one corrects
  batch_id text COLLATE "C" REFERENCES ingest_batch,    -- null for rows of operators
  tenant text NOT NULL DEFAULT '',
  project text NOT NULL DEFAULT '',
  consumer text NOT NULL DEFAULT '',
  api_key text NOT NULL DEFAULT '',
  end_user_hmac bytea,
  labels text[] NOT NULL DEFAULT '{}',
  parent_request_id text NOT NULL DEFAULT '',
  decision_id text NOT NULL DEFAULT '',
  route text NOT NULL DEFAULT '',
  provider text NOT NULL DEFAULT '',
  upstream text NOT NULL DEFAULT '',
  credential text NOT NULL DEFAULT '',
  region text NOT NULL DEFAULT '',
  model_requested text NOT NULL DEFAULT '',
  model_routed text NOT NULL DEFAULT '',
  model_served text NOT NULL DEFAULT '',
  model_billed text NOT NULL DEFAULT '',
  service_tier text NOT NULL DEFAULT '',
  class text NOT NULL DEFAULT '',
  purpose smallint NOT NULL DEFAULT 1, -- aidy.ledger.v1.Purpose
  policy_generation bigint NOT NULL DEFAULT 0,
  identity_generation bigint NOT NULL DEFAULT 0,
  input bigint NOT NULL DEFAULT 0,
  cache_read bigint NOT NULL DEFAULT 0,
  cache_write_5m bigint NOT NULL DEFAULT 0,
  cache_write_1h bigint NOT NULL DEFAULT 0,
  output bigint NOT NULL DEFAULT 0,
  reasoning bigint NOT NULL DEFAULT 0,
  audio_in bigint NOT NULL DEFAULT 0,
  audio_out bigint NOT NULL DEFAULT 0,
  image_in bigint NOT NULL DEFAULT 0,
  image_out bigint NOT NULL DEFAULT 0,
  image_unit bigint NOT NULL DEFAULT 0,
  audio_second bigint NOT NULL DEFAULT 0,
  video_second bigint NOT NULL DEFAULT 0,
  web_search bigint NOT NULL DEFAULT 0,
  request bigint NOT NULL DEFAULT 0,
  usage_source smallint NOT NULL DEFAULT 0,             -- aidy.ledger.v1.UsageSource
  outcome smallint NOT NULL DEFAULT 0,                  -- aidy.ledger.v1.AttemptOutcome
  error_class text NOT NULL DEFAULT '',
  upstream_status int NOT NULL DEFAULT 0,
  protocol text NOT NULL DEFAULT '',
  stream boolean NOT NULL DEFAULT false,
  provider_request_id text NOT NULL DEFAULT '',
  cost_version text NOT NULL DEFAULT '',
  cost_nano bigint,                    -- null = unpriced
  cost_currency text NOT NULL DEFAULT '',
  price_version text NOT NULL DEFAULT '',
  price_nano bigint,                   -- null = unpriced
  price_currency text NOT NULL DEFAULT '',
  fx_id text NOT NULL DEFAULT '',
  saved_nano bigint NOT NULL DEFAULT 0,
  accepted_at timestamptz,
  occurred_at timestamptz NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (ledger_day, request_id, attempt, kind, seq)
) PARTITION BY RANGE (ledger_day);
CREATE INDEX usage_ledger_entry ON usage_ledger (entry_id);
CREATE INDEX usage_ledger_ref ON usage_ledger (ref_entry_id) WHERE ref_entry_id IS NOT NULL;
CREATE INDEX usage_ledger_batch ON usage_ledger (batch_id);
CREATE INDEX usage_ledger_tenant ON usage_ledger (tenant, ledger_day);
CREATE INDEX usage_ledger_consumer ON usage_ledger (consumer, ledger_day) WHERE consumer <> '';
CREATE INDEX usage_ledger_open_hold ON usage_ledger (occurred_at) WHERE kind = 2;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON usage_ledger FOR EACH ROW EXECUTE FUNCTION aidy_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON usage_ledger FOR EACH STATEMENT EXECUTE FUNCTION aidy_append_only();

-- Double entry, where money moves between accounts: a group per ingest batch, or
-- per act of an operator, whose lines sum to nothing in each currency.
CREATE TABLE journal (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_id text COLLATE "C" NOT NULL,
  account text NOT NULL CHECK (account IN ('customer_credit', 'receivable', 'revenue', 'upstream_cost', 'provider_payable',
    'promotional', 'absorbed', 'rounding', 'cash')),
  subject text NOT NULL DEFAULT '',    -- the credit account, or the provider
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  amount_nano bigint NOT NULL CHECK (amount_nano <> 0),
  entry_id text COLLATE "C" NOT NULL DEFAULT '',
  actor text NOT NULL DEFAULT '',
  memo text NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX journal_batch ON journal (batch_id, currency);
CREATE INDEX journal_subject ON journal (subject, id) WHERE subject <> '';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON journal FOR EACH ROW EXECUTE FUNCTION aidy_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON journal FOR EACH STATEMENT EXECUTE FUNCTION aidy_append_only();

-- +goose StatementBegin
CREATE FUNCTION aidy_journal_balanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  total numeric;
BEGIN
  SELECT sum(amount_nano) INTO total FROM journal WHERE batch_id = NEW.batch_id AND currency = NEW.currency;
  IF total <> 0 THEN
    RAISE EXCEPTION 'journal group % does not balance: % nano % left', NEW.batch_id, total, NEW.currency
      USING ERRCODE = 'check_violation', TABLE = 'journal', CONSTRAINT = 'journal_balanced';
  END IF;
  RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER journal_balanced AFTER INSERT ON journal DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION aidy_journal_balanced();

CREATE TABLE credit_account (
  account_id text COLLATE "C" PRIMARY KEY,              -- of the resource CreditAccount
  tenant_id text COLLATE "C" NOT NULL,
  consumer_id text COLLATE "C" NOT NULL,
  api_key_id text COLLATE "C" NOT NULL DEFAULT '',
  parent_account_id text COLLATE "C" REFERENCES credit_account,
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  posted_nano bigint NOT NULL DEFAULT 0,
  held_nano bigint NOT NULL DEFAULT 0 CHECK (held_nano >= 0),
  floor_nano bigint NOT NULL DEFAULT 0,
  debt_nano bigint NOT NULL DEFAULT 0 CHECK (debt_nano >= 0),  -- overrun that policy does not absorb
  cap_nano bigint CHECK (cap_nano >= 0),
  grace_nano bigint NOT NULL DEFAULT 0 CHECK (grace_nano >= 0),
  closed_at timestamptz,
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT credit_account_floor CHECK (posted_nano - held_nano >= floor_nano)
);
CREATE INDEX credit_account_parent ON credit_account (parent_account_id);
CREATE INDEX credit_account_consumer ON credit_account (consumer_id);
CREATE INDEX credit_account_tenant ON credit_account (tenant_id);

CREATE TABLE credit_lease (
  id text COLLATE "C" PRIMARY KEY,
  account_id text COLLATE "C" NOT NULL REFERENCES credit_account,
  node_id text NOT NULL,
  boot_id text NOT NULL,
  amount_nano bigint NOT NULL CHECK (amount_nano >= 0),
  spent_nano bigint NOT NULL DEFAULT 0 CHECK (spent_nano >= 0),
  settled_nano bigint NOT NULL DEFAULT 0 CHECK (settled_nano >= 0),
  state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'expired', 'closed')),
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  closed_at timestamptz,
  close_reason text NOT NULL DEFAULT '',
  CHECK ((state = 'closed') = (closed_at IS NOT NULL))
);
CREATE INDEX credit_lease_account ON credit_lease (account_id) WHERE state <> 'closed';
CREATE INDEX credit_lease_node ON credit_lease (node_id, boot_id) WHERE state <> 'closed';
CREATE INDEX credit_lease_expiry ON credit_lease (expires_at) WHERE state = 'active';

CREATE TABLE credit_grant (
  id text COLLATE "C" PRIMARY KEY,
  account_id text COLLATE "C" NOT NULL REFERENCES credit_account,
  amount_nano bigint NOT NULL,
  remaining_nano bigint NOT NULL CHECK (remaining_nano >= 0),
  priority int NOT NULL DEFAULT 0,     -- smaller is spent first
  expires_at timestamptz,
  reason text NOT NULL DEFAULT '',
  actor text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX credit_grant_account ON credit_grant (account_id, priority, expires_at) WHERE remaining_nano > 0;

CREATE TABLE provider_bill_line (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bill_id text NOT NULL,
  line int NOT NULL,
  provider text NOT NULL,
  account text NOT NULL DEFAULT '',
  day date NOT NULL,
  model text NOT NULL,
  component text NOT NULL,
  units bigint,
  amount_nano bigint NOT NULL,
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  imported_by text NOT NULL,
  imported_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (bill_id, line)
);
CREATE INDEX provider_bill_line_day ON provider_bill_line (provider, day);

CREATE TABLE reconciliation_run (
  id text COLLATE "C" PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('internal', 'external')),
  day date NOT NULL,
  provider text NOT NULL DEFAULT '',
  state text NOT NULL CHECK (state IN ('running', 'clean', 'differs', 'approved')),
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  approved_by text NOT NULL DEFAULT '',
  approved_at timestamptz
);
CREATE INDEX reconciliation_run_day ON reconciliation_run (day, kind);

CREATE TABLE reconciliation_diff (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id text COLLATE "C" NOT NULL REFERENCES reconciliation_run,
  rule text NOT NULL,                  -- which sum does not agree
  subject text NOT NULL,
  currency text NOT NULL DEFAULT '',
  expected bigint NOT NULL,
  found bigint NOT NULL,
  within_tolerance boolean NOT NULL,
  adjustment_entry_id text COLLATE "C"
);
CREATE INDEX reconciliation_diff_run ON reconciliation_diff (run_id);

CREATE TABLE ledger_period (
  tenant text NOT NULL,
  period date NOT NULL,                -- the first day of a month
  closed_by text NOT NULL,
  closed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, period),
  CHECK (period = date_trunc('month', period)::date)
);
