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

-- Aborted transactions of a partition were counted in 32 bits, which 2^31 of them use up; from then on none
-- could be aborted, and who reads what is committed stood still. A wider column would be the whole table
-- written anew, while all wait (5 s at a million partitions), and a wider answer a function that older
-- brokers do not find. So aborted_count stops where it is full, and what comes after is counted beside it.
ALTER TABLE streamhouse_internal.partitions ADD COLUMN aborted_beyond bigint NOT NULL DEFAULT 0;

-- Counts of aborted transactions, as functions tell them, as they really are; -1 stays what it is. Whoever
-- calls it for a count that has to fit other answers holds the locks that those were given under.
CREATE FUNCTION streamhouse_internal.find_aborted_counts(
    p_topic_ids uuid[], p_partitions int[], p_counts int[]
) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT w.aborted_count + coalesce(full_count.aborted_beyond, 0)
        FROM unnest(p_topic_ids, p_partitions, p_counts) WITH ORDINALITY
            AS w (topic_id, partition, aborted_count, i)
        LEFT JOIN LATERAL (
            SELECT p.aborted_beyond FROM streamhouse_internal.partitions AS p
            WHERE p.topic_id = w.topic_id AND p.partition = w.partition
                AND w.aborted_count = 2147483647
            OFFSET 0
        ) AS full_count ON true
        ORDER BY w.i
    );
END
$function$;

-- End what a transaction did in its partitions: the marker at the end of each, the aborted range, the
-- last stable offset; for a marker of the next epoch also the producer's state, so that nothing of the
-- old epoch gets behind it (KIP-890). Partitions that are gone are left out. The caller holds the lock
-- of the transactional id.
--
-- Returns where each partition begins and ends after that; the marker is its last record. A count of
-- aborted transactions of 2147483647 is one for find_aborted_counts.
CREATE OR REPLACE FUNCTION streamhouse_internal.write_markers(
    p_producer_id bigint, p_marker_epoch int, p_resets_sequences boolean, p_committed boolean,
    p_marker bytea, p_marker_timestamp_ms bigint,
    OUT topic_ids uuid[], OUT partitions int[], OUT log_start_offsets bigint[],
    OUT high_watermarks bigint[], OUT last_stable_offsets bigint[], OUT aborted_counts int[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    marker_offsets bigint[];
    old_unstable_offsets bigint[];
    first_offsets bigint[];  -- null where the transaction has no record
    unstable_offsets bigint[];  -- null where no other transaction is open
    aborted_beyond int[];  -- 1 where one more is aborted, for which aborted_count has no room
BEGIN
    SELECT  -- the rows are locked as they are reached, in the order of the members: no deadlock
        coalesce(array_agg(m.topic_id ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(m.partition ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(m.first_offset ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(l.log_start_offset ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(l.high_watermark ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(l.aborted_count ORDER BY m.topic_id, m.partition), '{}'),
        coalesce(array_agg(l.first_unstable_offset ORDER BY m.topic_id, m.partition), '{}')
    INTO
        topic_ids, partitions, first_offsets, log_start_offsets, marker_offsets, aborted_counts,
        old_unstable_offsets
    FROM (
        SELECT t.topic_id, t.partition, t.first_offset
        FROM (  -- sorted afterwards, because an index that is in that order would be read as a whole
            SELECT * FROM streamhouse_internal.transaction_partitions AS found
            WHERE found.producer_id = p_producer_id
            OFFSET 0
        ) AS t
        ORDER BY t.topic_id, t.partition
        OFFSET 0
    ) AS m
    CROSS JOIN LATERAL (
        SELECT p.log_start_offset, p.high_watermark, p.aborted_count, p.first_unstable_offset
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = m.topic_id AND p.partition = m.partition
        FOR UPDATE
    ) AS l;
    DELETE FROM streamhouse_internal.transaction_partitions AS t WHERE t.producer_id = p_producer_id;
    IF topic_ids = '{}' THEN
        high_watermarks := '{}';
        last_stable_offsets := '{}';
        RETURN;
    END IF;

    SELECT
        array_agg(w.marker_offset + 1 ORDER BY w.i),
        array_agg(o.unstable_offset ORDER BY w.i),
        array_agg(
            greatest(coalesce(o.unstable_offset, w.marker_offset + 1), w.log_start_offset)
            ORDER BY w.i
        ),
        array_agg(
            w.aborted_count + CASE WHEN a.is_aborted AND NOT a.is_full THEN 1 ELSE 0 END ORDER BY w.i
        ),
        array_agg(CASE WHEN a.is_aborted AND a.is_full THEN 1 ELSE 0 END ORDER BY w.i)
    INTO high_watermarks, unstable_offsets, last_stable_offsets, aborted_counts, aborted_beyond
    FROM unnest(
        topic_ids, partitions, log_start_offsets, marker_offsets, aborted_counts, first_offsets,
        old_unstable_offsets
    ) WITH ORDINALITY AS w (
        topic_id, partition, log_start_offset, marker_offset, aborted_count, first_offset,
        old_unstable_offset, i
    )
    CROSS JOIN LATERAL (
        SELECT
            NOT p_committed AND w.first_offset IS NOT NULL AS is_aborted,
            w.aborted_count = 2147483647 AS is_full
    ) AS a
    LEFT JOIN LATERAL (  -- none begins before the old one: what is there is dead, but still read
        SELECT t.first_offset AS unstable_offset
        FROM streamhouse_internal.transaction_partitions AS t
        WHERE t.topic_id = w.topic_id AND t.partition = w.partition
            AND t.first_offset >= w.old_unstable_offset
        ORDER BY t.first_offset
        LIMIT 1
    ) AS o ON true;

    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset, byte_start, byte_length, max_timestamp_ms,
        inline
    )
    SELECT
        w.topic_id, w.partition, w.marker_offset, w.marker_offset, 0, length(p_marker),
        p_marker_timestamp_ms, p_marker
    FROM unnest(topic_ids, partitions, marker_offsets) AS w (topic_id, partition, marker_offset);
    INSERT INTO streamhouse_internal.aborted_transactions (
        topic_id, partition, last_offset, producer_id, first_offset, last_stable_offset
    )
    SELECT
        w.topic_id, w.partition, w.marker_offset, p_producer_id, w.first_offset, w.last_stable_offset
    FROM unnest(topic_ids, partitions, marker_offsets, first_offsets, last_stable_offsets)
        AS w (topic_id, partition, marker_offset, first_offset, last_stable_offset)
    WHERE NOT p_committed AND w.first_offset IS NOT NULL;
    INSERT INTO streamhouse_internal.partitions AS p (
        topic_id, partition, high_watermark, first_unstable_offset, aborted_count, aborted_beyond
    )
    SELECT
        w.topic_id, w.partition, w.high_watermark, w.unstable_offset, w.aborted_count,
        w.aborted_beyond
    FROM unnest(
        topic_ids, partitions, high_watermarks, unstable_offsets, aborted_counts, aborted_beyond
    ) AS w (
        topic_id, partition, high_watermark, unstable_offset, aborted_count, aborted_beyond
    )
    ON CONFLICT (topic_id, partition) DO UPDATE SET  -- they are locked: it is always an update
        high_watermark = excluded.high_watermark,
        first_unstable_offset = excluded.first_unstable_offset,
        aborted_count = excluded.aborted_count,
        aborted_beyond = p.aborted_beyond + excluded.aborted_beyond;
    IF p_resets_sequences THEN
        INSERT INTO streamhouse_internal.producers (
            topic_id, partition, producer_id, producer_epoch, last_sequence, next_slot,
            first_sequences, last_sequences, base_offsets
        )
        SELECT
            w.topic_id, w.partition, p_producer_id, p_marker_epoch, -1, 1,
            '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}', '{-1,-1,-1,-1,-1}'
        FROM unnest(topic_ids, partitions) AS w (topic_id, partition)
        ON CONFLICT (topic_id, partition, producer_id) DO UPDATE SET
            producer_epoch = excluded.producer_epoch,
            last_sequence = excluded.last_sequence,
            next_slot = excluded.next_slot,
            first_sequences = excluded.first_sequences,
            last_sequences = excluded.last_sequences,
            base_offsets = excluded.base_offsets,
            updated_at = excluded.updated_at;
    END IF;
END
$function$;
