-- A broker that has not heard yet that a topic was made again names the old one. What it added was left
-- out, and its client told that it had been added; the records that came then were refused.

-- Let partitions and groups take part; the transaction begins if none is open. p_topic_ids and
-- p_partitions have the same length. 0 done, 1 unknown id, 2 fenced, 6 a partition does not exist:
-- nothing changes unless it is 0.
CREATE OR REPLACE FUNCTION streamhouse_internal.add_to_transaction(
    p_transactional_id text, p_producer_id bigint, p_producer_epoch int,
    p_topic_ids uuid[], p_partitions int[], p_group_ids text[]
) RETURNS smallint
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    unknown_partition CONSTANT smallint := 6;
    verdict CONSTANT smallint := streamhouse_internal.lock_transactional_id(
        p_transactional_id, p_producer_id, p_producer_epoch
    );
BEGIN
    IF verdict <> 0 THEN
        RETURN verdict;
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
        WHERE NOT EXISTS (
            SELECT FROM streamhouse_internal.partitions AS p
            WHERE p.topic_id = w.topic_id AND p.partition = w.partition
            OFFSET 0
        )
    ) THEN
        RETURN unknown_partition;
    END IF;
    PERFORM streamhouse_internal.begin_transaction(p_producer_id);
    INSERT INTO streamhouse_internal.transaction_partitions (producer_id, topic_id, partition)
    SELECT p_producer_id, w.topic_id, w.partition
    FROM unnest(p_topic_ids, p_partitions) AS w (topic_id, partition)
    ON CONFLICT (producer_id, topic_id, partition) DO NOTHING;
    INSERT INTO streamhouse_internal.transaction_groups (producer_id, group_id)
    SELECT p_producer_id, w.group_id FROM unnest(p_group_ids) AS w (group_id)
    ON CONFLICT (producer_id, group_id) DO NOTHING;
    RETURN verdict;
END
$function$;
