-- The brokers' schema; nothing if it is there.
CREATE SCHEMA IF NOT EXISTS streamhouse_internal
