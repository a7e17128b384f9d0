-- Brokers that are alive, or have left and are still about to end, as node id and first address.
-- $1 how long a broker may be silent, milliseconds bigint.
-- A database of a version before sessions were kept has none.
-- Function: migrations/0005_brokers.sql
SELECT b.node_id, b.identity
FROM streamhouse_internal.brokers AS b
WHERE streamhouse_internal.is_recent(
    b.heartbeat_at, clock_timestamp(), $1::bigint * interval '1 millisecond'
) AND (
    b.live OR EXISTS (
        SELECT FROM pg_catalog.pg_stat_activity AS s
        WHERE s.pid = (to_jsonb(b) ->> 'session_pid')::int
    )
)
ORDER BY b.node_id
