-- +goose Up

-- Prices as rows, kept in step with provider_pricing and price_book_entry in the
-- transaction that changes those.

CREATE TABLE price_book (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL DEFAULT '',   -- empty = all tenants
  side text NOT NULL CHECK (side IN ('cost', 'price')),
  name text NOT NULL,                               -- the provider on the cost side
  currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  UNIQUE (tenant_id, side, name, currency)
);

CREATE TABLE price_version (
  id text COLLATE "C" PRIMARY KEY,                  -- of the resource it comes from
  book_id bigint NOT NULL REFERENCES price_book,
  side text NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  book text NOT NULL,
  provider_id text COLLATE "C" NOT NULL DEFAULT '', -- empty = whatever provider served
  model text NOT NULL,
  region text NOT NULL,
  service_tier text NOT NULL,
  currency text NOT NULL,
  effective_from timestamptz NOT NULL,
  effective_until timestamptz,
  valid tstzrange NOT NULL,                         -- ends where the next version begins
  published boolean NOT NULL,
  approved_by text NOT NULL DEFAULT '',
  approved_at timestamptz,
  CHECK (effective_until IS NULL OR effective_until > effective_from),
  CONSTRAINT price_version_no_overlap EXCLUDE USING gist (
    side WITH =, tenant_id WITH =, book WITH =, provider_id WITH =, model WITH =, region WITH =, service_tier WITH =, valid WITH &&
  ) WHERE (published) DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX price_version_book ON price_version (book_id);
CREATE INDEX price_version_lookup ON price_version (side, model, provider_id) WHERE published;

CREATE TABLE price_item (
  version_id text COLLATE "C" NOT NULL REFERENCES price_version ON DELETE CASCADE,
  ordinal int NOT NULL,
  component smallint NOT NULL CHECK (component BETWEEN 1 AND 15),  -- aidy.config.v1.PriceComponent
  context_min bigint NOT NULL CHECK (context_min >= 0),
  context_max bigint NOT NULL CHECK (context_max >= 0),            -- 0 = no end
  tier_mode smallint NOT NULL CHECK (tier_mode BETWEEN 0 AND 2),
  nano_per_million bigint NOT NULL CHECK (nano_per_million >= 0),
  mult_num bigint NOT NULL CHECK (mult_num > 0),
  mult_den bigint NOT NULL CHECK (mult_den > 0),
  PRIMARY KEY (version_id, ordinal)
);
