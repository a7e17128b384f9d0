-- Wait no longer for a table than this, to the end of the transaction; and take as long as it takes,
-- whatever is set for the role: an index of a large table that is always given up would never be there.
-- Nor are functions compiled, which is an eighth of all migrations (tests/storage/test_migrate.py does it).
-- $1 a duration as Postgres writes it.
SELECT set_config(
    s.name,
    CASE s.name WHEN 'lock_timeout' THEN $1 WHEN 'check_function_bodies' THEN 'off' ELSE '0' END,
    true
)
FROM pg_catalog.pg_settings AS s
WHERE s.name IN (
    'lock_timeout', 'statement_timeout', 'transaction_timeout', 'check_function_bodies'
)
