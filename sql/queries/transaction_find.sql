-- Transactional ids with the partitions of their open transactions, ascending; ids and partitions that
-- do not exist are left out. started_ms is null where none is open.
-- $1 transactional_id text[].
SELECT
    t.transactional_id, t.producer_id, t.producer_epoch, t.state, t.timeout_ms,
    floor(extract(epoch FROM t.started_at) * 1000)::bigint AS started_ms,
    p.topic_ids, p.partitions
FROM unnest($1::text[]) AS w (transactional_id)
CROSS JOIN LATERAL (
    SELECT *
    FROM streamhouse_internal.transactions AS found
    WHERE found.transactional_id = w.transactional_id
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS t
CROSS JOIN LATERAL (
    SELECT
        coalesce(array_agg(m.topic_id ORDER BY m.topic_id, m.partition), '{}') AS topic_ids,
        coalesce(array_agg(m.partition ORDER BY m.topic_id, m.partition), '{}') AS partitions
    FROM (
        SELECT * FROM streamhouse_internal.transaction_partitions AS found
        WHERE found.producer_id = t.producer_id
        OFFSET 0
    ) AS m
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.partitions AS found
        WHERE found.topic_id = m.topic_id AND found.partition = m.partition
        OFFSET 0
    ) AS known
) AS p
