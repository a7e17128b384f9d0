-- Brokers that see that this database was set back mark it and end (broker/set_back.py); jobs that need no
-- broker gave the offsets of acknowledged records away in it all the same, and counted what they wrote as
-- done.
-- And where many sinks are remembered, a call looked at all of them for those that can be forgotten, for
-- clock_timestamp() is volatile, hence not where an index ends; and brokers waited for partitions meanwhile.

-- Make the objects of a batch part of the log, all or none of them.
--
--   p_sink_id, p_batch_id                         whose batch it is; ids of a sink ascend, with gaps
--   p_forget_after                                how long to remember it; null: for ever
--   p_paths, p_sizes, p_run_counts                per object, in the order they shall have in the log:
--                                                 how many runs are its; none twice, reserved before
--   p_topic_ids, p_partitions, p_batch_counts     per run, object after object: a partition and how
--                                                 many record batches it gets; ascending in an object
--   p_starts, p_lengths, p_record_counts,         per record batch, run after run, as they lie in
--   p_max_timestamps_ms                           their object
--
-- verdict: 0 in the log since this call, 1 it was before (whatever objects it had then), 2 a later batch
--   is in the log, 3 objects are not pending (any more), 4 partitions do not exist, 5 the database
--   is marked as one that was set back; what is named says which those are, or how that was seen. Nothing
--   of the log has changed unless it is 0; sinks whose time is over may be forgotten at 4, too.
--
-- Locks: the sink's row, that of each object, and those of the partitions, ascending, as commit_object
-- takes them (of transactional ids there are none). So this fits into the order of 0007 and 0009, behind
-- a row that nobody waits for who holds another. With the locks it is certain that no batch will be
-- refused: a job is no leader, displaces none, and has no producer that repeats anything.
-- Brokers wait for the partitions meanwhile. So all objects go in at once, and not by commit_object one
-- after the other, which visits each partition's row once for each of them, with all that it was before.
-- What that writes down with an object for whoever repeats its commit, nobody asks for here.
-- The row of the sink is written to at each call, as the objects' are locked, for the reason given at
-- commit_object: an answer is as durable as what it is about.
CREATE OR REPLACE FUNCTION streamhouse_internal.commit_sink_batch(
    p_sink_id text, p_batch_id bigint, p_forget_after interval,
    p_paths text[], p_sizes bigint[], p_run_counts int[],
    p_topic_ids uuid[], p_partitions int[], p_batch_counts int[],
    p_starts bigint[], p_lengths bigint[], p_record_counts int[], p_max_timestamps_ms bigint[],
    OUT verdict smallint, OUT named text[]
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    committed CONSTANT smallint := 0;
    repeated CONSTANT smallint := 1;
    overtaken CONSTANT smallint := 2;
    not_pending CONSTANT smallint := 3;
    unknown_partitions CONSTANT smallint := 4;
    went_back CONSTANT smallint := 5;
    forgotten_at_once CONSTANT int := 10;
    right_now CONSTANT timestamptz := clock_timestamp();
    last_batch bigint;
    object_ids bigint[];
    object_of_run int[];  -- index
    high_watermarks bigint[];  -- per run: before any of them
    run_of_batch int[];  -- index
BEGIN
    -- first of all: what this database remembers of the sink is not asked, either
    named := ARRAY(
        SELECT e.configs ->> 'went.back' FROM streamhouse_internal.entity_configs AS e
        WHERE e.kind = 'database' AND e.name = '' AND e.configs ? 'went.back'
    );
    IF cardinality(named) > 0 THEN
        verdict := went_back;
        RETURN;
    END IF;

    INSERT INTO streamhouse_internal.sink_batches AS s (sink_id, forget_at)
    VALUES (p_sink_id, clock_timestamp() + p_forget_after)
    ON CONFLICT (sink_id) DO UPDATE SET forget_at = excluded.forget_at
    RETURNING s.last_batch_id INTO last_batch;
    IF p_batch_id <= last_batch THEN
        verdict := CASE WHEN p_batch_id = last_batch THEN repeated ELSE overtaken END;
        named := ARRAY[last_batch::text];
        RETURN;
    END IF;

    named := ARRAY(
        SELECT w.path
        FROM (
            SELECT o.object_id, o.path
            FROM unnest(p_paths) AS g (path)
            CROSS JOIN LATERAL (
                SELECT found.object_id, found.path FROM streamhouse_internal.objects AS found
                WHERE found.path = g.path
                OFFSET 0
            ) AS o
            ORDER BY o.object_id  -- locked as they are reached, in this order: no deadlock
            OFFSET 0
        ) AS w
        CROSS JOIN LATERAL (
            SELECT FROM streamhouse_internal.objects AS o
            WHERE o.object_id = w.object_id AND o.state = 'pending'
            FOR UPDATE
        ) AS locked
    );
    named := ARRAY(SELECT unnest(p_paths) EXCEPT SELECT unnest(named));
    IF cardinality(named) > 0 THEN
        verdict := not_pending;
        RETURN;
    END IF;

    -- Not this sink's: its row has been given its time anew. Nobody waits for partitions meanwhile.
    DELETE FROM streamhouse_internal.sink_batches AS s
    WHERE s.sink_id = ANY (ARRAY(
        SELECT old.sink_id FROM streamhouse_internal.sink_batches AS old
        WHERE old.forget_at <= right_now
        ORDER BY old.forget_at
        LIMIT forgotten_at_once
        FOR UPDATE SKIP LOCKED
    ));

    PERFORM
    FROM (
        SELECT DISTINCT r.topic_id, r.partition
        FROM unnest(p_topic_ids, p_partitions) AS r (topic_id, partition)
        ORDER BY r.topic_id, r.partition
        OFFSET 0
    ) AS w
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = w.topic_id AND p.partition = w.partition
        FOR UPDATE
    ) AS locked;
    SELECT
        array_agg(l.high_watermark ORDER BY r.i),
        array_agg(DISTINCT r.topic_id || '-' || r.partition) FILTER (WHERE l.high_watermark IS NULL)
    INTO high_watermarks, named
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS r (topic_id, partition, i)
    LEFT JOIN LATERAL (
        SELECT p.high_watermark FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = r.topic_id AND p.partition = r.partition
        OFFSET 0
    ) AS l ON true;
    IF named IS NOT NULL THEN
        verdict := unknown_partitions;
        RETURN;
    END IF;

    object_ids := ARRAY(
        SELECT o.object_id
        FROM unnest(p_paths) WITH ORDINALITY AS g (path, i)
        CROSS JOIN LATERAL (
            SELECT found.object_id FROM streamhouse_internal.objects AS found
            WHERE found.path = g.path
            OFFSET 0
        ) AS o
        ORDER BY g.i
    );
    object_of_run := ARRAY(
        SELECT o.i FROM unnest(p_run_counts) WITH ORDINALITY AS o (runs, i)
        CROSS JOIN generate_series(1, o.runs)
        ORDER BY o.i
    );
    run_of_batch := ARRAY(
        SELECT r.i FROM unnest(p_batch_counts) WITH ORDINALITY AS r (batches, i)
        CROSS JOIN generate_series(1, r.batches)
        ORDER BY r.i
    );
    WITH batches AS (
        SELECT
            b.*, p_topic_ids[b.run] AS topic_id, p_partitions[b.run] AS partition,
            b.byte_start IS DISTINCT FROM lag(b.byte_start + b.byte_length) OVER (
                PARTITION BY b.run ORDER BY b.i
            ) AS begins  -- else it is adjacent to the one before, and part of its row
        FROM unnest(run_of_batch, p_starts, p_lengths, p_record_counts, p_max_timestamps_ms)
            WITH ORDINALITY AS b (run, byte_start, byte_length, record_count, max_timestamp_ms, i)
    ),
    placed AS (
        SELECT
            b.*, count(*) FILTER (WHERE b.begins) OVER (ORDER BY b.i) AS entry,
            high_watermarks[b.run] + sum(b.record_count) OVER (
                PARTITION BY b.topic_id, b.partition ORDER BY b.i
            ) AS next_offset
        FROM batches AS b
    ),
    added AS (
        INSERT INTO streamhouse_internal.segments (
            topic_id, partition, start_offset, end_offset,
            object_id, byte_start, byte_length, max_timestamp_ms
        )
        SELECT
            e.topic_id, e.partition, min(e.next_offset - e.record_count), max(e.next_offset) - 1,
            object_ids[object_of_run[e.run]], min(e.byte_start), sum(e.byte_length),
            max(e.max_timestamp_ms)
        FROM placed AS e
        GROUP BY e.entry, e.run, e.topic_id, e.partition
        RETURNING topic_id, partition, end_offset
    )
    INSERT INTO streamhouse_internal.partitions (topic_id, partition, high_watermark)
    SELECT a.topic_id, a.partition, max(a.end_offset) + 1
    FROM added AS a
    GROUP BY a.topic_id, a.partition
    -- these exist, and are locked: the insert is always an update
    ON CONFLICT (topic_id, partition) DO UPDATE SET high_watermark = excluded.high_watermark;
    FOR i IN 1 .. cardinality(object_ids) LOOP
        UPDATE streamhouse_internal.objects AS o SET state = 'live', size = p_sizes[i]
        WHERE o.object_id = object_ids[i];
    END LOOP;

    UPDATE streamhouse_internal.sink_batches AS s
    SET last_batch_id = p_batch_id, committed_at = clock_timestamp()
    WHERE s.sink_id = p_sink_id;
    verdict := committed;
    named := '{}';
END
$function$;
