-- All transactional ids. running_ms is null where no transaction is open.
SELECT
    transactional_id, producer_id, state,
    CASE state  -- greatest() would make 0 of null
        WHEN 'Ongoing' THEN greatest(floor(extract(epoch FROM now() - started_at) * 1000), 0)::bigint
    END AS running_ms
FROM streamhouse_internal.transactions
ORDER BY transactional_id
