-- What was open at the moment of a snapshot.
-- $1 snapshot_id text.
SELECT topic_id, partition, producer_id, first_offset
FROM streamhouse_internal.snapshot_transactions
WHERE snapshot_id = $1
ORDER BY topic_id, partition, producer_id
