-- +goose Up

-- A tenant owns one secret itself: its state key, which ties what clients hold of
-- stored objects to the tenant. The control plane makes those that are missing.
ALTER TABLE sealed_secret
  DROP CONSTRAINT sealed_secret_slot_check,
  ADD CONSTRAINT sealed_secret_slot_check CHECK (slot IN ('secret', 'proxy', 'state'));
