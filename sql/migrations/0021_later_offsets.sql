-- Of a group's offset in a partition, what was written last counts, as in Apache Kafka, where it is the
-- place in __consumer_offsets: not what a transaction wrote before and commits only now. So when it was
-- written is kept with it, and is the time of the commit. Both are written under the group's lock.
ALTER TABLE streamhouse_internal.transaction_offsets
ADD COLUMN written_at timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE streamhouse_internal.transaction_offsets ALTER COLUMN written_at DROP DEFAULT;

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
    partition_counts int[];  -- of these; null where it does not exist
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
        producer_id, group_id, topic_id, partition, committed_offset, leader_epoch, metadata,
        written_at
    )
    SELECT
        p_producer_id, p_group_id, w.topic_id, w.partition, w.committed_offset, w.leader_epoch,
        w.metadata, greatest(right_now, earlier.committed_at)  -- a clock may have been put back
    FROM unnest(p_topic_ids, p_partitions, p_offsets, p_leader_epochs, p_metadata)
        WITH ORDINALITY AS w (topic_id, partition, committed_offset, leader_epoch, metadata, i)
    LEFT JOIN LATERAL (
        SELECT o.committed_at FROM streamhouse_internal.group_offsets AS o
        WHERE o.group_id = p_group_id AND o.topic_id = w.topic_id AND o.partition = w.partition
        OFFSET 0
    ) AS earlier ON true
    WHERE unknown = '{}' OR w.i <> ALL (unknown)
    ON CONFLICT (producer_id, group_id, topic_id, partition) DO UPDATE SET
        committed_offset = excluded.committed_offset,
        leader_epoch = excluded.leader_epoch,
        metadata = excluded.metadata,
        written_at = excluded.written_at;
    UPDATE streamhouse_internal.groups AS g SET touched_at = right_now
    WHERE g.group_id = p_group_id;
END
$function$;

-- End what a transaction did in groups: its offsets become theirs, or nobody's. The caller holds the
-- lock of the transactional id, so there come no more. Their topics exist (see transaction_offsets).
CREATE OR REPLACE FUNCTION streamhouse_internal.settle_transaction_offsets(
    p_producer_id bigint, p_committed boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    locked text[];
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
    locked := streamhouse_internal.lock_groups(group_ids);
    IF p_committed THEN
        INSERT INTO streamhouse_internal.group_offsets (
            group_id, topic_id, partition, committed_offset, leader_epoch, metadata, committed_at
        )
        SELECT
            o.group_id, o.topic_id, o.partition, o.committed_offset, o.leader_epoch, o.metadata,
            o.written_at
        FROM streamhouse_internal.transaction_offsets AS o
        WHERE o.producer_id = p_producer_id
        ON CONFLICT (group_id, topic_id, partition) DO UPDATE SET
            committed_offset = excluded.committed_offset,
            leader_epoch = excluded.leader_epoch,
            metadata = excluded.metadata,
            committed_at = excluded.committed_at
        WHERE group_offsets.committed_at <= excluded.committed_at;
        UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
        WHERE g.group_id = ANY (locked);
    END IF;
    DELETE FROM streamhouse_internal.transaction_offsets AS o WHERE o.producer_id = p_producer_id;
END
$function$;
