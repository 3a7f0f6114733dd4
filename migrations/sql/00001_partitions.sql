-- +goose Up

-- No overlap of price versions needs equality and ranges in one index.
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- Rows of these tables are evidence: they are never changed, only added to.
-- +goose StatementBegin
CREATE FUNCTION aidy_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on % is refused: its rows are never changed; add a correcting row', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

-- aidy_create_partition makes one partition if it is not there. The advisory
-- lock lets any number of replicas ask at once.
-- +goose StatementBegin
CREATE FUNCTION aidy_create_partition(parent text, suffix text, lower_bound text, upper_bound text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  child text := parent || '_' || suffix;
BEGIN
  IF to_regclass(quote_ident(child)) IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('aidy_partitions'));
  EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', child, parent, lower_bound, upper_bound);
  IF parent IN ('usage_ledger', 'audit_event') THEN
    -- Row triggers are cloned from the parent, statement triggers are not.
    EXECUTE format('CREATE OR REPLACE TRIGGER append_only_truncate BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION aidy_append_only()', child);
  END IF;
END
$$;
-- +goose StatementEnd

-- aidy_ensure_month makes the partition of one of the monthly tables that holds
-- a day (UTC). It runs as its owner, so that a role without DDL rights can ask.
-- +goose StatementBegin
CREATE FUNCTION aidy_ensure_month(parent text, at date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  first date := date_trunc('month', at)::date;
  next date := (date_trunc('month', at) + interval '1 month')::date;
BEGIN
  IF parent = 'usage_ledger' THEN
    PERFORM aidy_create_partition(parent, 'm' || to_char(first, 'YYYYMM'), first::text, next::text);
  ELSIF parent IN ('generation_log', 'resource_revision', 'audit_event') THEN
    PERFORM aidy_create_partition(parent, 'm' || to_char(first, 'YYYYMM'), first || ' 00:00:00+00', next || ' 00:00:00+00');
  ELSE
    RAISE EXCEPTION '% has no monthly partitions', parent;
  END IF;
END
$$;
-- +goose StatementEnd

-- aidy_ensure_day makes the partition of a daily table that holds a day (UTC).
-- +goose StatementBegin
CREATE FUNCTION aidy_ensure_day(parent text, at date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
  IF parent <> 'idempotency' THEN
    RAISE EXCEPTION '% has no daily partitions', parent;
  END IF;
  PERFORM aidy_create_partition(parent, 'd' || to_char(at, 'YYYYMMDD'), at::text, (at + 1)::text);
END
$$;
-- +goose StatementEnd

-- aidy_ensure_generation makes the partition of config_change that holds a
-- generation: 100,000 generations each.
-- +goose StatementBegin
CREATE FUNCTION aidy_ensure_generation(generation bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  n bigint := generation / 100000;
BEGIN
  PERFORM aidy_create_partition('config_change', 'g' || n, (n * 100000)::text, ((n + 1) * 100000)::text);
END
$$;
-- +goose StatementEnd

-- aidy_ensure_partitions makes every partition that will be written soon.
-- +goose StatementBegin
CREATE FUNCTION aidy_ensure_partitions(at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  today date := (at AT TIME ZONE 'UTC')::date;
  parent text;
  generation bigint;
BEGIN
  FOREACH parent IN ARRAY ARRAY['generation_log', 'resource_revision', 'audit_event', 'usage_ledger'] LOOP
    FOR ahead IN 0..2 LOOP
      PERFORM aidy_ensure_month(parent, (today + make_interval(months => ahead))::date);
    END LOOP;
  END LOOP;
  -- Usage of the last day of a month arrives on the first of the next.
  PERFORM aidy_ensure_month('usage_ledger', (today - interval '1 month')::date);
  FOR ahead IN 0..2 LOOP
    PERFORM aidy_ensure_day('idempotency', today + ahead);
  END LOOP;
  SELECT h.generation INTO generation FROM config_head h;
  PERFORM aidy_ensure_generation(coalesce(generation, 0));
  PERFORM aidy_ensure_generation(coalesce(generation, 0) + 100000);
END
$$;
-- +goose StatementEnd

-- aidy_drop_expired drops the partitions whose every row is past its keep time
-- and returns their names. usage_ledger is never among them.
-- +goose StatementBegin
CREATE FUNCTION aidy_drop_expired(at timestamptz) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  today date := (at AT TIME ZONE 'UTC')::date;
  child record;
  expired boolean;
  head bigint;
  upper_bound bigint;
BEGIN
  SELECT generation INTO head FROM config_head;
  FOR child IN
    SELECT p.relname AS parent, c.relname AS name, substr(c.relname, length(p.relname) + 2) AS suffix
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
     WHERE p.relname IN ('generation_log', 'resource_revision', 'audit_event', 'idempotency', 'config_change')
       AND pg_table_is_visible(c.oid)
     ORDER BY c.relname
  LOOP
    expired := CASE child.parent
      WHEN 'idempotency' THEN to_date(substr(child.suffix, 2), 'YYYYMMDD') + 1 < today - 1
      WHEN 'audit_event' THEN to_date(substr(child.suffix, 2), 'YYYYMM') + interval '1 month' < today - interval '400 days'
      WHEN 'config_change' THEN false
      ELSE to_date(substr(child.suffix, 2), 'YYYYMM') + interval '1 month' < today - interval '90 days'
    END;
    IF child.parent = 'config_change' THEN
      upper_bound := (substr(child.suffix, 2)::bigint + 1) * 100000;
      expired := upper_bound <= head - 100000
        AND NOT EXISTS (SELECT FROM generation_log g WHERE g.generation = upper_bound - 1 AND g.created_at > at - interval '7 days');
    END IF;
    IF expired THEN
      EXECUTE format('DROP TABLE %I', child.name);
      RETURN NEXT child.name;
    END IF;
  END LOOP;
END
$$;
-- +goose StatementEnd
