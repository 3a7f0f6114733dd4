-- +goose Up

-- A batch states its sums and its hash, which are known once its rows are in:
-- the reference is checked at the end of the transaction.
ALTER TABLE usage_ledger ALTER CONSTRAINT usage_ledger_batch_id_fkey DEFERRABLE INITIALLY DEFERRED;

-- What the price was made of besides the row's own units, so that it can be
-- computed again.
ALTER TABLE usage_ledger
  ADD COLUMN price_book text NOT NULL DEFAULT '',
  ADD COLUMN price_mult_num bigint NOT NULL DEFAULT 0,   -- 0/0 = 1
  ADD COLUMN price_mult_den bigint NOT NULL DEFAULT 0,
  ADD COLUMN charged_units bytea;                        -- aidy.ledger.v1.Units; null = the row's units

-- A batch of sums, made of events that are kept nowhere else: its range must
-- not meet that of another batch.
ALTER TABLE ingest_batch ADD COLUMN folded boolean NOT NULL DEFAULT false;

-- Attempts of unknown outcome that wait to be closed. Work, not evidence: the
-- evidence is the hold row, and a line goes when it has been closed.
CREATE TABLE usage_hold (
  request_id text COLLATE "C" NOT NULL,
  attempt int NOT NULL,
  seq int NOT NULL,
  entry_id text COLLATE "C" NOT NULL,  -- of the hold row
  due_at timestamptz NOT NULL,
  event bytea NOT NULL,                -- aidy.ledger.v1.UsageEvent, to rate the settlement by
  PRIMARY KEY (request_id, attempt, seq)
);
CREATE INDEX usage_hold_due ON usage_hold (due_at);

-- Events that cannot be ledger rows, kept whole until somebody has looked.
CREATE TABLE usage_quarantine (
  hash bytea PRIMARY KEY CHECK (length(hash) = 32),  -- SHA-256 of node and event: a replay meets its first copy
  node_id text NOT NULL,
  boot_id text NOT NULL,
  log_seq bigint NOT NULL,             -- the bits of a uint64
  request_id text NOT NULL,            -- as far as it can be text
  reason text NOT NULL,
  detail text NOT NULL,
  event bytea NOT NULL,                -- aidy.ledger.v1.UsageEvent
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX usage_quarantine_recorded ON usage_quarantine (recorded_at);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON usage_quarantine FOR EACH ROW EXECUTE FUNCTION aidy_append_only();
CREATE TRIGGER append_only_truncate BEFORE TRUNCATE ON usage_quarantine FOR EACH STATEMENT EXECUTE FUNCTION aidy_append_only();

-- +goose StatementBegin
DO $$
DECLARE
  part regclass;
BEGIN
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'aidy_control') THEN
    -- A right that was given on all tables was given on each partition too, and
    -- taking it from the parent leaves it there.
    FOR part IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent IN ('usage_ledger'::regclass, 'audit_event'::regclass) LOOP
      EXECUTE format('REVOKE UPDATE, DELETE ON %s FROM aidy_control', part);
    END LOOP;
    FOR part IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = 'usage_ledger'::regclass LOOP
      EXECUTE format('REVOKE INSERT ON %s FROM aidy_control', part);
    END LOOP;
    GRANT SELECT ON usage_hold, usage_quarantine TO aidy_control;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'aidy_ledger') THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON usage_hold TO aidy_ledger;
    GRANT SELECT, INSERT ON usage_quarantine TO aidy_ledger;
  END IF;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'aidy_readonly') THEN
    GRANT SELECT ON usage_hold, usage_quarantine TO aidy_readonly;
  END IF;
END
$$;
-- +goose StatementEnd
