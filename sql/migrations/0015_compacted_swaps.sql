-- A swap of compaction says when it was: a round may end in the middle of a log, by an error or
-- with its process, and readers of snapshots have to know of what has gone by then.

-- replace_segments, and if it did: partitions.compacted_at. A call that is repeated moves it to its
-- own time, minutes later at most.
CREATE FUNCTION streamhouse_internal.replace_compacted_segments(
    p_topic_id uuid, p_partition int, p_path text, p_size bigint,
    p_start_offsets bigint[], p_end_offsets bigint[], p_paths text[],
    p_starts bigint[], p_lengths bigint[], p_index_lengths int[],
    p_byte_start bigint, p_byte_length bigint, p_index_length int, p_max_timestamp_ms bigint,
    OUT replaced boolean, OUT released bigint[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    SELECT r.replaced, r.released INTO replaced, released
    FROM streamhouse_internal.replace_segments(
        p_topic_id, p_partition, p_path, p_size, p_start_offsets, p_end_offsets, p_paths,
        p_starts, p_lengths, p_index_lengths, p_byte_start, p_byte_length, p_index_length,
        p_max_timestamp_ms
    ) AS r;
    IF replaced THEN
        UPDATE streamhouse_internal.partitions AS p
        SET compacted_at = clock_timestamp()
        WHERE p.topic_id = p_topic_id AND p.partition = p_partition;
    END IF;
END
$function$;
