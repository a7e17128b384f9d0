-- Migrations applied to this database, with the SHA-256 of their text, and whether brokers that do not know
-- one cannot work beside it. A database that only older versions have seen does not say.
SELECT m.name, m.checksum, coalesce((to_jsonb(m) ->> 'stops_older')::boolean, true) AS stops_older
FROM streamhouse_internal.migrations AS m
ORDER BY m.name
