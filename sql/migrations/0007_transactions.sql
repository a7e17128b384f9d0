-- Transactions (KIP-98, KIP-360, KIP-447, KIP-890; D10). A transactional id is one row; what its open
-- transaction did hangs on its producer id. Whoever changes any of that holds the lock of the row.
--
-- Locks are taken in this order: transactional ids (a commit of records takes several, by producer
-- id), partitions, groups, topics; of each kind in ascending order. Hence no deadlock. An upload's row,
-- which only its own commit waits for, comes before all; so do, for delete_topic, the cluster's row and
-- the topic's, for which nobody waits who holds any of these (write_groups tells why).

-- last_producer_id and last_producer_epoch: what the client called itself before the last change that
-- it asked for itself; if the answer is lost, it asks again under that name. -1 if there is none.
-- started_at, expires_at: of the open transaction. updated_at: when it was last given an epoch, or a
-- transaction began or ended.
CREATE TABLE streamhouse_internal.transactions (
    transactional_id text COLLATE "C" PRIMARY KEY,
    producer_id bigint NOT NULL UNIQUE,
    producer_epoch int NOT NULL,
    last_producer_id bigint NOT NULL DEFAULT -1,
    last_producer_epoch int NOT NULL DEFAULT -1,
    state text NOT NULL DEFAULT 'Empty'
        CHECK (state IN ('Empty', 'Ongoing', 'CompleteCommit', 'CompleteAbort')),
    timeout_ms int NOT NULL,
    started_at timestamptz,
    expires_at timestamptz,
    updated_at timestamptz NOT NULL,
    CHECK (num_nonnulls(started_at, expires_at) = CASE state WHEN 'Ongoing' THEN 2 ELSE 0 END)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX transactions_expiry ON streamhouse_internal.transactions (expires_at)
WHERE state = 'Ongoing';

-- Partitions of open transactions. first_offset, null before the first record, is set under the lock of
-- the partition, too; so whoever holds that knows which transactions are open in it, and where they
-- begin. A row whose partition is gone means nothing, and goes with the transaction.
CREATE TABLE streamhouse_internal.transaction_partitions (
    producer_id bigint NOT NULL,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    first_offset bigint,
    PRIMARY KEY (producer_id, topic_id, partition)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
-- Partial, so that no plan of a lookup by key takes it for the key.
CREATE INDEX transaction_partitions_place
ON streamhouse_internal.transaction_partitions (topic_id, partition, first_offset)
WHERE first_offset IS NOT NULL;

-- Groups of open transactions, whether they have offsets yet or not.
CREATE TABLE streamhouse_internal.transaction_groups (
    producer_id bigint NOT NULL,
    group_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (producer_id, group_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Offsets that wait for the end of their transaction. They are guarded by the lock of their group, as
-- those of group_offsets; so a row that is read under it is of a group and a topic that exist.
CREATE TABLE streamhouse_internal.transaction_offsets (
    producer_id bigint NOT NULL,
    group_id text COLLATE "C" NOT NULL,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    committed_offset bigint NOT NULL,
    leader_epoch int NOT NULL,
    metadata text NOT NULL,
    PRIMARY KEY (producer_id, group_id, topic_id, partition)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX transaction_offsets_group
ON streamhouse_internal.transaction_offsets (group_id, topic_id, partition);

-- Who wants all of a topic asks for it as text; else a lookup by key, planned when the table was all but
-- empty, would go by this index just as well, and read all offsets of the topic.
CREATE INDEX transaction_offsets_topic
ON streamhouse_internal.transaction_offsets ((topic_id::text));
DROP INDEX streamhouse_internal.group_offsets_topic;
CREATE INDEX group_offsets_topic ON streamhouse_internal.group_offsets ((topic_id::text));

-- What readers of committed records skip: from first_offset to last_offset, the marker's.
-- last_stable_offset: of the partition after that marker. It never moves back, and no transaction that
-- ends later begins before it; so whoever looks for what reaches into a range knows where to stop.
CREATE TABLE streamhouse_internal.aborted_transactions (
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    last_offset bigint NOT NULL,
    producer_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    last_stable_offset bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, last_offset)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);

-- The last stable offset is first_unstable_offset, or the high watermark if that is null; it is never
-- before the log start offset, which may have overtaken what is open.
ALTER TABLE streamhouse_internal.partitions
    ADD COLUMN first_unstable_offset bigint,
    ADD COLUMN aborted_count int NOT NULL DEFAULT 0,
    ADD COLUMN leader_epoch bigint NOT NULL DEFAULT 0,
    ADD CHECK (first_unstable_offset <= high_watermark);

-- The marker that ends a transaction has no object: its bytes are here.
ALTER TABLE streamhouse_internal.segments
    ALTER COLUMN object_id DROP NOT NULL,
    ADD COLUMN inline bytea,
    ADD CHECK (num_nonnulls(object_id, inline) = 1) NOT VALID;  -- old rows have it, and are many

-- More of the answer of the commit, an element per partition; null where it was given before these
-- were part of it.
ALTER TABLE streamhouse_internal.objects
    ADD COLUMN last_stable_offsets bigint[],
    ADD COLUMN aborted_counts int[];

-- Begin a transaction, unless one is open. The caller holds the row's lock.
CREATE FUNCTION streamhouse_internal.begin_transaction(p_producer_id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    right_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    UPDATE streamhouse_internal.transactions AS t
    SET state = 'Ongoing', started_at = right_now, updated_at = right_now,
        expires_at = right_now + t.timeout_ms * interval '1 millisecond'
    WHERE t.producer_id = p_producer_id AND t.state <> 'Ongoing';
END
$function$;

DROP FUNCTION streamhouse_internal.commit_object(
    text, bigint, uuid[], int[], int[], bigint[], bigint[], int[], bigint[],
    int[], int[], int[], int[], bigint[]
);

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
CREATE FUNCTION streamhouse_internal.commit_object(
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
        array_agg(l.leader_epoch ORDER BY w.i)
    INTO old_highs, log_starts, unstable_offsets, aborted_counts, leader_epochs
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS w (topic_id, partition, i)
    LEFT JOIN LATERAL (
        SELECT
            p.high_watermark, p.log_start_offset, p.first_unstable_offset, p.aborted_count,
            p.leader_epoch
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
                ELSIF epochs[producer] >= 0 AND first_sequence <> 0 THEN
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

-- Give a transactional id its next epoch, or a new one p_fresh_producer_id; nothing else may have it.
-- p_expected_id, p_expected_epoch: null if the client does not say what it calls itself.
-- verdict: 0 done, 2 fenced, 4 a transaction is open; producer_id and producer_epoch: 0 of the client
-- from now on, 4 of the open transaction, else null.
CREATE FUNCTION streamhouse_internal.init_transactional_producer(
    p_transactional_id text, p_timeout_ms int, p_expected_id bigint, p_expected_epoch int,
    p_fresh_producer_id bigint,
    OUT verdict smallint, OUT producer_id bigint, OUT producer_epoch int
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    done CONSTANT smallint := 0;
    fenced CONSTANT smallint := 2;
    still_open CONSTANT smallint := 4;
    last_epoch CONSTANT int := 32766;
    found_id streamhouse_internal.transactions;
BEGIN
    LOOP
        SELECT t.* INTO found_id FROM streamhouse_internal.transactions AS t
        WHERE t.transactional_id = p_transactional_id
        FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO streamhouse_internal.transactions (
            transactional_id, producer_id, producer_epoch, timeout_ms, updated_at
        )
        VALUES (p_transactional_id, p_fresh_producer_id, 0, p_timeout_ms, clock_timestamp())
        ON CONFLICT (transactional_id) DO NOTHING;
        IF FOUND THEN
            verdict := done;
            producer_id := p_fresh_producer_id;
            producer_epoch := 0;
            RETURN;
        END IF;  -- else somebody has made it this very moment
    END LOOP;

    IF p_expected_id = found_id.last_producer_id AND p_expected_epoch = found_id.last_producer_epoch
        AND found_id.state <> 'Ongoing' THEN
        verdict := done;  -- the client's own change, of which it has not heard
        producer_id := found_id.producer_id;
        producer_epoch := found_id.producer_epoch;
        UPDATE streamhouse_internal.transactions AS t
        SET timeout_ms = p_timeout_ms, updated_at = clock_timestamp()
        WHERE t.transactional_id = p_transactional_id;
        RETURN;
    ELSIF p_expected_id <> found_id.producer_id OR p_expected_epoch <> found_id.producer_epoch THEN
        verdict := fenced;
        RETURN;
    ELSIF found_id.state = 'Ongoing' THEN
        verdict := still_open;
        producer_id := found_id.producer_id;
        producer_epoch := found_id.producer_epoch;
        RETURN;
    END IF;
    UPDATE streamhouse_internal.transactions AS t SET
        producer_id = CASE
            WHEN t.producer_epoch < last_epoch THEN t.producer_id ELSE p_fresh_producer_id
        END,
        producer_epoch = CASE WHEN t.producer_epoch < last_epoch THEN t.producer_epoch + 1 ELSE 0 END,
        last_producer_id = coalesce(p_expected_id, -1),
        last_producer_epoch = coalesce(p_expected_epoch, -1),
        state = 'Empty',
        timeout_ms = p_timeout_ms,
        updated_at = clock_timestamp()
    WHERE t.transactional_id = p_transactional_id
    RETURNING t.producer_id, t.producer_epoch INTO producer_id, producer_epoch;
    verdict := done;
END
$function$;

-- Lock a transactional id and see whether a producer is its current one: 0, 1 unknown, 2 fenced.
CREATE FUNCTION streamhouse_internal.lock_transactional_id(
    p_transactional_id text, p_producer_id bigint, p_producer_epoch int
) RETURNS smallint
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    done CONSTANT smallint := 0;
    unknown_id CONSTANT smallint := 1;
    fenced CONSTANT smallint := 2;
    last_epoch CONSTANT int := 32766;  -- what is one further was given to nobody
    current_id bigint;
    current_epoch int;
BEGIN
    SELECT t.producer_id, t.producer_epoch INTO current_id, current_epoch
    FROM streamhouse_internal.transactions AS t
    WHERE t.transactional_id = p_transactional_id
    FOR NO KEY UPDATE;
    RETURN CASE
        WHEN current_id IS DISTINCT FROM p_producer_id THEN unknown_id
        WHEN current_epoch <> p_producer_epoch OR current_epoch > last_epoch THEN fenced
        ELSE done
    END;
END
$function$;

-- Let partitions and groups take part; the transaction begins if none is open. p_topic_ids and
-- p_partitions have the same length; what does not exist is left out. 0 done, 1 unknown, 2 fenced.
CREATE FUNCTION streamhouse_internal.add_to_transaction(
    p_transactional_id text, p_producer_id bigint, p_producer_epoch int,
    p_topic_ids uuid[], p_partitions int[], p_group_ids text[]
) RETURNS smallint
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    verdict CONSTANT smallint := streamhouse_internal.lock_transactional_id(
        p_transactional_id, p_producer_id, p_producer_epoch
    );
BEGIN
    IF verdict <> 0 THEN
        RETURN verdict;
    END IF;
    PERFORM streamhouse_internal.begin_transaction(p_producer_id);
    INSERT INTO streamhouse_internal.transaction_partitions (producer_id, topic_id, partition)
    SELECT p_producer_id, w.topic_id, w.partition
    FROM unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.partitions AS p
        WHERE p.topic_id = w.topic_id AND p.partition = w.partition
        OFFSET 0
    ) AS known
    ON CONFLICT (producer_id, topic_id, partition) DO NOTHING;
    INSERT INTO streamhouse_internal.transaction_groups (producer_id, group_id)
    SELECT p_producer_id, w.group_id FROM unnest(p_group_ids) AS w (group_id)
    ON CONFLICT (producer_id, group_id) DO NOTHING;
    RETURN verdict;
END
$function$;

-- Keep offsets that a group has committed once the transaction is. p_joins: the group becomes part of
-- it, and it begins if need be (KIP-890). The arrays have the same length, no partition twice.
--
-- verdict: 0 done, 1 unknown id, 2 fenced, 3 the group is not part of a transaction, 5 the group has
-- another owner, or is gone; nothing changes unless it is 0. unknown: indexes of offsets whose
-- partition does not exist: the topic's row is locked as in write_groups, for the reason given there.
CREATE FUNCTION streamhouse_internal.write_transaction_offsets(
    p_transactional_id text, p_producer_id bigint, p_producer_epoch int,
    p_group_id text, p_owner_epoch bigint, p_joins boolean,
    p_topic_ids uuid[], p_partitions int[], p_offsets bigint[], p_leader_epochs int[],
    p_metadata text[],
    OUT verdict smallint, OUT unknown int[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    done CONSTANT smallint := 0;
    invalid_state CONSTANT smallint := 3;
    group_fenced CONSTANT smallint := 5;
    topic_ids uuid[];  -- none twice
    partition_counts int[];  -- of these; null where it does not exist
BEGIN
    unknown := '{}';
    verdict := streamhouse_internal.lock_transactional_id(
        p_transactional_id, p_producer_id, p_producer_epoch
    );
    IF verdict <> done THEN
        RETURN;
    END IF;
    IF NOT p_joins AND NOT EXISTS (
        SELECT FROM streamhouse_internal.transaction_groups AS g
        WHERE g.producer_id = p_producer_id AND g.group_id = p_group_id
    ) THEN
        verdict := invalid_state;
        RETURN;
    END IF;
    -- Records of this producer wait meanwhile, with all that is committed behind them.
    PERFORM set_config('lock_timeout', '300ms', true);
    PERFORM FROM streamhouse_internal.groups AS g
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        verdict := group_fenced;
        RETURN;
    END IF;
    IF p_joins THEN
        PERFORM streamhouse_internal.begin_transaction(p_producer_id);
        INSERT INTO streamhouse_internal.transaction_groups (producer_id, group_id)
        VALUES (p_producer_id, p_group_id)
        ON CONFLICT (producer_id, group_id) DO NOTHING;
    END IF;

    topic_ids := ARRAY(SELECT DISTINCT w.topic_id FROM unnest(p_topic_ids) AS w (topic_id));
    SELECT array_agg(t.partition_count ORDER BY w.i) INTO partition_counts
    FROM unnest(topic_ids) WITH ORDINALITY AS w (topic_id, i)
    LEFT JOIN LATERAL (
        SELECT found.partition_count
        FROM streamhouse_internal.topics AS found
        WHERE found.topic_id = w.topic_id
        FOR KEY SHARE SKIP LOCKED
    ) AS t ON true;
    SELECT coalesce(array_agg(w.i), '{}') INTO unknown
    FROM unnest(p_topic_ids, p_partitions) WITH ORDINALITY AS w (topic_id, partition, i)
    WHERE (
        w.partition BETWEEN 0 AND partition_counts[array_position(topic_ids, w.topic_id)] - 1
    ) IS NOT TRUE;
    INSERT INTO streamhouse_internal.transaction_offsets (
        producer_id, group_id, topic_id, partition, committed_offset, leader_epoch, metadata
    )
    SELECT
        p_producer_id, p_group_id, w.topic_id, w.partition, w.committed_offset, w.leader_epoch,
        w.metadata
    FROM unnest(p_topic_ids, p_partitions, p_offsets, p_leader_epochs, p_metadata)
        WITH ORDINALITY AS w (topic_id, partition, committed_offset, leader_epoch, metadata, i)
    WHERE unknown = '{}' OR w.i <> ALL (unknown)
    ON CONFLICT (producer_id, group_id, topic_id, partition) DO UPDATE SET
        committed_offset = excluded.committed_offset,
        leader_epoch = excluded.leader_epoch,
        metadata = excluded.metadata;
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = p_group_id;
END
$function$;

-- End what a transaction did in its partitions: the marker at the end of each, the aborted range, the
-- last stable offset; for a marker of the next epoch also the producer's state, so that nothing of the
-- old epoch gets behind it (KIP-890). Partitions that are gone are left out. The caller holds the lock
-- of the transactional id.
--
-- Returns where each partition begins and ends after that; the marker is its last record.
CREATE FUNCTION streamhouse_internal.write_markers(
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
            w.aborted_count
                + CASE WHEN NOT p_committed AND w.first_offset IS NOT NULL THEN 1 ELSE 0 END
            ORDER BY w.i
        )
    INTO high_watermarks, unstable_offsets, last_stable_offsets, aborted_counts
    FROM unnest(
        topic_ids, partitions, log_start_offsets, marker_offsets, aborted_counts, first_offsets,
        old_unstable_offsets
    ) WITH ORDINALITY AS w (
        topic_id, partition, log_start_offset, marker_offset, aborted_count, first_offset,
        old_unstable_offset, i
    )
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
    INSERT INTO streamhouse_internal.partitions (
        topic_id, partition, high_watermark, first_unstable_offset, aborted_count
    )
    SELECT w.topic_id, w.partition, w.high_watermark, w.unstable_offset, w.aborted_count
    FROM unnest(topic_ids, partitions, high_watermarks, unstable_offsets, aborted_counts)
        AS w (topic_id, partition, high_watermark, unstable_offset, aborted_count)
    ON CONFLICT (topic_id, partition) DO UPDATE SET  -- they are locked: it is always an update
        high_watermark = excluded.high_watermark,
        first_unstable_offset = excluded.first_unstable_offset,
        aborted_count = excluded.aborted_count;
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

-- End what a transaction did in groups: its offsets become theirs, or nobody's. The caller holds the
-- lock of the transactional id, so there come no more. Their topics exist (see transaction_offsets).
CREATE FUNCTION streamhouse_internal.settle_transaction_offsets(
    p_producer_id bigint, p_committed boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    right_now timestamptz;
    group_ids CONSTANT text[] := ARRAY(
        SELECT DISTINCT o.group_id
        FROM (  -- sorted afterwards, see write_markers
            SELECT * FROM streamhouse_internal.transaction_offsets AS found
            WHERE found.producer_id = p_producer_id
            OFFSET 0
        ) AS o
        ORDER BY o.group_id
    );
BEGIN
    DELETE FROM streamhouse_internal.transaction_groups AS g WHERE g.producer_id = p_producer_id;
    IF group_ids = '{}' THEN
        RETURN;
    END IF;
    -- Records for the transaction's partitions wait meanwhile, with all that is committed behind them.
    PERFORM set_config('lock_timeout', '300ms', true);
    PERFORM  -- the rows are locked as they are reached, in the order of the array: no deadlock
    FROM unnest(group_ids) AS w (group_id)
    CROSS JOIN LATERAL (
        SELECT FROM streamhouse_internal.groups AS g WHERE g.group_id = w.group_id
        FOR NO KEY UPDATE
    ) AS locked;
    IF p_committed THEN
        right_now := clock_timestamp();
        INSERT INTO streamhouse_internal.group_offsets (
            group_id, topic_id, partition, committed_offset, leader_epoch, metadata, committed_at
        )
        SELECT
            o.group_id, o.topic_id, o.partition, o.committed_offset, o.leader_epoch, o.metadata,
            right_now
        FROM streamhouse_internal.transaction_offsets AS o
        WHERE o.producer_id = p_producer_id
        ON CONFLICT (group_id, topic_id, partition) DO UPDATE SET
            committed_offset = excluded.committed_offset,
            leader_epoch = excluded.leader_epoch,
            metadata = excluded.metadata,
            committed_at = excluded.committed_at;
        UPDATE streamhouse_internal.groups AS g SET touched_at = right_now
        WHERE g.group_id = ANY (group_ids);
    END IF;
    DELETE FROM streamhouse_internal.transaction_offsets AS o WHERE o.producer_id = p_producer_id;
END
$function$;

-- End the open transaction, or repeat the answer if just this end has happened: one transaction of the
-- database, so others see all of it, or nothing.
--
--   p_bumps_epoch    the marker carries the next epoch, and the producer goes on with it (KIP-890), or
--                    as p_fresh_producer_id if epochs are used up
--   p_fences         it is not the producer who asks, so it is not told, and cannot ask again
--   p_overdue_only   only if it is past its deadline
--
-- verdict: 0 done, 1 unknown id, 2 fenced, 3 there is no such transaction. If done: what the client is
-- to call itself, and the arrays of write_markers, empty where an answer is repeated.
CREATE FUNCTION streamhouse_internal.end_transaction(
    p_transactional_id text, p_producer_id bigint, p_producer_epoch int,
    p_committed boolean, p_bumps_epoch boolean, p_fences boolean, p_overdue_only boolean,
    p_marker bytea, p_marker_timestamp_ms bigint, p_fresh_producer_id bigint,
    OUT verdict smallint, OUT next_producer_id bigint, OUT next_producer_epoch int,
    OUT topic_ids uuid[], OUT partitions int[], OUT log_start_offsets bigint[],
    OUT high_watermarks bigint[], OUT last_stable_offsets bigint[], OUT aborted_counts int[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    done CONSTANT smallint := 0;
    unknown_id CONSTANT smallint := 1;
    fenced CONSTANT smallint := 2;
    invalid_state CONSTANT smallint := 3;
    last_epoch CONSTANT int := 32766;
    client_bumps CONSTANT boolean := p_bumps_epoch AND NOT p_fences;
    end_state CONSTANT text := CASE WHEN p_committed THEN 'CompleteCommit' ELSE 'CompleteAbort' END;
    found_id streamhouse_internal.transactions;
    is_current boolean;
    is_last boolean;  -- it asks as what it called itself before its own last change
    is_open boolean;
BEGIN
    SELECT t.* INTO found_id FROM streamhouse_internal.transactions AS t
    WHERE t.transactional_id = p_transactional_id
    FOR UPDATE;
    is_current := found_id.producer_id = p_producer_id AND found_id.producer_epoch = p_producer_epoch;
    is_last := found_id.last_producer_id >= 0 AND found_id.last_producer_id = p_producer_id
        AND found_id.last_producer_epoch = p_producer_epoch;
    is_open := found_id.state = 'Ongoing';
    verdict := CASE
        WHEN found_id.transactional_id IS NULL THEN unknown_id
        WHEN NOT is_current AND NOT is_last AND found_id.producer_id <> p_producer_id THEN unknown_id
        WHEN is_current AND is_open THEN
            CASE
                WHEN p_overdue_only AND found_id.expires_at > clock_timestamp() THEN invalid_state
                ELSE done
            END
        WHEN is_current AND client_bumps THEN
            CASE WHEN p_committed OR p_overdue_only THEN invalid_state ELSE done END
        WHEN is_current OR (is_last AND client_bumps AND NOT is_open) THEN
            CASE
                WHEN p_fences OR p_overdue_only OR found_id.state <> end_state THEN invalid_state
                ELSE done
            END
        ELSE fenced
    END;
    IF verdict <> done THEN
        RETURN;
    END IF;

    next_producer_id := found_id.producer_id;
    next_producer_epoch := found_id.producer_epoch;
    IF NOT is_current OR NOT (is_open OR client_bumps) THEN
        RETURN;  -- the first answer again
    END IF;
    IF client_bumps AND p_producer_epoch >= last_epoch THEN
        next_producer_id := p_fresh_producer_id;
        next_producer_epoch := 0;
    ELSIF p_bumps_epoch THEN
        next_producer_epoch := p_producer_epoch + 1;
    END IF;
    IF is_open THEN
        SELECT m.* INTO
            topic_ids, partitions, log_start_offsets, high_watermarks, last_stable_offsets,
            aborted_counts
        FROM streamhouse_internal.write_markers(
            p_producer_id,
            CASE WHEN p_bumps_epoch THEN p_producer_epoch + 1 ELSE p_producer_epoch END,
            p_bumps_epoch, p_committed, p_marker, p_marker_timestamp_ms
        ) AS m;
        PERFORM streamhouse_internal.settle_transaction_offsets(p_producer_id, p_committed);
    END IF;
    UPDATE streamhouse_internal.transactions AS t SET
        producer_id = next_producer_id,
        producer_epoch = next_producer_epoch,
        last_producer_id = CASE WHEN client_bumps THEN p_producer_id ELSE -1 END,
        last_producer_epoch = CASE WHEN client_bumps THEN p_producer_epoch ELSE -1 END,
        state = end_state,
        started_at = NULL,
        expires_at = NULL,
        updated_at = clock_timestamp()
    WHERE t.transactional_id = p_transactional_id;
END
$function$;

-- Forget ids without an open transaction that nothing was done with for so long, of at most p_max from
-- p_from on. next_id: where to go on; null at the end. An id that somebody holds is left for the next
-- time, so this waits for nobody.
CREATE FUNCTION streamhouse_internal.forget_transactional_ids(
    p_unused interval, p_from text, p_max int, OUT next_id text, OUT forgotten int
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_unused;
    visited text[];
    doomed text[];
BEGIN
    visited := ARRAY(
        SELECT t.transactional_id FROM streamhouse_internal.transactions AS t
        WHERE t.transactional_id >= p_from
        ORDER BY t.transactional_id
        LIMIT p_max + 1
    );
    next_id := visited[p_max + 1];
    doomed := ARRAY(
        SELECT l.transactional_id
        FROM unnest(visited[:p_max]) AS w (transactional_id)
        CROSS JOIN LATERAL (
            SELECT t.transactional_id
            FROM streamhouse_internal.transactions AS t
            WHERE t.transactional_id = w.transactional_id
                AND t.state <> 'Ongoing' AND t.updated_at < oldest
            FOR UPDATE SKIP LOCKED
        ) AS l
    );
    DELETE FROM streamhouse_internal.transactions AS t WHERE t.transactional_id = ANY (doomed);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
END
$function$;

-- What aborted transactions wrote from p_start_offset on and before p_end_offset, in the order of their
-- last offsets, at most p_limit.
CREATE FUNCTION streamhouse_internal.find_aborted_transactions(
    p_topic_id uuid, p_partition int, p_start_offset bigint, p_end_offset bigint, p_limit int
)
RETURNS TABLE (producer_id bigint, first_offset bigint, last_offset bigint)
LANGUAGE plpgsql STABLE
AS $function$
DECLARE
    aborted streamhouse_internal.aborted_transactions;
    found_count int := 0;
BEGIN
    FOR aborted IN
        SELECT a.* FROM streamhouse_internal.aborted_transactions AS a
        WHERE a.topic_id = p_topic_id AND a.partition = p_partition
            AND a.last_offset >= p_start_offset
        ORDER BY a.last_offset
    LOOP
        EXIT WHEN found_count = p_limit;
        IF aborted.first_offset < p_end_offset THEN
            producer_id := aborted.producer_id;
            first_offset := aborted.first_offset;
            last_offset := aborted.last_offset;
            found_count := found_count + 1;
            RETURN NEXT;
        END IF;
        EXIT WHEN aborted.last_stable_offset >= p_end_offset;  -- all others begin behind it
    END LOOP;
END
$function$;

-- Remove a group and its offsets, those that wait for a transaction, too; false if somebody else owns
-- it, or it is gone.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_group(p_group_id text, p_owner_epoch bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    PERFORM FROM streamhouse_internal.groups AS g
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM streamhouse_internal.group_offsets AS o WHERE o.group_id = p_group_id;
    DELETE FROM streamhouse_internal.transaction_offsets AS o WHERE o.group_id = p_group_id;
    DELETE FROM streamhouse_internal.groups AS g WHERE g.group_id = p_group_id;
    RETURN true;
END
$function$;

-- Forget offsets of a group, those that wait for a transaction, too; false if somebody else owns it, or
-- it is gone.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_group_offsets(
    p_group_id text, p_owner_epoch bigint, p_topic_ids uuid[], p_partitions int[]
) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM streamhouse_internal.group_offsets AS o
    USING unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
    WHERE o.group_id = p_group_id AND o.topic_id = w.topic_id AND o.partition = w.partition;
    DELETE FROM streamhouse_internal.transaction_offsets AS o
    USING unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
    WHERE o.group_id = p_group_id AND o.topic_id = w.topic_id AND o.partition = w.partition;
    RETURN true;
END
$function$;

-- Forget what has had its time, of at most p_max_groups groups from p_from on, and at most
-- p_max_offsets offsets. next_group: where to go on; null at the end. A group that somebody holds is
-- left for the next time, so this waits for nobody; one with offsets that wait for a transaction stays.
CREATE OR REPLACE FUNCTION streamhouse_internal.expire_group_offsets(
    p_retention interval, p_from text, p_max_groups int, p_max_offsets int,
    OUT next_group text, OUT offset_count int, OUT group_count int
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_retention;
    visited text[];
    locked text[];
    doomed tid[];
    lost record;
BEGIN
    visited := ARRAY(
        SELECT g.group_id FROM streamhouse_internal.groups AS g
        WHERE g.group_id >= p_from
        ORDER BY g.group_id
        LIMIT p_max_groups + 1
    );
    next_group := visited[p_max_groups + 1];
    offset_count := 0;
    group_count := 0;

    locked := ARRAY(
        SELECT l.group_id
        FROM unnest(visited[:p_max_groups]) AS w (group_id)
        CROSS JOIN LATERAL (
            SELECT g.group_id
            FROM streamhouse_internal.groups AS g
            WHERE g.group_id = w.group_id AND (
                ((g.empty_since < oldest OR g.document IS NULL) AND EXISTS (
                    SELECT FROM streamhouse_internal.group_offsets AS o
                    WHERE o.group_id = w.group_id AND o.committed_at < oldest
                    OFFSET 0
                ))
                OR (g.touched_at < oldest AND (g.document IS NULL OR g.state = 'Empty') AND NOT EXISTS (
                    SELECT FROM streamhouse_internal.group_offsets AS o
                    WHERE o.group_id = w.group_id
                    OFFSET 0
                ) AND NOT EXISTS (
                    SELECT FROM streamhouse_internal.transaction_offsets AS o
                    WHERE o.group_id = w.group_id
                    OFFSET 0
                ))
            )
            FOR UPDATE OF g SKIP LOCKED
        ) AS l
    );
    doomed := ARRAY(
        SELECT o.place
        FROM unnest(locked) AS w (group_id)
        CROSS JOIN LATERAL (
            SELECT found.empty_since, found.document IS NULL AS without_record
            FROM streamhouse_internal.groups AS found
            WHERE found.group_id = w.group_id
            OFFSET 0
        ) AS g
        CROSS JOIN LATERAL (
            SELECT found.ctid AS place
            FROM streamhouse_internal.group_offsets AS found
            WHERE found.group_id = w.group_id AND found.committed_at < oldest
                AND (g.empty_since < oldest OR g.without_record)
                AND NOT EXISTS (  -- a newer one is about to come, or else this one stays
                    SELECT FROM streamhouse_internal.transaction_offsets AS pending
                    WHERE pending.group_id = found.group_id
                        AND pending.topic_id = found.topic_id
                        AND pending.partition = found.partition
                    OFFSET 0
                )
            OFFSET 0
        ) AS o
        LIMIT p_max_offsets
    );
    FOR lost IN
        WITH deleted AS (
            DELETE FROM streamhouse_internal.group_offsets AS o WHERE o.ctid = ANY (doomed)
            RETURNING o.group_id, o.committed_at
        )
        SELECT d.group_id, count(*) AS offsets, max(d.committed_at) AS newest
        FROM deleted AS d
        GROUP BY d.group_id
    LOOP
        offset_count := offset_count + lost.offsets;
        UPDATE streamhouse_internal.groups AS g SET touched_at = lost.newest
        WHERE g.group_id = lost.group_id AND g.touched_at < lost.newest;
    END LOOP;
    IF cardinality(doomed) = p_max_offsets THEN
        next_group := p_from;  -- there may be more of them
        RETURN;
    END IF;
    DELETE FROM streamhouse_internal.groups AS g
    WHERE g.group_id = ANY (locked) AND g.touched_at < oldest
        AND (g.document IS NULL OR g.state = 'Empty')
        AND NOT EXISTS (
            SELECT FROM streamhouse_internal.group_offsets AS o
            WHERE o.group_id = g.group_id
            OFFSET 0
        )
        AND NOT EXISTS (
            SELECT FROM streamhouse_internal.transaction_offsets AS o
            WHERE o.group_id = g.group_id
            OFFSET 0
        );
    GET DIAGNOSTICS group_count = ROW_COUNT;
END
$function$;

-- Remove a topic, its partitions, their index, and all that groups and transactions know of it; false
-- if there is no such topic. Most of the index goes before anything is locked that others wait for; what
-- was committed meanwhile goes after, under the locks. Others see all of it, or nothing.
--
-- When the topic's row is gone, no group can commit its first offset of the topic any more, nor keep one
-- for a transaction; so the groups that have to be locked are all there. They come after the partitions,
-- as they do where a transaction ends.
CREATE OR REPLACE FUNCTION streamhouse_internal.delete_topic(p_topic_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    deleted_version bigint;
    committed_by text[];
BEGIN
    -- what there may be most of goes first, and once more under the locks, which are held for long else
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.aborted_transactions WHERE topic_id = p_topic_id;
    deleted_version := streamhouse_internal.next_version();
    DELETE FROM streamhouse_internal.topics WHERE topic_id = p_topic_id;
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
    DELETE FROM streamhouse_internal.aborted_transactions WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.producers WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id;
    INSERT INTO streamhouse_internal.topics_deleted (topic_id, version)
    VALUES (p_topic_id, deleted_version);
    RETURN true;
END
$function$;

CREATE OR REPLACE VIEW streamhouse.partitions AS
SELECT
    t.name AS topic, p.partition, p.log_start_offset, p.high_watermark,
    p.high_watermark - p.log_start_offset AS record_count, p.topic_id,
    greatest(
        coalesce(p.first_unstable_offset, p.high_watermark), p.log_start_offset
    ) AS last_stable_offset
FROM streamhouse_internal.partitions AS p
JOIN streamhouse_internal.topics AS t USING (topic_id);

CREATE OR REPLACE VIEW streamhouse.segments AS
SELECT
    t.name AS topic, s.partition, s.start_offset, s.end_offset, o.path, s.byte_start, s.byte_length,
    s.max_timestamp_ms, s.topic_id
FROM streamhouse_internal.segments AS s
JOIN streamhouse_internal.topics AS t USING (topic_id)
LEFT JOIN streamhouse_internal.objects AS o USING (object_id);

CREATE VIEW streamhouse.transactions AS
SELECT transactional_id, producer_id, producer_epoch, state, started_at, expires_at
FROM streamhouse_internal.transactions;

COMMENT ON VIEW streamhouse.partitions IS
    'Where each log begins and ends; high_watermark is exclusive, and so is last_stable_offset, before '
    'which every transaction has ended';
COMMENT ON VIEW streamhouse.segments IS
    'Which bytes of which object hold which offsets (inclusive); no object holds the markers that end '
    'transactions';
COMMENT ON VIEW streamhouse.transactions IS
    'One row per transactional id; started_at and expires_at are of its open transaction';
