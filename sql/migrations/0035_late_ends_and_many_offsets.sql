-- A client that was given an epoch knows how its last transaction ended, as in Apache Kafka: its state is
-- 'Empty' then, and the end that was asked for under the epoch before is fenced if it comes once more.
-- And of many offsets in a transaction, each was looked up among their topics, while records waited.

-- Give a transactional id its next epoch, or a new one p_fresh_producer_id; nothing else may have it.
-- p_expected_id, p_expected_epoch: null if the client does not say what it calls itself.
-- verdict: 0 done, 2 fenced, 4 a transaction is open; producer_id and producer_epoch: 0 of the client
-- from now on, 4 of the open transaction, else null.
CREATE OR REPLACE FUNCTION streamhouse_internal.init_transactional_producer(
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
        SET state = 'Empty', timeout_ms = p_timeout_ms, updated_at = clock_timestamp()
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

-- End the open transaction, or repeat the answer if just this end has happened: one transaction of the
-- database, so others see all of it, or nothing. It is repeated until the client is given an epoch.
--
--   p_bumps_epoch    the marker carries the next epoch, and the producer goes on with it (KIP-890), or
--                    as p_fresh_producer_id if epochs are used up
--   p_fences         it is not the producer who asks, so it is not told, and cannot ask again
--   p_overdue_only   only if it is past its deadline; nobody asks, the producer is told once it does
--
-- verdict: 0 done, 1 unknown id, 2 fenced, 3 there is no such transaction. If done: what the client is
-- to call itself, and the arrays of write_markers, empty where an answer is repeated.
CREATE OR REPLACE FUNCTION streamhouse_internal.end_transaction(
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
    is_last boolean;  -- it asks as what it called itself before, and is not fenced
    is_open boolean;
    has_ended boolean;  -- and no epoch was given out since
BEGIN
    SELECT t.* INTO found_id FROM streamhouse_internal.transactions AS t
    WHERE t.transactional_id = p_transactional_id
    FOR UPDATE;
    is_current := found_id.producer_id = p_producer_id AND found_id.producer_epoch = p_producer_epoch;
    is_last := found_id.last_producer_id >= 0 AND found_id.last_producer_id = p_producer_id
        AND found_id.last_producer_epoch = p_producer_epoch;
    is_open := found_id.state = 'Ongoing';
    has_ended := found_id.state IN ('CompleteCommit', 'CompleteAbort');
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
        WHEN is_current OR (is_last AND client_bumps AND has_ended) THEN
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

-- Keep offsets that a group has committed once the transaction is. p_joins: the group becomes part of
-- it, and it begins if need be (KIP-890). The arrays have the same length, no partition twice.
--
-- verdict: 0 done, 1 unknown id, 2 fenced, 3 the group is not part of a transaction, 5 the group has
-- another owner, or is gone; nothing changes unless it is 0. unknown: indexes of offsets whose
-- partition does not exist: the topic's row is locked as in write_groups, for the reason given there.
CREATE OR REPLACE FUNCTION streamhouse_internal.write_transaction_offsets(
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
    partition_counts int[];  -- of these; 0 where it does not exist
    topics int[];  -- per offset: which of these
    known boolean[];  -- per offset: its partition exists
    right_now timestamptz;
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
    right_now := clock_timestamp();
    IF p_joins THEN
        PERFORM streamhouse_internal.begin_transaction(p_producer_id);
        INSERT INTO streamhouse_internal.transaction_groups (producer_id, group_id)
        VALUES (p_producer_id, p_group_id)
        ON CONFLICT (producer_id, group_id) DO NOTHING;
    END IF;

    topic_ids := ARRAY(
        SELECT DISTINCT w.topic_id FROM unnest(p_topic_ids) AS w (topic_id) ORDER BY w.topic_id
    );
    topics := ARRAY(
        SELECT dense_rank() OVER (ORDER BY w.topic_id)
        FROM unnest(p_topic_ids) WITH ORDINALITY AS w (topic_id, i)
        ORDER BY w.i
    );
    SELECT array_agg(coalesce(t.partition_count, 0) ORDER BY w.i) INTO partition_counts
    FROM unnest(topic_ids) WITH ORDINALITY AS w (topic_id, i)
    LEFT JOIN LATERAL (
        SELECT found.partition_count
        FROM streamhouse_internal.topics AS found
        WHERE found.topic_id = w.topic_id
        FOR KEY SHARE SKIP LOCKED
    ) AS t ON true;
    known := ARRAY(
        SELECT w.partition BETWEEN 0 AND partition_counts[w.topic] - 1
        FROM unnest(p_partitions, topics) WITH ORDINALITY AS w (partition, topic, i)
        ORDER BY w.i
    );
    unknown := array_positions(known, false);
    INSERT INTO streamhouse_internal.transaction_offsets (
        producer_id, group_id, topic_id, partition, committed_offset, leader_epoch, metadata,
        written_at
    )
    SELECT
        p_producer_id, p_group_id, w.topic_id, w.partition, w.committed_offset, w.leader_epoch,
        w.metadata, greatest(right_now, earlier.committed_at)  -- a clock may have been put back
    FROM unnest(p_topic_ids, p_partitions, p_offsets, p_leader_epochs, p_metadata, known)
        AS w (topic_id, partition, committed_offset, leader_epoch, metadata, known)
    LEFT JOIN LATERAL (
        SELECT o.committed_at FROM streamhouse_internal.group_offsets AS o
        WHERE o.group_id = p_group_id AND o.topic_id = w.topic_id AND o.partition = w.partition
        OFFSET 0
    ) AS earlier ON true
    WHERE w.known
    ON CONFLICT (producer_id, group_id, topic_id, partition) DO UPDATE SET
        committed_offset = excluded.committed_offset,
        leader_epoch = excluded.leader_epoch,
        metadata = excluded.metadata,
        written_at = excluded.written_at;
    UPDATE streamhouse_internal.groups AS g SET touched_at = right_now
    WHERE g.group_id = p_group_id;
END
$function$;
