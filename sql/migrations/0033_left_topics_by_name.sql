-- Topics that a group has left were looked for by comparing each one that it has offsets of with all names
-- that its members read: with 20,000 of them it took longer than a statement may, and nothing expired.

-- Forget what a group committed longer ago than p_retention of topics that its members do not subscribe
-- to; return how many offsets went. None if somebody else owns the group, or holds it: then they are left
-- for the next time. What waits for a transaction stays.
CREATE OR REPLACE FUNCTION streamhouse_internal.expire_left_topics(
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
        SELECT o.topic_id
        FROM streamhouse_internal.group_offsets AS o
        WHERE o.group_id = p_group_id AND o.committed_at < oldest
        EXCEPT
        SELECT t.topic_id
        FROM unnest(p_subscribed) AS s (name)
        CROSS JOIN LATERAL (
            SELECT found.topic_id
            FROM streamhouse_internal.topics AS found
            WHERE found.name = s.name
            OFFSET 0
        ) AS t
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
