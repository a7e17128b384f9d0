-- Changes of topics. Each takes the cluster's row before it looks at anything, so such changes happen
-- one after the other, in the order of their versions, and never deadlock.

CREATE FUNCTION streamhouse_internal.next_version() RETURNS bigint
LANGUAGE sql VOLATILE
AS $function$
    UPDATE streamhouse_internal.cluster SET metadata_version = metadata_version + 1
    RETURNING metadata_version;
$function$;

-- No row if a topic has that name.
CREATE FUNCTION streamhouse_internal.create_topic(
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
    INSERT INTO streamhouse_internal.partitions (topic_id, partition)
    SELECT created.topic_id, generate_series(0, p_partition_count - 1);
    RETURN NEXT created;
END
$function$;

-- False if there is no such topic. Most of the index goes before anything is locked that others wait
-- for; what was committed meanwhile goes after, under the locks. Others see all of it, or nothing.
CREATE FUNCTION streamhouse_internal.delete_topic(p_topic_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    deleted_version bigint;
BEGIN
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    deleted_version := streamhouse_internal.next_version();
    DELETE FROM streamhouse_internal.topics WHERE topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id
    ORDER BY partition  -- as commits do: no deadlock
    FOR UPDATE;
    DELETE FROM streamhouse_internal.segments WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.producers WHERE topic_id = p_topic_id;
    DELETE FROM streamhouse_internal.partitions WHERE topic_id = p_topic_id;
    INSERT INTO streamhouse_internal.topics_deleted (topic_id, version)
    VALUES (p_topic_id, deleted_version);
    RETURN true;
END
$function$;

-- No row if there is no such topic; grown is false if it has that many partitions, or more.
CREATE FUNCTION streamhouse_internal.add_partitions(
    p_topic_id uuid, p_partition_count int, OUT grown boolean, OUT topic streamhouse_internal.topics
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    grown_version bigint := streamhouse_internal.next_version();
    old_count int;
BEGIN
    SELECT t.partition_count INTO old_count
    FROM streamhouse_internal.topics AS t WHERE t.topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    grown := old_count < p_partition_count;
    IF grown THEN
        INSERT INTO streamhouse_internal.partitions (topic_id, partition)
        SELECT p_topic_id, generate_series(old_count, p_partition_count - 1);
        UPDATE streamhouse_internal.topics AS t
        SET partition_count = p_partition_count, version = grown_version
        WHERE t.topic_id = p_topic_id
        RETURNING t.* INTO topic;
    END IF;
    RETURN NEXT;
END
$function$;

-- p_changes: a string sets, null unsets; p_replace unsets all that is not named. No row if there is no
-- such topic.
CREATE FUNCTION streamhouse_internal.alter_topic_configs(
    p_topic_id uuid, p_changes jsonb, p_replace boolean
) RETURNS SETOF streamhouse_internal.topics
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    altered_version bigint := streamhouse_internal.next_version();
BEGIN
    RETURN QUERY
    UPDATE streamhouse_internal.topics AS t
    SET configs = jsonb_strip_nulls(
            CASE WHEN p_replace THEN p_changes ELSE t.configs || p_changes END
        ),
        version = altered_version
    WHERE t.topic_id = p_topic_id
    RETURNING t.*;
END
$function$;
