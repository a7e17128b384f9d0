-- Move the first offset that can be read: what is before it is gone for readers at once; its rows of
-- the index and its bytes go later.
--
--   p_topic_ids, p_partitions, p_offsets   same length, partitions ascending, none twice; offset -1
--                                          stands for the high watermark
--
-- Returns where each partition begins and ends from now on; unknown ones are left out. Nothing changes
-- where the offset is past the high watermark: the caller sees that, as it never moves back.
-- A transaction may be open that has begun before the new start. It keeps its place in the order of
-- transactions, but the last stable offset that is returned does not lie before the log's start.
CREATE FUNCTION streamhouse_internal.delete_records(
    p_topic_ids uuid[], p_partitions int[], p_offsets bigint[]
)
RETURNS TABLE (
    topic_id uuid, partition int, log_start_offset bigint, high_watermark bigint,
    last_stable_offset bigint, aborted_count int
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_column
DECLARE
    wanted bigint;
    new_start bigint;
    place record;
BEGIN
    FOR i IN 1 .. cardinality(p_partitions) LOOP  -- locked one after the other: no deadlock
        SELECT p.* INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i]
        FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        wanted := CASE WHEN p_offsets[i] = -1 THEN place.high_watermark ELSE p_offsets[i] END;
        new_start := place.log_start_offset;
        IF wanted BETWEEN new_start + 1 AND place.high_watermark THEN
            new_start := wanted;
            UPDATE streamhouse_internal.partitions AS p
            SET log_start_offset = new_start
            WHERE p.topic_id = place.topic_id AND p.partition = place.partition;
        END IF;
        RETURN QUERY SELECT
            place.topic_id, place.partition, new_start, place.high_watermark,
            greatest(coalesce(place.first_unstable_offset, place.high_watermark), new_start),
            place.aborted_count;
    END LOOP;
END
$function$;
