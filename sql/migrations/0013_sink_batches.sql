-- Batches that are written without a broker: a job puts objects into the store, and one call makes all
-- of them part of the log, in all their partitions, or none.

-- What a sink wrote last, so that a batch that comes again is known: sink_id is a streaming query's id,
-- or a key that a user chose. One row each, however many batches there are. last_batch_id: -1 before
-- the first one. forget_at: null where that is never forgotten.
CREATE TABLE streamhouse_internal.sink_batches (
    sink_id text COLLATE "C" PRIMARY KEY,
    last_batch_id bigint NOT NULL DEFAULT -1,
    committed_at timestamptz,
    forget_at timestamptz
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
CREATE INDEX sink_batches_forgotten ON streamhouse_internal.sink_batches (forget_at)
WHERE forget_at IS NOT NULL;

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
-- Locks: the sink's row, that of each object, and then those that commit_object takes, all of them of
-- all objects before the first is committed: partitions ascending (of transactional ids there are none).
-- So this fits into the order of 0007 and 0009, behind a row that nobody waits for who holds another.
-- With the locks it is certain that no batch will be refused: leader epochs are those that the
-- partitions have, for a job is no leader, displaces none, and repeats nothing under another epoch.
-- The row of the sink is written to at each call, as the objects' are locked, for the reason given at
-- commit_object: an answer is as durable as what it is about.
CREATE FUNCTION streamhouse_internal.commit_sink_batch(
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
    leader_epochs bigint[];  -- per run
    first_run int := 1; last_run int;
    first_batch int := 1; last_batch_of_object int;
    answer record;
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
        array_agg(coalesce(l.leader_epoch, -1) ORDER BY r.i),
        array_agg(DISTINCT r.topic_id || '-' || r.partition) FILTER (WHERE l.leader_epoch IS NULL)
    INTO leader_epochs, named
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS r (topic_id, partition, i)
    LEFT JOIN LATERAL (
        SELECT p.leader_epoch FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = r.topic_id AND p.partition = r.partition
        OFFSET 0
    ) AS l ON true;
    IF named IS NOT NULL THEN
        verdict := unknown_partitions;
        RETURN;
    END IF;

    FOR i IN 1 .. cardinality(p_paths) LOOP
        last_run := first_run + p_run_counts[i] - 1;
        SELECT first_batch + sum(b.batches) - 1 INTO last_batch_of_object
        FROM unnest(p_batch_counts[first_run:last_run]) AS b (batches);
        SELECT c.* INTO answer FROM streamhouse_internal.commit_object(
            p_paths[i], p_sizes[i],
            p_topic_ids[first_run:last_run], p_partitions[first_run:last_run],
            p_batch_counts[first_run:last_run], leader_epochs[first_run:last_run],
            p_starts[first_batch:last_batch_of_object],
            p_lengths[first_batch:last_batch_of_object],
            p_record_counts[first_batch:last_batch_of_object],
            p_max_timestamps_ms[first_batch:last_batch_of_object],
            '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'
        ) AS c;
        IF answer.state <> 'live' OR 0 <> ANY (answer.outcomes) THEN
            RAISE EXCEPTION 'object % was refused under the locks: %', p_paths[i], answer;
        END IF;
        first_run := last_run + 1;
        first_batch := last_batch_of_object + 1;
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

CREATE VIEW streamhouse.sink_batches AS
SELECT sink_id, last_batch_id, committed_at, forget_at
FROM streamhouse_internal.sink_batches
WHERE last_batch_id >= 0;

COMMENT ON VIEW streamhouse.sink_batches IS
    'What streaming queries and keyed writes committed last without a broker; forget_at: null is never';
