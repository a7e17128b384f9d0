-- Remember that a migration was applied.
-- $1 name text; $2 checksum text: SHA-256 of its text, in hex; $3 stops_older boolean.
INSERT INTO streamhouse_internal.migrations (name, checksum, stops_older) VALUES ($1, $2, $3)
