-- Add up the hours that began in [$1, $2) by topic, client or day (UTC); in key order.
-- $1 since bigint, $2 until bigint: ms since 1970; $3 'topic', 'client' or 'day'; $4 limit int: of
-- keys, those with the most requests; the rest together as $5.
WITH keyed AS (
    SELECT
        CASE $3::text
            WHEN 'topic' THEN u.topic
            WHEN 'client' THEN u.client_id
            WHEN 'day' THEN to_char(u.hour AT TIME ZONE 'UTC', 'YYYY-MM-DD')
        END COLLATE "C" AS key,
        min(u.hour) AS first_hour,
        sum(u.puts) AS puts, sum(u.put_bytes) AS put_bytes,
        sum(u.gets) AS gets, sum(u.get_bytes) AS get_bytes,
        sum(u.lists) AS lists, sum(u.deletes) AS deletes,
        sum(u.produced_bytes) AS produced_bytes, sum(u.fetched_bytes) AS fetched_bytes
    FROM streamhouse_internal.usage AS u
    WHERE u.hour >= to_timestamp($1::bigint / 1000.0) AND u.hour < to_timestamp($2::bigint / 1000.0)
    GROUP BY 1
),
ranked AS (
    SELECT k.*, row_number() OVER (ORDER BY k.puts + k.lists + k.gets DESC, k.key) AS rank
    FROM keyed AS k
)
SELECT
    CASE WHEN r.rank <= $4::int THEN r.key ELSE $5::text END COLLATE "C" AS key,
    (extract(epoch FROM min(r.first_hour)) * 1000)::bigint AS first_hour_ms,
    sum(r.puts) AS puts, sum(r.put_bytes)::bigint AS put_bytes,
    sum(r.gets) AS gets, sum(r.get_bytes)::bigint AS get_bytes,
    sum(r.lists) AS lists, sum(r.deletes) AS deletes,
    sum(r.produced_bytes)::bigint AS produced_bytes, sum(r.fetched_bytes)::bigint AS fetched_bytes
FROM ranked AS r
GROUP BY 1
ORDER BY 1
