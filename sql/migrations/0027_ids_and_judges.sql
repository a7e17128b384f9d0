-- ids_from_server: when the server was started that gave out the last ids of producers. A standby that
-- takes over is another one: it may not have heard of the last ids that were given out.
ALTER TABLE streamhouse_internal.cluster
    ADD COLUMN ids_from_server timestamptz NOT NULL DEFAULT pg_postmaster_start_time();

-- Ids of producers that are another cluster's, or made up, say nothing of what a partition has forgotten
-- of this cluster's: one such id, higher than all that will ever be given out, and any producer could go
-- on in that partition for ever, with a batch before it lost (0017).
UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = c.next_producer_id - 1
FROM streamhouse_internal.cluster AS c
WHERE p.forgotten_producer_id >= c.next_producer_id;

-- Look at p_visited producers' states behind a key; remove at most p_limit that nobody wrote with for so
-- long, unless a transaction of the producer is open there. next_*: the key to go on behind; null at the
-- end.
CREATE OR REPLACE FUNCTION streamhouse_internal.expire_producers(
    p_unused interval, p_topic_id uuid, p_partition int, p_producer_id bigint, p_visited int,
    p_limit int,
    OUT next_topic_id uuid, OUT next_partition int, OUT next_producer_id bigint, OUT removed int
)
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_unused;
    topic_ids uuid[]; partitions int[]; producer_ids bigint[];  -- that are old enough
    visited bigint;
    doomed tid[];
    forgotten record;
BEGIN
    SELECT
        count(*), (array_agg(s.topic_id))[p_visited], (array_agg(s.partition))[p_visited],
        (array_agg(s.producer_id))[p_visited],
        (array_agg(s.topic_id) FILTER (WHERE s.updated_at <= oldest))[:p_limit],
        (array_agg(s.partition) FILTER (WHERE s.updated_at <= oldest))[:p_limit],
        (array_agg(s.producer_id) FILTER (WHERE s.updated_at <= oldest))[:p_limit]
    INTO
        visited, next_topic_id, next_partition, next_producer_id, topic_ids, partitions, producer_ids
    FROM (
        SELECT f.topic_id, f.partition, f.producer_id, f.updated_at
        FROM streamhouse_internal.producers AS f
        WHERE (f.topic_id, f.partition, f.producer_id) > (p_topic_id, p_partition, p_producer_id)
        ORDER BY f.topic_id, f.partition, f.producer_id
        LIMIT p_visited
    ) AS s;
    removed := 0;
    IF producer_ids IS NULL THEN
        RETURN;
    END IF;
    IF cardinality(producer_ids) = p_limit THEN  -- there may be more of them
        next_topic_id := topic_ids[p_limit];
        next_partition := partitions[p_limit];
        next_producer_id := producer_ids[p_limit];
    END IF;
    PERFORM  -- the rows are locked as they are reached, in the order of the array: no deadlock
    FROM (
        SELECT DISTINCT d.topic_id, d.partition
        FROM unnest(topic_ids, partitions) AS d (topic_id, partition)
        ORDER BY d.topic_id, d.partition
        OFFSET 0
    ) AS w
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = w.topic_id AND p.partition = w.partition
        FOR UPDATE
    ) AS locked;
    doomed := ARRAY(
        SELECT s.place
        FROM unnest(topic_ids, partitions, producer_ids) AS w (topic_id, partition, producer_id)
        CROSS JOIN LATERAL (  -- where it is gone, purge_topic has the states
            SELECT FROM streamhouse_internal.partitions AS f
            WHERE f.topic_id = w.topic_id AND f.partition = w.partition
            OFFSET 0
        ) AS known
        CROSS JOIN LATERAL (
            SELECT f.ctid AS place
            FROM streamhouse_internal.producers AS f
            WHERE f.topic_id = w.topic_id AND f.partition = w.partition
                AND f.producer_id = w.producer_id AND f.updated_at <= oldest
            OFFSET 0
        ) AS s
        WHERE NOT EXISTS (
            SELECT FROM streamhouse_internal.transaction_partitions AS t
            WHERE t.producer_id = w.producer_id AND t.topic_id = w.topic_id
                AND t.partition = w.partition
            OFFSET 0
        )
    );
    FOR forgotten IN
        WITH deleted AS (
            DELETE FROM streamhouse_internal.producers AS s WHERE s.ctid = ANY (doomed)
            RETURNING s.topic_id, s.partition, s.producer_id
        )
        SELECT d.topic_id, d.partition, max(d.producer_id) AS producer_id
        FROM deleted AS d
        CROSS JOIN streamhouse_internal.cluster AS c
        WHERE d.producer_id < c.next_producer_id  -- others go on wherever they like, anyway
        GROUP BY d.topic_id, d.partition
    LOOP
        UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = forgotten.producer_id
        WHERE p.topic_id = forgotten.topic_id AND p.partition = forgotten.partition
            AND p.forgotten_producer_id < forgotten.producer_id;
    END LOOP;
    removed := cardinality(doomed);
END
$function$;

-- Whether a broker has been silent for the time to live, and for half of it while its judge was heard
-- of. A judge that was silent himself for almost as long, because this database was away, would call
-- dead whoever is not back before him.
CREATE FUNCTION streamhouse_internal.is_silent(
    p_heartbeat_at timestamptz, p_judge_at timestamptz, p_now timestamptz, p_time_to_live interval
) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $function$
    SELECT NOT streamhouse_internal.is_recent(p_heartbeat_at, p_now, p_time_to_live)
        AND NOT streamhouse_internal.is_recent(p_heartbeat_at, p_judge_at, p_time_to_live / 2);
$function$;

-- Lock the cluster's row; false if that takes long. Many who hold it for a moment each are outlived.
CREATE FUNCTION streamhouse_internal.lock_cluster_soon() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET lock_timeout = '100ms'
AS $function$
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$function$;

-- Say that a broker is alive, call dead who is not, and see who is. No row: another process has
-- registered with that identity since. Whatever changes the set of live brokers, this one's return
-- included, is decided and done under the cluster's lock. All else takes only this broker's row and
-- waits for no disk: nothing is lost if a heartbeat is. Nor does a burial wait long for that lock, which
-- may be held for long, by who deletes a big topic: all judges would be silent together then. One of the
-- next heartbeats buries.
CREATE OR REPLACE FUNCTION streamhouse_internal.broker_heartbeat(
    p_node_id int, p_incarnation uuid, p_known_generation bigint, p_time_to_live interval
)
RETURNS TABLE (this_node_id int, generation bigint, node_id int, addresses text[], rack text)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    right_now timestamptz := clock_timestamp();
    mine streamhouse_internal.brokers;
    judges boolean;  -- has itself been heard of for long enough to call others dead
    buries boolean;
    knows_too_much boolean;  -- of what this database has lost
    buried boolean := false;
BEGIN
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    judges := streamhouse_internal.is_recent(mine.heartbeat_at, right_now, p_time_to_live)
        AND mine.returned_at < right_now - p_time_to_live;
    buries := judges AND EXISTS (
        SELECT FROM streamhouse_internal.brokers AS b
        WHERE b.live AND streamhouse_internal.is_silent(
            b.heartbeat_at, mine.heartbeat_at, right_now, p_time_to_live
        )
    );
    knows_too_much := p_known_generation > (
        SELECT c.broker_generation FROM streamhouse_internal.cluster AS c
    );
    IF buries AND mine.live AND NOT knows_too_much THEN
        buries := streamhouse_internal.lock_cluster_soon();
    END IF;
    IF mine.live AND NOT buries AND NOT knows_too_much THEN
        UPDATE streamhouse_internal.brokers AS b
        SET heartbeat_at = clock_timestamp(), session_pid = pg_backend_pid(),
            returned_at = CASE
                WHEN streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
                THEN b.returned_at ELSE clock_timestamp()
            END
        WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation AND b.live;
        IF FOUND THEN
            PERFORM set_config('synchronous_commit', 'off', true);
            RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
            RETURN;
        END IF;  -- else somebody has called it dead this very moment
    END IF;
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;  -- before any broker's row: no deadlock
    SELECT * INTO mine FROM streamhouse_internal.brokers AS b
    WHERE b.node_id = p_node_id AND b.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE streamhouse_internal.brokers AS b
    SET heartbeat_at = clock_timestamp(), session_pid = pg_backend_pid(), live = true,
        returned_at = CASE
            WHEN mine.live
                AND streamhouse_internal.is_recent(b.heartbeat_at, right_now, p_time_to_live)
            THEN b.returned_at ELSE clock_timestamp()
        END
    WHERE b.node_id = p_node_id;
    IF judges AND mine.live THEN
        UPDATE streamhouse_internal.brokers AS b SET live = false
        WHERE b.live AND b.node_id <> p_node_id
            AND streamhouse_internal.is_silent(
                b.heartbeat_at, mine.heartbeat_at, right_now, p_time_to_live
            );
        buried := FOUND;
    END IF;
    IF buried OR NOT mine.live OR p_known_generation > (
        SELECT c.broker_generation FROM streamhouse_internal.cluster AS c
    ) THEN
        PERFORM streamhouse_internal.next_broker_generation(p_known_generation);
    END IF;
    RETURN QUERY SELECT * FROM streamhouse_internal.live_brokers(p_node_id);
END
$function$;

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
--   is in the log, 3 objects are not pending (any more), 4 partitions do not exist; what is named says
--   which those are. Nothing has changed unless it is 0.
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
    forgotten_at_once CONSTANT int := 10;
    last_batch bigint;
    object_ids bigint[];
    object_of_run int[];  -- index
    high_watermarks bigint[];  -- per run: before any of them
    run_of_batch int[];  -- index
BEGIN
    named := '{}';
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
    DELETE FROM streamhouse_internal.sink_batches AS s
    WHERE s.sink_id = ANY (ARRAY(
        SELECT old.sink_id FROM streamhouse_internal.sink_batches AS old
        WHERE old.forget_at <= clock_timestamp()
        ORDER BY old.forget_at
        LIMIT forgotten_at_once
        FOR UPDATE SKIP LOCKED
    ));
    verdict := committed;
    named := '{}';
END
$function$;
