-- What a partition keeps by size was summed up by a window, which costs five times of what a sum does: a
-- pass over four million rows took ten seconds and more.

-- Move log start offsets past rows that have had their time.
--
--   p_topic_ids, p_partitions   partitions ascending, none twice
--   p_before_ms                 rows whose largest timestamp is less are removed; null: none
--   p_keep_bytes                rows are removed while those behind have as much; null: none
--
-- Returns the new log start of each partition that has moved, to the beginning of a row, or past the
-- last one; never past the last stable offset. Rows are looked at before anything is locked: they are
-- old enough, whatever happens meanwhile.
CREATE OR REPLACE FUNCTION streamhouse_internal.expire_records(
    p_topic_ids uuid[], p_partitions int[], p_before_ms bigint[], p_keep_bytes bigint[]
)
RETURNS TABLE (topic_id uuid, partition int, log_start_offset bigint)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
#variable_conflict use_column
DECLARE
    most_expired_rows CONSTANT int := 10000;  -- of a partition in one call, which is soon over
    kept_rows_at_once CONSTANT int := 1000;
    place record;
    stable bigint;
    expired bigint;  -- where the rows end that have had their time
    kept bigint;
    kept_size bigint;
    page_start bigint;
    page_size bigint;
    new_starts bigint[] := '{}';
BEGIN
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        new_starts[i] := 0;
        SELECT p.log_start_offset, p.high_watermark, p.first_unstable_offset INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i];
        stable := coalesce(place.first_unstable_offset, place.high_watermark);
        CONTINUE WHEN NOT FOUND OR stable <= place.log_start_offset;

        IF p_before_ms[i] IS NOT NULL THEN
            SELECT r.start_offset INTO expired
            FROM (
                SELECT s.* FROM streamhouse_internal.segments AS s
                WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                    AND s.end_offset >= place.log_start_offset
                ORDER BY s.end_offset
                LIMIT most_expired_rows
            ) AS r
            WHERE r.end_offset >= stable OR r.max_timestamp_ms >= p_before_ms[i]
                -- records without a timestamp are as old as their object
                OR r.max_timestamp_ms < 0 AND p_before_ms[i] <= (
                    SELECT floor(extract(epoch FROM coalesce(o.state_at, o.created_at)) * 1000)
                    FROM streamhouse_internal.objects AS o
                    WHERE o.object_id = r.object_id
                )
            ORDER BY r.end_offset
            LIMIT 1;
            IF NOT FOUND THEN  -- all of them have had their time; what follows is for the next call
                SELECT coalesce(max(r.end_offset) + 1, 0) INTO expired
                FROM (
                    SELECT s.end_offset FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= place.log_start_offset
                    ORDER BY s.end_offset
                    LIMIT most_expired_rows
                ) AS r;
            END IF;
            new_starts[i] := expired;
        END IF;
        CONTINUE WHEN p_keep_bytes[i] IS NULL;
        kept := stable;
        IF p_keep_bytes[i] > 0 THEN
            kept := place.high_watermark;
            kept_size := 0;
            LOOP  -- from the newest one on, so what is kept is looked at, and no more
                SELECT min(r.start_offset), kept_size + sum(r.byte_length) INTO page_start, page_size
                FROM (
                    SELECT s.start_offset, s.byte_length
                    FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= place.log_start_offset AND s.end_offset < kept
                    ORDER BY s.end_offset DESC
                    LIMIT kept_rows_at_once
                ) AS r;
                EXIT WHEN page_start IS NULL OR page_size >= p_keep_bytes[i];
                kept := page_start;
                kept_size := page_size;
            END LOOP;
            SELECT r.start_offset INTO kept  -- null: all is kept
            FROM (
                SELECT
                    s.start_offset,
                    kept_size + sum(s.byte_length) OVER (ORDER BY s.end_offset DESC) AS size
                FROM streamhouse_internal.segments AS s
                WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                    AND s.end_offset >= place.log_start_offset AND s.end_offset < kept
                ORDER BY s.end_offset DESC
                LIMIT kept_rows_at_once
            ) AS r
            WHERE r.size >= p_keep_bytes[i]
            LIMIT 1;
        END IF;
        IF kept >= stable THEN
            kept := coalesce(
                (
                    SELECT s.start_offset FROM streamhouse_internal.segments AS s
                    WHERE s.topic_id = p_topic_ids[i] AND s.partition = p_partitions[i]
                        AND s.end_offset >= stable
                    ORDER BY s.end_offset
                    LIMIT 1
                ),
                stable
            );
        END IF;
        new_starts[i] := greatest(new_starts[i], kept);
    END LOOP;

    FOR i IN 1 .. cardinality(p_partitions) LOOP
        CONTINUE WHEN new_starts[i] = 0;
        SELECT p.log_start_offset INTO place
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i];
        CONTINUE WHEN NOT FOUND OR place.log_start_offset >= new_starts[i];
        RETURN QUERY  -- locked one after the other: no deadlock
        UPDATE streamhouse_internal.partitions AS p SET log_start_offset = new_starts[i]
        WHERE p.topic_id = p_topic_ids[i] AND p.partition = p_partitions[i]
            AND p.log_start_offset < new_starts[i]
        RETURNING p.topic_id, p.partition, p.log_start_offset;
    END LOOP;
END
$function$;

-- Groups were removed one by one, each with a call, a transaction and a write to the disk of its own: who
-- deleted 15,000 of them waited for more than half a minute.

-- Remove groups and their offsets, those that wait for a transaction, too. A row for each group that was
-- dealt with; deleted is false if somebody else owns it, or it is gone.
--
--   p_group_ids, p_owner_epochs   same length, no group twice
--   p_max_offsets                 when so many offsets are gone, the groups that follow are left
--
-- Only the first group is waited for, when nothing is locked yet: no deadlock, in whatever order they are.
-- Others that somebody holds are left, so what is not told of is to be asked for again.
CREATE FUNCTION streamhouse_internal.delete_groups(
    p_group_ids text[], p_owner_epochs bigint[], p_max_offsets int
)
RETURNS TABLE (group_id text, deleted boolean)
LANGUAGE plpgsql VOLATILE
AS $function$
#variable_conflict use_column
DECLARE
    offset_count int := 0;
    row_count int;
BEGIN
    FOR i IN 1 .. cardinality(p_group_ids) LOOP
        EXIT WHEN offset_count >= p_max_offsets;
        IF i = 1 THEN
            PERFORM FROM streamhouse_internal.groups AS g
            WHERE g.group_id = p_group_ids[i] AND g.owner_epoch = p_owner_epochs[i]
            FOR UPDATE;
        ELSE
            PERFORM FROM streamhouse_internal.groups AS g
            WHERE g.group_id = p_group_ids[i] AND g.owner_epoch = p_owner_epochs[i]
            FOR UPDATE SKIP LOCKED;
        END IF;
        deleted := FOUND;
        IF deleted THEN
            DELETE FROM streamhouse_internal.group_offsets AS o WHERE o.group_id = p_group_ids[i];
            GET DIAGNOSTICS row_count = ROW_COUNT;
            offset_count := offset_count + row_count;
            DELETE FROM streamhouse_internal.transaction_offsets AS o
            WHERE o.group_id = p_group_ids[i];
            GET DIAGNOSTICS row_count = ROW_COUNT;
            offset_count := offset_count + row_count;
            DELETE FROM streamhouse_internal.groups AS g WHERE g.group_id = p_group_ids[i];
        ELSIF EXISTS (
            SELECT FROM streamhouse_internal.groups AS g
            WHERE g.group_id = p_group_ids[i] AND g.owner_epoch = p_owner_epochs[i]
        ) THEN
            CONTINUE;  -- somebody holds it
        END IF;
        group_id := p_group_ids[i];
        RETURN NEXT;
    END LOOP;
END
$function$;
