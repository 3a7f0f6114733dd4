-- +goose Up

-- Partitions for the coming months, days and generations.
SELECT aidy_ensure_partitions(now());

-- Roles that narrow what a login can do: grant them to the logins of services
-- and people. Where we may not make roles, the owner of the schema does all the
-- work, and the triggers still refuse to change evidence.
-- +goose StatementBegin
DO $$
DECLARE
  role_name text;
  names text[] := '{}';
BEGIN
  FOREACH role_name IN ARRAY ARRAY['aidy_control', 'aidy_ledger', 'aidy_readonly'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
      END IF;
      names := names || role_name;
    EXCEPTION
      WHEN insufficient_privilege THEN
        RAISE NOTICE 'role % not made: no right to make roles', role_name;
      WHEN duplicate_object OR unique_violation THEN  -- made by another database of this server meanwhile
        names := names || role_name;
    END;
  END LOOP;

  IF 'aidy_control' = ANY (names) THEN
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO aidy_control', current_schema());
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO aidy_control', current_schema());
    REVOKE UPDATE, DELETE ON usage_ledger, journal, audit_event FROM aidy_control;
    -- The ledger's tables are the ledger's.
    REVOKE INSERT ON usage_ledger, journal, ingest_batch, provider_bill_line FROM aidy_control;
    REVOKE ALL ON goose_db_version FROM aidy_control;
    GRANT SELECT ON goose_db_version TO aidy_control;
  END IF;
  IF 'aidy_ledger' = ANY (names) THEN
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO aidy_ledger', current_schema());
    REVOKE ALL ON data_key, fleet_key, sealed_secret, admin_account, admin_token, join_token FROM aidy_ledger;
    GRANT INSERT ON usage_ledger, journal, audit_event TO aidy_ledger;
    GRANT INSERT, UPDATE, DELETE ON ingest_batch, ingest_watermark, credit_account, credit_lease, credit_grant,
      provider_bill_line, reconciliation_run, reconciliation_diff, ledger_period TO aidy_ledger;
    EXECUTE format('GRANT USAGE ON ALL SEQUENCES IN SCHEMA %I TO aidy_ledger', current_schema());
  END IF;
  IF 'aidy_readonly' = ANY (names) THEN
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA %I TO aidy_readonly', current_schema());
    REVOKE ALL ON data_key, fleet_key, sealed_secret, admin_account, admin_token, join_token, config_blob FROM aidy_readonly;
  END IF;
END
$$;
-- +goose StatementEnd
