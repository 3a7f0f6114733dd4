-- +goose Up

-- One row a request, without its content. A request's id says its day, so that an id names the
-- one partition that can hold it, and a row that comes twice is the same row.
CREATE TABLE request_log (
  day date NOT NULL,
  request_id text NOT NULL,
  start_time timestamptz NOT NULL,
  node_id text NOT NULL,
  tenant_id text NOT NULL,
  consumer_id text NOT NULL,
  api_key_id text NOT NULL,
  route_id text NOT NULL,
  operation text NOT NULL,
  model text NOT NULL,
  model_served text NOT NULL,
  provider_id text NOT NULL,
  credential_id text NOT NULL,
  status integer NOT NULL,
  outcome text NOT NULL,
  code text NOT NULL,
  attempts integer NOT NULL,
  duration_us bigint NOT NULL,
  first_event_us bigint NOT NULL,
  input_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nanos bigint NOT NULL,
  count bigint NOT NULL,
  decision_id text NOT NULL,
  record bytea NOT NULL,
  decision text,
  PRIMARY KEY (day, request_id)
) PARTITION BY RANGE (day);

CREATE INDEX request_log_time ON request_log (start_time DESC, request_id DESC);
CREATE INDEX request_log_tenant ON request_log (tenant_id, start_time DESC, request_id DESC);
CREATE INDEX request_log_decision ON request_log (decision_id) WHERE decision_id <> '';

-- Rows that nodes lost for want of room, by the hour in which they said so.
CREATE TABLE request_log_gap (
  hour timestamptz NOT NULL,
  node_id text NOT NULL,
  lost bigint NOT NULL,
  PRIMARY KEY (hour, node_id)
);

-- aidy_ensure_request_log makes the partitions of the given day and of three days more.
-- +goose StatementBegin
CREATE FUNCTION aidy_ensure_request_log(at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  today date := (at AT TIME ZONE 'UTC')::date;
BEGIN
  FOR ahead IN -1..3 LOOP
    PERFORM aidy_create_partition('request_log', 'd' || to_char(today + ahead, 'YYYYMMDD'), (today + ahead)::text, (today + ahead + 1)::text);
  END LOOP;
END
$$;
-- +goose StatementEnd

-- aidy_drop_request_log drops the partitions whose day is more than keep days ago, and returns
-- their names.
-- +goose StatementBegin
CREATE FUNCTION aidy_drop_request_log(at timestamptz, keep integer) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  today date := (at AT TIME ZONE 'UTC')::date;
  child record;
BEGIN
  FOR child IN
    SELECT c.relname AS name, substr(c.relname, length('request_log_d') + 1) AS suffix
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
     WHERE p.relname = 'request_log' AND pg_table_is_visible(c.oid)
     ORDER BY c.relname
  LOOP
    IF to_date(child.suffix, 'YYYYMMDD') < today - keep THEN
      EXECUTE format('DROP TABLE %I', child.name);
      RETURN NEXT child.name;
    END IF;
  END LOOP;
END
$$;
-- +goose StatementEnd

SELECT aidy_ensure_request_log(now());

-- Roles are those of 00007; a table made later has no rights of theirs.
-- +goose StatementBegin
DO $$
BEGIN
  IF to_regrole('aidy_control') IS NOT NULL THEN
    GRANT SELECT, INSERT, UPDATE, DELETE ON request_log, request_log_gap TO aidy_control;
  END IF;
  IF to_regrole('aidy_readonly') IS NOT NULL THEN
    GRANT SELECT ON request_log, request_log_gap TO aidy_readonly;
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'the rights on the request log are not granted: the account may not grant them';
END
$$;
-- +goose StatementEnd
