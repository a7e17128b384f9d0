-- Groups are locked in ascending order, and then changed. A group that did not exist yet, or was just
-- being deleted, when its turn came, and is there when they are changed, was locked then: out of order,
-- behind those that follow it, which could be a deadlock. So only what is locked is changed now.

-- Lock those of some groups that are there; return them. p_group_ids: ascending, none twice.
CREATE FUNCTION streamhouse_internal.lock_groups(p_group_ids text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    RETURN ARRAY(
        SELECT l.group_id
        FROM unnest(p_group_ids) AS w (group_id)  -- in the order of the array: no deadlock
        CROSS JOIN LATERAL (
            SELECT g.group_id FROM streamhouse_internal.groups AS g WHERE g.group_id = w.group_id
            FOR NO KEY UPDATE
        ) AS l
    );
END
$function$;

-- Become the owner of groups; p_create makes those that do not exist. p_group_ids: ascending, none
-- twice. A row of the table for each that is ours now.
CREATE OR REPLACE FUNCTION streamhouse_internal.take_groups(p_group_ids text[], p_create boolean)
RETURNS SETOF streamhouse_internal.groups
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    locked text[];
BEGIN
    IF p_create THEN
        RETURN QUERY
        INSERT INTO streamhouse_internal.groups AS g (group_id, owner_epoch, touched_at)
        SELECT
            w.group_id, nextval('streamhouse_internal.group_owner_epochs'), clock_timestamp()
        FROM unnest(p_group_ids) AS w (group_id)  -- in the order of the array: no deadlock
        ON CONFLICT (group_id) DO UPDATE SET  -- not excluded's: those are from before the lock
            owner_epoch = nextval('streamhouse_internal.group_owner_epochs'),
            touched_at = clock_timestamp()
        RETURNING g.*;
    ELSE
        locked := streamhouse_internal.lock_groups(p_group_ids);
        RETURN QUERY
        UPDATE streamhouse_internal.groups AS g SET
            owner_epoch = nextval('streamhouse_internal.group_owner_epochs'),
            touched_at = clock_timestamp()
        WHERE g.group_id = ANY (locked)
        RETURNING g.*;
    END IF;
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
    right_now timestamptz;
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
        WHERE g.group_id = ANY (locked);
    END IF;
    DELETE FROM streamhouse_internal.transaction_offsets AS o WHERE o.producer_id = p_producer_id;
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
    locked text[];
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
    locked := streamhouse_internal.lock_groups(committed_by);
    UPDATE streamhouse_internal.groups AS g SET touched_at = clock_timestamp()
    WHERE g.group_id = ANY (locked);
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
