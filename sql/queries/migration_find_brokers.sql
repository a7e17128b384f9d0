-- Brokers that are alive, as node id and first address.
-- $1 time to live, milliseconds bigint.
-- Function: migrations/0005_brokers.sql
SELECT b.node_id, b.identity
FROM streamhouse_internal.brokers AS b
WHERE b.live AND streamhouse_internal.is_recent(
    b.heartbeat_at, clock_timestamp(), $1::bigint * interval '1 millisecond'
)
ORDER BY b.node_id
