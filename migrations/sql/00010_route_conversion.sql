-- +goose Up

ALTER TABLE route
  ADD COLUMN conversion bytea,
  ADD COLUMN raw_paths text[] NOT NULL DEFAULT '{}';
