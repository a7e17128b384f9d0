-- Forget broker $1 (int) if it is dead; one row: what it was (live, dead, unknown).
-- What each broker leads depends on who is known, so that is a new generation.
-- The cluster's row is locked first, as by all that changes the set of brokers: one that comes back
-- this very moment is live by then, or finds that it is gone. What the broker is is read with its lock,
-- so it is not what it was when this statement began to wait.
WITH locked AS MATERIALIZED (
    SELECT FROM streamhouse_internal.cluster FOR UPDATE
),
known AS MATERIALIZED (
    SELECT b.node_id, b.live
    FROM streamhouse_internal.brokers AS b
    CROSS JOIN locked
    WHERE b.node_id = $1::int
    FOR UPDATE OF b
),
forgotten AS (
    DELETE FROM streamhouse_internal.brokers AS b
    USING known AS k
    WHERE b.node_id = k.node_id AND NOT k.live
),
told AS (
    UPDATE streamhouse_internal.cluster SET broker_generation = broker_generation + 1
    WHERE EXISTS (SELECT FROM known AS k WHERE NOT k.live)
)
SELECT coalesce(
    (SELECT CASE WHEN k.live THEN 'live' ELSE 'dead' END FROM known AS k), 'unknown'
) AS life
