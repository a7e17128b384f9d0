-- Migrations applied to this database, with the SHA-256 of their text.
SELECT name, checksum FROM streamhouse_internal.migrations ORDER BY name
