-- Transactional ids in their order, from one on. running_ms is null where no transaction is open.
-- $1 the first that may be listed; '' is before all, $2 how many at most.
SELECT
    transactional_id, producer_id, state,
    CASE state  -- greatest() would make 0 of null
        WHEN 'Ongoing' THEN greatest(floor(extract(epoch FROM now() - started_at) * 1000), 0)::bigint
    END AS running_ms
FROM streamhouse_internal.transactions
WHERE transactional_id >= $1
ORDER BY transactional_id
LIMIT $2
