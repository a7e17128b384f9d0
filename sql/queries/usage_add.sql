-- Add what was counted to what is there. A topic that is gone keeps the name that it had.
-- Per row, no two of the same hour, topic and client: $1 hour bigint[] (ms since 1970), $2 topic_id
--   uuid[], $3 client_id text[], $4 puts float8[], $5 put_bytes bigint[], $6 gets float8[],
--   $7 get_bytes bigint[], $8 lists float8[], $9 deletes float8[], $10 produced_bytes bigint[],
--   $11 fetched_bytes bigint[]; $12: what a topic without a name is called.
-- Rows are locked in key order, so brokers that write at the same time never deadlock.
INSERT INTO streamhouse_internal.usage AS u (
    hour, topic_id, client_id, topic, puts, put_bytes, gets, get_bytes, lists, deletes,
    produced_bytes, fetched_bytes
)
SELECT
    to_timestamp(n.hour_ms / 1000.0), n.topic_id, n.client_id,
    CASE
        WHEN n.topic_id = '00000000-0000-0000-0000-000000000000' THEN ''
        ELSE coalesce(t.name, $12::text)
    END,
    n.puts, n.put_bytes, n.gets, n.get_bytes, n.lists, n.deletes, n.produced_bytes, n.fetched_bytes
FROM unnest(
    $1::bigint[], $2::uuid[], $3::text[], $4::float8[], $5::bigint[], $6::float8[], $7::bigint[],
    $8::float8[], $9::float8[], $10::bigint[], $11::bigint[]
) AS n (
    hour_ms, topic_id, client_id, puts, put_bytes, gets, get_bytes, lists, deletes, produced_bytes,
    fetched_bytes
)
LEFT JOIN streamhouse_internal.topics AS t ON t.topic_id = n.topic_id
ORDER BY n.hour_ms, n.topic_id, n.client_id COLLATE "C"
ON CONFLICT (hour, topic_id, client_id) DO UPDATE SET
    topic = CASE WHEN excluded.topic = $12::text THEN u.topic ELSE excluded.topic END,
    puts = u.puts + excluded.puts,
    put_bytes = u.put_bytes + excluded.put_bytes,
    gets = u.gets + excluded.gets,
    get_bytes = u.get_bytes + excluded.get_bytes,
    lists = u.lists + excluded.lists,
    deletes = u.deletes + excluded.deletes,
    produced_bytes = u.produced_bytes + excluded.produced_bytes,
    fetched_bytes = u.fetched_bytes + excluded.fetched_bytes
