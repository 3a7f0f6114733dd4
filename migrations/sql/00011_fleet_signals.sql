-- +goose Up

-- What a cooldown says of its cause goes to the other nodes too, and rows go when they are over.
ALTER TABLE fleet_signal
  ADD COLUMN start_time timestamptz,
  ADD COLUMN source text NOT NULL DEFAULT '',
  ADD COLUMN status integer NOT NULL DEFAULT 0,
  ADD COLUMN request_id text NOT NULL DEFAULT '',
  ADD COLUMN announced boolean NOT NULL DEFAULT false,
  ADD COLUMN secret_version bigint NOT NULL DEFAULT 0;
