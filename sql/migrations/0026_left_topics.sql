-- The offsets of topics that the members of a group do not read any more stayed for ever, and so did their
-- lag (KIP-211).

-- Forget what a group committed longer ago than p_retention of topics that its members do not subscribe
-- to; return how many offsets went. None if somebody else owns the group, or holds it: then they are left
-- for the next time. What waits for a transaction stays.
CREATE FUNCTION streamhouse_internal.expire_left_topics(
    p_group_id text, p_owner_epoch bigint, p_subscribed text[], p_retention interval
) RETURNS int
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    oldest CONSTANT timestamptz := clock_timestamp() - p_retention;
    left_topics uuid[];
    offset_count int;
BEGIN
    left_topics := ARRAY(
        SELECT DISTINCT o.topic_id
        FROM streamhouse_internal.group_offsets AS o
        WHERE o.group_id = p_group_id AND o.committed_at < oldest
            AND NOT EXISTS (
                SELECT FROM streamhouse_internal.topics AS t
                WHERE t.topic_id = o.topic_id AND t.name = ANY (p_subscribed)
                OFFSET 0
            )
    );
    IF cardinality(left_topics) = 0 THEN
        RETURN 0;  -- as nearly always: no lock, which would be written to the disk
    END IF;
    PERFORM FROM streamhouse_internal.groups AS g
    WHERE g.group_id = p_group_id AND g.owner_epoch = p_owner_epoch
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    DELETE FROM streamhouse_internal.group_offsets AS o
    WHERE o.group_id = p_group_id AND o.committed_at < oldest AND o.topic_id = ANY (left_topics)
        AND NOT EXISTS (  -- a newer one is about to come, or else this one stays
            SELECT FROM streamhouse_internal.transaction_offsets AS pending
            WHERE pending.group_id = o.group_id
                AND pending.topic_id = o.topic_id
                AND pending.partition = o.partition
            OFFSET 0
        );
    GET DIAGNOSTICS offset_count = ROW_COUNT;
    RETURN offset_count;
END
$function$;
