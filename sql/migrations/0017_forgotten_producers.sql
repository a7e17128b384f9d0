-- What a partition has forgotten of producers, so that it need not take any first batch of one that it
-- does not know: that loses records (commit_object tells how).

-- forgotten_producer_id: the highest id of a producer of which the partition may have known something
-- that it does not know any more; -1 if there is none. Ids ascend, so of one above that it has forgotten
-- nothing. An id at or below may be that of a producer that it never heard of; such a one may begin with
-- any sequence, as with Apache Kafka.
ALTER TABLE streamhouse_internal.partitions
    ADD COLUMN forgotten_producer_id bigint NOT NULL DEFAULT -1;
UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = c.next_producer_id - 1
FROM streamhouse_internal.cluster AS c
WHERE c.next_producer_id > 0;

-- A producer that goes on where a topic was deleted and made again goes on with its sequences, too: so
-- what is forgotten with a topic is remembered under its name. last_producer_id: when it was deleted,
-- no higher one had been given out.
ALTER TABLE streamhouse_internal.topics_deleted
    ADD COLUMN name text COLLATE "C",
    ADD COLUMN last_producer_id bigint,
    ADD CHECK ((name IS NULL) = (last_producer_id IS NULL));  -- null: before these were written down
CREATE INDEX topics_deleted_name ON streamhouse_internal.topics_deleted (name, last_producer_id);

-- forgotten_producer_id: the same for every topic that is made from now on, for what was deleted, or
-- lost (streamctl recover), when nobody wrote down names.
ALTER TABLE streamhouse_internal.cluster
    ADD COLUMN forgotten_producer_id bigint NOT NULL DEFAULT -1;
UPDATE streamhouse_internal.cluster SET forgotten_producer_id = next_producer_id - 1;

-- Add a topic's partitions from p_from on and before p_to. The caller has the cluster's row, by
-- next_version(), so no topic of the name is deleted meanwhile.
CREATE FUNCTION streamhouse_internal.add_empty_partitions(
    p_topic_id uuid, p_name text, p_from int, p_to int
) RETURNS void
LANGUAGE sql VOLATILE
AS $function$
    INSERT INTO streamhouse_internal.partitions (topic_id, partition, forgotten_producer_id)
    SELECT p_topic_id, n.partition, greatest(c.forgotten_producer_id, d.last_producer_id)
    FROM streamhouse_internal.cluster AS c
    CROSS JOIN (
        SELECT max(found.last_producer_id) AS last_producer_id
        FROM streamhouse_internal.topics_deleted AS found
        WHERE found.name = p_name
    ) AS d
    CROSS JOIN generate_series(p_from, p_to - 1) AS n (partition);
$function$;

-- No row if a topic has that name.
CREATE OR REPLACE FUNCTION streamhouse_internal.create_topic(
    p_name text, p_partition_count int, p_replication_factor int, p_configs jsonb
) RETURNS SETOF streamhouse_internal.topics
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    created streamhouse_internal.topics;
BEGIN
    created.version := streamhouse_internal.next_version();
    INSERT INTO streamhouse_internal.topics (
        topic_id, name, partition_count, replication_factor, configs, version
    )
    VALUES (
        gen_random_uuid(), p_name, p_partition_count, p_replication_factor, p_configs, created.version
    )
    ON CONFLICT (name) DO NOTHING
    RETURNING * INTO created;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM streamhouse_internal.add_empty_partitions(created.topic_id, p_name, 0, p_partition_count);
    RETURN NEXT created;
END
$function$;

-- No row if there is no such topic; grown is false if it has that many partitions, or more.
CREATE OR REPLACE FUNCTION streamhouse_internal.add_partitions(
    p_topic_id uuid, p_partition_count int, OUT grown boolean, OUT topic streamhouse_internal.topics
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    grown_version bigint := streamhouse_internal.next_version();
    old_name text;
    old_count int;
BEGIN
    SELECT t.name, t.partition_count INTO old_name, old_count
    FROM streamhouse_internal.topics AS t WHERE t.topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    grown := old_count < p_partition_count;
    IF grown THEN
        PERFORM streamhouse_internal.add_empty_partitions(
            p_topic_id, old_name, old_count, p_partition_count
        );
        UPDATE streamhouse_internal.topics AS t
        SET partition_count = p_partition_count, version = grown_version
        WHERE t.topic_id = p_topic_id
        RETURNING t.* INTO topic;
    END IF;
    RETURN NEXT;
END
$function$;

-- Remove a topic, its partitions, and all that groups and transactions know of it; false if there is no
-- such topic. Others see all of it, or nothing. Whoever reads the index goes by the partition's row, so
-- the rest cannot be seen any more, either; purge_topic takes it away.
--
-- When the topic's row is gone, no group can commit its first offset of the topic any more, nor keep one
-- for a transaction; so the groups that have to be locked are all there. They come after the partitions,
-- as they do where a transaction ends.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_topic(p_topic_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    deleted_version bigint;
    deleted_name text;
    committed_by text[];
BEGIN
    deleted_version := streamhouse_internal.next_version();
    DELETE FROM streamhouse_internal.topics AS t WHERE t.topic_id = p_topic_id
    RETURNING t.name INTO deleted_name;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id
    ORDER BY partition  -- as commits do: no deadlock
    FOR UPDATE;
    committed_by := ARRAY(
        SELECT o.group_id
        FROM (
            SELECT g.group_id, g.committed_offset FROM streamhouse_internal.group_offsets AS g
            WHERE g.topic_id::text = p_topic_id::text
            UNION ALL
            SELECT t.group_id, t.committed_offset FROM streamhouse_internal.transaction_offsets AS t
            WHERE t.topic_id::text = p_topic_id::text
            OFFSET 0
        ) AS o
        WHERE o.committed_offset IS NOT NULL  -- it always is; but no index has it, to be read as a whole
        GROUP BY o.group_id
        ORDER BY o.group_id
    );
    PERFORM
    FROM unnest(committed_by) AS w (group_id)
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.groups AS g WHERE g.group_id = w.group_id
        FOR NO KEY UPDATE
    ) AS locked;
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = ANY (committed_by);
    DELETE FROM streamhouse_internal.group_offsets WHERE topic_id::text = p_topic_id::text;
    DELETE FROM streamhouse_internal.transaction_offsets WHERE topic_id::text = p_topic_id::text;
    DELETE FROM streamhouse_internal.transaction_partitions
    WHERE topic_id = p_topic_id AND first_offset IS NOT NULL;  -- the others mean nothing any more
    DELETE FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id;
    INSERT INTO streamhouse_internal.topics_deleted (topic_id, version, name, last_producer_id)
    SELECT p_topic_id, deleted_version, deleted_name, c.next_producer_id - 1
    FROM streamhouse_internal.cluster AS c;
    RETURN true;
END
$function$;

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
        GROUP BY d.topic_id, d.partition
    LOOP
        UPDATE streamhouse_internal.partitions AS p SET forgotten_producer_id = forgotten.producer_id
        WHERE p.topic_id = forgotten.topic_id AND p.partition = forgotten.partition
            AND p.forgotten_producer_id < forgotten.producer_id;
    END LOOP;
    removed := cardinality(doomed);
END
$function$;

-- Make an uploaded object's batches part of the log: one call, one transaction, one answer per batch.
--
--   p_path, p_size                                 the object; reserved before
--   p_topic_ids, p_partitions, p_batch_counts,     per partition: ascending, none twice
--   p_leader_epochs
--   p_starts, p_lengths, p_record_counts,          per batch: partition after partition, in log order
--   p_max_timestamps_ms
--   p_producers, p_epochs, p_base_sequences        per batch: index (from 1) into the next two arrays,
--                                                  0 if not idempotent; all empty if no batch is
--   p_producer_partitions, p_producer_ids          per producer and partition: index of the partition
--   p_transactions                                 per batch: 0 of no transaction, 1 its partition is
--                                                  part of it already, 2 it adds its partition, and
--                                                  begins it (KIP-890); empty if no batch has one
--   p_transactional_ids, p_owners                  what the next array speaks of; per batch: index of
--                                                  the id in whose name it was sent
--
-- state: null (never reserved) and 'doomed' have no arrays: the batches are not in the log. 'live' has,
--   per batch, its outcome (0 appended, 1 duplicate, 2 unknown partition, 3 out of order sequence,
--   4 invalid producer epoch, 5 invalid transaction state, 6 the transactional id has another producer
--   id, 7 fenced leader epoch), base offset and log start offset (-1 where refused); and per partition,
--   as they are at the end, last stable offset and count of aborted transactions (-1 where unknown).
--
-- A batch of a transaction needs the current epoch of its transactional id, whatever the partition has
-- seen of it: the row is locked, so the transaction does not end before the batch is in, and nothing
-- is appended behind its marker. Without transactions all of this costs next to nothing: only where one
-- is open is a batch of none looked up, because its producer may not leave its own.
--
-- A producer of which the partition knows nothing begins with sequence 0, unless what was known of it
-- may be forgotten (partitions.forgotten_producer_id), or its id is of another cluster: clients may be
-- led from one to another under the same name. Apache Kafka takes any sequence then (KIP-360), and so
-- did this, and lost records: of two batches in flight, the first may be refused because its leader was
-- overtaken, and the second be taken when that one leads again; a client that hears that the second is
-- in the log takes the first for written as well.
--
-- A partition takes no batch of an older leader epoch than it was asked with before: what a broker
-- that has lost it still had under way is refused. A producer may by then have been told by the new
-- leader that a batch is out of order, and have begun a new epoch in which it repeats what it takes
-- for lost: that must not turn up after all.
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
CREATE OR REPLACE FUNCTION streamhouse_internal.commit_object(
    p_path text, p_size bigint,
    p_topic_ids uuid[], p_partitions int[], p_batch_counts int[], p_leader_epochs bigint[],
    p_starts bigint[], p_lengths bigint[], p_record_counts int[], p_max_timestamps_ms bigint[],
    p_producers int[], p_epochs int[], p_base_sequences int[],
    p_producer_partitions int[], p_producer_ids bigint[], p_transactions smallint[],
    p_transactional_ids text[], p_owners int[],
    OUT state text, OUT outcomes smallint[], OUT base_offsets bigint[], OUT log_start_offsets bigint[],
    OUT last_stable_offsets bigint[], OUT aborted_counts int[]
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
    invalid_txn_state CONSTANT smallint := 5;
    invalid_producer_id_mapping CONSTANT smallint := 6;
    fenced_leader_epoch CONSTANT smallint := 7;
    last_producer_epoch CONSTANT int := 32766;  -- of a transactional id; markers may go one further
    added CONSTANT smallint := 1;
    adds CONSTANT smallint := 2;
    retained_batches CONSTANT int := 5;
    sequences CONSTANT bigint := 2147483648;  -- after 2^31 - 1 comes 0
    batch_total CONSTANT int := cardinality(p_starts);
    idempotent CONSTANT boolean := cardinality(p_producer_ids) > 0;
    transactional CONSTANT boolean := cardinality(p_transactions) > 0;
    meets_transactions boolean;  -- has batches of some, or goes where one is open
    committed_object bigint;
    -- per partition; -1 where it does not exist
    old_highs bigint[]; new_highs bigint[]; log_starts bigint[];
    leader_epochs bigint[];
    unstable_offsets bigint[];  -- -1 where no transaction is open
    forgotten_ids bigint[];
    -- per producer and partition; epoch -1 where there is no state
    epochs int[]; sequence_ends int[]; slots int[];
    firsts int[]; lasts int[]; bases bigint[];  -- [producer][slot]
    touched boolean[];
    -- the same, if it meets transactions: epoch of the transactional id, -1 where there is none;
    -- whether the partition is part of the open transaction; its first offset there, -1 before it has one
    current_epochs int[]; members boolean[]; first_offsets bigint[]; names text[];
    opened boolean[];
    -- per run of batches that are adjacent in bytes and offsets: one row of segments
    run int := 0;
    run_partitions int[] := '{}'; run_start_offsets bigint[] := '{}'; run_end_offsets bigint[] := '{}';
    run_starts bigint[] := '{}'; run_lengths bigint[] := '{}'; run_timestamps bigint[] := '{}';
    run_next_byte bigint;
    batch int := 0;
    next_offset bigint; producer int; slot int; first_sequence int; last_sequence bigint;
    verdict smallint; anew boolean; use smallint;
BEGIN
    SELECT
        o.object_id, o.state, o.outcomes, o.base_offsets, o.log_start_offsets,
        o.last_stable_offsets, o.aborted_counts
    INTO
        committed_object, state, outcomes, base_offsets, log_start_offsets,
        last_stable_offsets, aborted_counts
    FROM streamhouse_internal.objects AS o WHERE o.path = p_path
    FOR UPDATE;
    IF state IS DISTINCT FROM 'pending' THEN
        IF state = 'live' AND last_stable_offsets IS NULL THEN  -- was answered without these
            last_stable_offsets := array_fill(-1::bigint, ARRAY[cardinality(p_partitions)]);
            aborted_counts := array_fill(-1, ARRAY[cardinality(p_partitions)]);
        END IF;
        RETURN;
    END IF;

    IF transactional THEN
        PERFORM
        FROM unnest(ARRAY(
            SELECT DISTINCT p_producer_ids[p_producers[b.i]] AS producer_id
            FROM unnest(p_transactions) WITH ORDINALITY AS b (use, i)
            WHERE b.use > 0
            ORDER BY producer_id
        )) AS w (producer_id)
        CROSS JOIN LATERAL (
            SELECT FROM streamhouse_internal.transactions AS t WHERE t.producer_id = w.producer_id
            FOR NO KEY UPDATE
        ) AS locked;
    END IF;

    SELECT  -- the rows are locked as they are reached, in the order of the arrays: no deadlock
        array_agg(coalesce(l.high_watermark, -1) ORDER BY w.i),
        array_agg(coalesce(l.log_start_offset, -1) ORDER BY w.i),
        array_agg(coalesce(l.first_unstable_offset, -1) ORDER BY w.i),
        coalesce(array_agg(coalesce(l.aborted_count, -1) ORDER BY w.i), '{}'),
        array_agg(l.leader_epoch ORDER BY w.i),
        array_agg(l.forgotten_producer_id ORDER BY w.i)
    INTO old_highs, log_starts, unstable_offsets, aborted_counts, leader_epochs, forgotten_ids
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS w (topic_id, partition, i)
    LEFT JOIN LATERAL (
        SELECT
            p.high_watermark, p.log_start_offset, p.first_unstable_offset, p.aborted_count,
            p.leader_epoch, p.forgotten_producer_id
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

    meets_transactions := transactional OR (idempotent AND 0 <= ANY (unstable_offsets));
    IF meets_transactions THEN
        SELECT
            array_agg(coalesce(t.producer_epoch, -1) ORDER BY w.i),
            array_agg(t.transactional_id ORDER BY w.i),
            array_agg(m.is_member IS NOT NULL ORDER BY w.i),
            array_agg(coalesce(m.first_offset, -1) ORDER BY w.i),
            array_agg(false)
        INTO current_epochs, names, members, first_offsets, opened
        FROM unnest(p_producer_partitions, p_producer_ids)
            WITH ORDINALITY AS w (partition_index, producer_id, i)
        LEFT JOIN LATERAL (
            SELECT found.producer_epoch, found.transactional_id
            FROM streamhouse_internal.transactions AS found
            WHERE found.producer_id = w.producer_id
            OFFSET 0
        ) AS t ON true
        LEFT JOIN LATERAL (
            SELECT true AS is_member, found.first_offset
            FROM streamhouse_internal.transaction_partitions AS found
            WHERE found.producer_id = w.producer_id
                AND found.topic_id = p_topic_ids[w.partition_index]
                AND found.partition = p_partitions[w.partition_index]
            OFFSET 0
        ) AS m ON true;
    END IF;

    outcomes := array_fill(appended, ARRAY[batch_total]);
    base_offsets := array_fill(-1::bigint, ARRAY[batch_total]);
    log_start_offsets := base_offsets;
    last_stable_offsets := '{}';
    FOR i IN 1 .. cardinality(p_partitions) LOOP
        next_offset := new_highs[i];
        run_next_byte := -1;
        FOR batch_of_partition IN 1 .. p_batch_counts[i] LOOP
            batch := batch + 1;
            IF next_offset < 0 THEN
                outcomes[batch] := unknown_partition;
                CONTINUE;
            END IF;
            IF p_leader_epochs[i] < leader_epochs[i] THEN
                outcomes[batch] := fenced_leader_epoch;
                CONTINUE;
            END IF;

            IF idempotent AND p_producers[batch] > 0 THEN
                producer := p_producers[batch];
                first_sequence := p_base_sequences[batch];
                last_sequence := (first_sequence::bigint + p_record_counts[batch] - 1) % sequences;
                verdict := appended;
                anew := false;
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
                ELSIF first_sequence <> 0 AND (
                    epochs[producer] >= 0 OR (
                        p_producer_ids[producer] > forgotten_ids[i] AND EXISTS (
                            SELECT FROM streamhouse_internal.cluster AS c
                            WHERE c.next_producer_id > p_producer_ids[producer]
                        )
                    )
                ) THEN
                    verdict := out_of_order_sequence;
                ELSE
                    anew := true;
                END IF;
                IF meets_transactions AND verdict IN (appended, out_of_order_sequence) THEN
                    use := coalesce(p_transactions[batch], 0);
                    IF use > 0
                        AND names[producer] IS DISTINCT FROM p_transactional_ids[p_owners[batch]] THEN
                        verdict := invalid_producer_id_mapping;
                    ELSIF use > 0 AND (
                        current_epochs[producer] <> p_epochs[batch]
                        OR p_epochs[batch] > last_producer_epoch
                    ) THEN
                        verdict := invalid_producer_epoch;
                    ELSIF verdict = appended THEN
                        IF use = adds AND epochs[producer] < 0 AND first_sequence <> 0 THEN
                            verdict := out_of_order_sequence;  -- goes on with what is forgotten
                        ELSIF (use = 0 AND first_offsets[producer] >= 0)
                            OR (use = added AND NOT members[producer]) THEN
                            verdict := invalid_txn_state;
                        ELSIF use > 0 AND first_offsets[producer] < 0 THEN
                            first_offsets[producer] := next_offset;
                            members[producer] := true;
                            opened[producer] := true;
                            IF unstable_offsets[i] < 0 THEN
                                unstable_offsets[i] := next_offset;
                            END IF;
                        END IF;
                    END IF;
                END IF;
                IF verdict <> appended THEN
                    outcomes[batch] := verdict;
                    CONTINUE;
                END IF;
                IF anew THEN  -- a first batch, or the first of a new epoch: nothing older is repeated
                    epochs[producer] := p_epochs[batch];
                    slots[producer] := 1;
                    FOR retained IN 1 .. retained_batches LOOP
                        firsts[producer][retained] := -1;
                    END LOOP;
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
        last_stable_offsets[i] := greatest(
            coalesce(nullif(unstable_offsets[i], -1), next_offset), log_starts[i]
        );
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

    INSERT INTO streamhouse_internal.partitions (
        topic_id, partition, high_watermark, first_unstable_offset, leader_epoch
    )
    SELECT n.topic_id, n.partition, n.new_high, nullif(n.unstable_offset, -1), n.new_epoch
    FROM unnest(
        p_topic_ids, p_partitions, old_highs, new_highs, unstable_offsets, leader_epochs,
        p_leader_epochs
    ) AS n (topic_id, partition, old_high, new_high, unstable_offset, old_epoch, new_epoch)
    WHERE n.new_high > n.old_high OR n.new_epoch > n.old_epoch
    -- these exist, and are locked: the insert is always an update
    ON CONFLICT (topic_id, partition) DO UPDATE SET
        high_watermark = excluded.high_watermark,
        first_unstable_offset = excluded.first_unstable_offset,
        leader_epoch = excluded.leader_epoch;

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

    IF transactional THEN
        INSERT INTO streamhouse_internal.transaction_partitions (
            producer_id, topic_id, partition, first_offset
        )
        SELECT
            w.producer_id, p_topic_ids[w.partition_index], p_partitions[w.partition_index],
            w.first_offset
        FROM unnest(p_producer_partitions, p_producer_ids, first_offsets, opened)
            AS w (partition_index, producer_id, first_offset, opened)
        WHERE w.opened
        ON CONFLICT (producer_id, topic_id, partition) DO UPDATE SET
            first_offset = excluded.first_offset;
        PERFORM streamhouse_internal.begin_transaction(w.producer_id)
        FROM (
            SELECT DISTINCT o.producer_id
            FROM unnest(p_producer_ids, opened) AS o (producer_id, opened)
            WHERE o.opened
        ) AS w;
    END IF;

    state := 'live';
    UPDATE streamhouse_internal.objects AS o
    SET state = 'live', size = p_size, outcomes = commit_object.outcomes,
        base_offsets = commit_object.base_offsets,
        log_start_offsets = commit_object.log_start_offsets,
        last_stable_offsets = commit_object.last_stable_offsets,
        aborted_counts = commit_object.aborted_counts
    WHERE o.object_id = committed_object;
END
$function$;
