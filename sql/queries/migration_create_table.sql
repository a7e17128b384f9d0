-- Where the names of applied migrations are kept; nothing if it is there.
CREATE TABLE IF NOT EXISTS streamhouse_internal.migrations (
    name text PRIMARY KEY,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
