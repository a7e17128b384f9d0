-- What log compaction finds in the built segments of partitions; those that do not exist are left out.
-- end_offset: built, and before the last stable offset; sizes are of all that is built. dirty_since_ms:
-- nothing that is dirty was written before, as far as is known: what the last round of compaction was
-- given is clean, and of a segment only the newest record tells its age (if it has a timestamp).
-- $1 topic_id uuid[], $2 partition int[]: same length.
SELECT
    w.topic_id, w.partition, p.log_start_offset, p.compacted_offset, p.end_offset,
    r.clean_size, r.dirty_size, r.dirty_since_ms
FROM unnest($1::uuid[], $2::int[]) WITH ORDINALITY AS w (topic_id, partition, i)
CROSS JOIN LATERAL (
    SELECT
        found.log_start_offset, found.compacted_offset, found.cleaned_at, found.built_offset,
        least(
            found.built_offset,
            greatest(
                coalesce(found.first_unstable_offset, found.high_watermark), found.log_start_offset
            )
        ) AS end_offset
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = w.topic_id AND found.partition = w.partition
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS p
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(s.byte_length) FILTER (WHERE s.end_offset < p.compacted_offset), 0)::bigint
            AS clean_size,
        coalesce(sum(s.byte_length) FILTER (WHERE s.end_offset >= p.compacted_offset), 0)::bigint
            AS dirty_size,
        least(
            coalesce(floor(extract(epoch FROM p.cleaned_at) * 1000)::bigint, 0),
            min(s.max_timestamp_ms) FILTER (
                WHERE s.end_offset >= p.compacted_offset AND s.max_timestamp_ms > 0
            )
        ) AS dirty_since_ms
    FROM (
        SELECT found.end_offset, found.byte_length, found.max_timestamp_ms
        FROM streamhouse_internal.segments AS found
        WHERE found.topic_id = w.topic_id AND found.partition = w.partition
            AND found.end_offset >= p.log_start_offset AND found.end_offset < p.built_offset
        OFFSET 0
    ) AS s
) AS r
ORDER BY w.i
