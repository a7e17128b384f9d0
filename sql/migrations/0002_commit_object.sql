-- Make an uploaded object's batches part of the log: one call, one transaction, one answer per batch.
--
--   p_path, p_size                                 the object; reserved before
--   p_topic_ids, p_partitions, p_batch_counts      per partition: ascending, none twice
--   p_starts, p_lengths, p_record_counts,          per batch: partition after partition, in log order
--   p_max_timestamps_ms
--   p_producers, p_epochs, p_base_sequences        per batch: index (from 1) into the next two arrays,
--                                                  0 if not idempotent; all empty if no batch is
--   p_producer_partitions, p_producer_ids          per producer and partition: index of the partition
--
-- state: null (never reserved) and 'doomed' have no arrays: the batches are not in the log. 'live' has,
--   per batch, its outcome (0 appended, 1 duplicate, 2 unknown partition, 3 out of order sequence,
--   4 invalid producer epoch), base offset and log start offset (-1 where refused).
--
-- The object's row is locked before it is looked at, even if the answer is there already: a lock is
-- written to the WAL, so this transaction's commit waits for everything before it to be as durable as
-- the server is told to make it. A repeated call therefore never reports a first commit that a
-- synchronous standby does not have yet.
--
-- Each statement below has a snapshot of its own (read committed), so what is read under the
-- partitions' locks is what the last commit to them left. A session keeps its plans, and must not keep
-- those that are best while a table is empty: so rows are reached from the arrays, by key, one after
-- the other (LATERAL, ON CONFLICT), which leaves the planner no choice.
CREATE FUNCTION streamhouse_internal.commit_object(
    p_path text, p_size bigint,
    p_topic_ids uuid[], p_partitions int[], p_batch_counts int[],
    p_starts bigint[], p_lengths bigint[], p_record_counts int[], p_max_timestamps_ms bigint[],
    p_producers int[], p_epochs int[], p_base_sequences int[],
    p_producer_partitions int[], p_producer_ids bigint[],
    OUT state text, OUT outcomes smallint[], OUT base_offsets bigint[], OUT log_start_offsets bigint[]
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    appended CONSTANT smallint := 0;
    duplicate CONSTANT smallint := 1;
    unknown_partition CONSTANT smallint := 2;
    out_of_order_sequence CONSTANT smallint := 3;
    invalid_producer_epoch CONSTANT smallint := 4;
    retained_batches CONSTANT int := 5;
    sequences CONSTANT bigint := 2147483648;  -- after 2^31 - 1 comes 0
    batch_total CONSTANT int := cardinality(p_starts);
    idempotent CONSTANT boolean := cardinality(p_producer_ids) > 0;
    committed_object bigint;
    -- per partition; -1 where it does not exist
    old_highs bigint[]; new_highs bigint[]; log_starts bigint[];
    -- per producer and partition; epoch -1 where there is no state
    epochs int[]; sequence_ends int[]; slots int[];
    firsts int[]; lasts int[]; bases bigint[];  -- [producer][slot]
    touched boolean[];
    -- per run of batches that are adjacent in bytes and offsets: one row of segments
    run int := 0;
    run_partitions int[] := '{}'; run_start_offsets bigint[] := '{}'; run_end_offsets bigint[] := '{}';
    run_starts bigint[] := '{}'; run_lengths bigint[] := '{}'; run_timestamps bigint[] := '{}';
    run_next_byte bigint;
    batch int := 0;
    next_offset bigint; producer int; slot int; first_sequence int; last_sequence bigint;
    verdict smallint;
BEGIN
    SELECT o.object_id, o.state, o.outcomes, o.base_offsets, o.log_start_offsets
    INTO committed_object, state, outcomes, base_offsets, log_start_offsets
    FROM streamhouse_internal.objects AS o WHERE o.path = p_path
    FOR UPDATE;
    IF state IS DISTINCT FROM 'pending' THEN
        RETURN;
    END IF;

    SELECT  -- the rows are locked as they are reached, in the order of the arrays: no deadlock
        array_agg(coalesce(l.high_watermark, -1) ORDER BY w.i),
        array_agg(coalesce(l.log_start_offset, -1) ORDER BY w.i)
    INTO old_highs, log_starts
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS w (topic_id, partition, i)
    LEFT JOIN LATERAL (
        SELECT p.high_watermark, p.log_start_offset
        FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = w.topic_id AND p.partition = w.partition
        FOR UPDATE
    ) AS l ON true;
    new_highs := old_highs;

    IF idempotent THEN
        SELECT
            array_agg(coalesce(s.producer_epoch, -1) ORDER BY w.i),
            array_agg(coalesce(s.last_sequence, -1) ORDER BY w.i),
            array_agg(coalesce(s.next_slot, 1) ORDER BY w.i),
            array_agg(coalesce(s.first_sequences, '{-1,-1,-1,-1,-1}') ORDER BY w.i),
            array_agg(coalesce(s.last_sequences, '{-1,-1,-1,-1,-1}') ORDER BY w.i),
            array_agg(coalesce(s.base_offsets, '{-1,-1,-1,-1,-1}') ORDER BY w.i),
            array_agg(false)
        INTO epochs, sequence_ends, slots, firsts, lasts, bases, touched
        FROM unnest(p_producer_partitions, p_producer_ids)
            WITH ORDINALITY AS w (partition_index, producer_id, i)
        LEFT JOIN LATERAL (
            SELECT p.*
            FROM streamhouse_internal.producers AS p
            WHERE p.topic_id = p_topic_ids[w.partition_index]
                AND p.partition = p_partitions[w.partition_index]
                AND p.producer_id = w.producer_id
            OFFSET 0
        ) AS s ON true;
    END IF;

    outcomes := array_fill(appended, ARRAY[batch_total]);
    base_offsets := array_fill(-1::bigint, ARRAY[batch_total]);
    log_start_offsets := base_offsets;
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        next_offset := new_highs[i];
        run_next_byte := -1;
        FOR batch_of_partition IN 1 .. p_batch_counts[i] LOOP
            batch := batch + 1;
            IF next_offset < 0 THEN
                outcomes[batch] := unknown_partition;
                CONTINUE;
            END IF;

            IF idempotent AND p_producers[batch] > 0 THEN
                producer := p_producers[batch];
                first_sequence := p_base_sequences[batch];
                last_sequence := (first_sequence::bigint + p_record_counts[batch] - 1) % sequences;
                verdict := appended;
                IF epochs[producer] = p_epochs[batch] THEN
                    IF first_sequence <> (sequence_ends[producer]::bigint + 1) % sequences THEN
                        verdict := out_of_order_sequence;
                        FOR retained IN 1 .. retained_batches LOOP
                            IF firsts[producer][retained] = first_sequence
                                AND lasts[producer][retained] = last_sequence THEN
                                verdict := duplicate;
                                base_offsets[batch] := bases[producer][retained];
                                log_start_offsets[batch] := log_starts[i];
                            END IF;
                        END LOOP;
                    END IF;
                ELSIF epochs[producer] > p_epochs[batch] THEN
                    verdict := invalid_producer_epoch;
                ELSIF epochs[producer] >= 0 AND first_sequence <> 0 THEN
                    verdict := out_of_order_sequence;
                ELSE  -- a first batch, or the first of a new epoch: nothing older can be repeated
                    epochs[producer] := p_epochs[batch];
                    slots[producer] := 1;
                    FOR retained IN 1 .. retained_batches LOOP
                        firsts[producer][retained] := -1;
                    END LOOP;
                END IF;
                IF verdict <> appended THEN
                    outcomes[batch] := verdict;
                    CONTINUE;
                END IF;
                slot := slots[producer];
                firsts[producer][slot] := first_sequence;
                lasts[producer][slot] := last_sequence;
                bases[producer][slot] := next_offset;
                slots[producer] := slot % retained_batches + 1;
                sequence_ends[producer] := last_sequence;
                touched[producer] := true;
            END IF;

            base_offsets[batch] := next_offset;
            log_start_offsets[batch] := log_starts[i];
            IF p_starts[batch] = run_next_byte THEN
                run_lengths[run] := run_lengths[run] + p_lengths[batch];
                run_timestamps[run] := greatest(run_timestamps[run], p_max_timestamps_ms[batch]);
            ELSE
                run := run + 1;
                run_partitions[run] := i;
                run_start_offsets[run] := next_offset;
                run_starts[run] := p_starts[batch];
                run_lengths[run] := p_lengths[batch];
                run_timestamps[run] := p_max_timestamps_ms[batch];
            END IF;
            next_offset := next_offset + p_record_counts[batch];
            run_end_offsets[run] := next_offset - 1;
            run_next_byte := p_starts[batch] + p_lengths[batch];
        END LOOP;
        new_highs[i] := next_offset;
    END LOOP;

    INSERT INTO streamhouse_internal.segments (
        topic_id, partition, start_offset, end_offset,
        object_id, byte_start, byte_length, max_timestamp_ms
    )
    SELECT
        p_topic_ids[r.i], p_partitions[r.i], r.start_offset, r.end_offset,
        committed_object, r.byte_start, r.byte_length, r.max_timestamp_ms
    FROM unnest(
        run_partitions, run_start_offsets, run_end_offsets, run_starts, run_lengths, run_timestamps
    ) AS r (i, start_offset, end_offset, byte_start, byte_length, max_timestamp_ms);

    INSERT INTO streamhouse_internal.partitions (topic_id, partition, high_watermark)
    SELECT n.topic_id, n.partition, n.new_high
    FROM unnest(p_topic_ids, p_partitions, old_highs, new_highs)
        AS n (topic_id, partition, old_high, new_high)
    WHERE n.new_high > n.old_high  -- these exist, and are locked: the insert is always an update
    ON CONFLICT (topic_id, partition) DO UPDATE SET high_watermark = excluded.high_watermark;

    IF idempotent THEN
        INSERT INTO streamhouse_internal.producers AS s (
            topic_id, partition, producer_id, producer_epoch, last_sequence, next_slot,
            first_sequences, last_sequences, base_offsets
        )
        SELECT
            p_topic_ids[w.partition_index], p_partitions[w.partition_index], w.producer_id,
            epochs[w.i], sequence_ends[w.i], slots[w.i],
            ARRAY[firsts[w.i][1], firsts[w.i][2], firsts[w.i][3], firsts[w.i][4], firsts[w.i][5]],
            ARRAY[lasts[w.i][1], lasts[w.i][2], lasts[w.i][3], lasts[w.i][4], lasts[w.i][5]],
            ARRAY[bases[w.i][1], bases[w.i][2], bases[w.i][3], bases[w.i][4], bases[w.i][5]]
        FROM unnest(p_producer_partitions, p_producer_ids, touched)
            WITH ORDINALITY AS w (partition_index, producer_id, touched, i)
        WHERE w.touched
        ON CONFLICT (topic_id, partition, producer_id) DO UPDATE SET
            producer_epoch = excluded.producer_epoch,
            last_sequence = excluded.last_sequence,
            next_slot = excluded.next_slot,
            first_sequences = excluded.first_sequences,
            last_sequences = excluded.last_sequences,
            base_offsets = excluded.base_offsets,
            updated_at = excluded.updated_at;
    END IF;

    state := 'live';
    UPDATE streamhouse_internal.objects AS o
    SET state = 'live', size = p_size, outcomes = commit_object.outcomes,
        base_offsets = commit_object.base_offsets,
        log_start_offsets = commit_object.log_start_offsets
    WHERE o.object_id = committed_object;
END
$function$;
