-- Remember that a migration was applied.
-- $1 name text, $2 checksum text: SHA-256 of its text, in hex.
INSERT INTO streamhouse_internal.migrations (name, checksum) VALUES ($1, $2)
