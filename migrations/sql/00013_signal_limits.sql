-- +goose Up

-- What an upstream said of its own limits goes to the other nodes, too.
ALTER TABLE fleet_signal
  ADD COLUMN dimension text NOT NULL DEFAULT '',
  ADD COLUMN limit_value double precision NOT NULL DEFAULT 0,
  ADD COLUMN limit_remaining double precision NOT NULL DEFAULT 0,
  ADD COLUMN limit_reset_ms bigint NOT NULL DEFAULT 0;
