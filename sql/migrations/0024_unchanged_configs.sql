-- What is set often follows from what was set: an item that is added to a list, a value that must not be
-- more than another. Of two such changes at a time the later one rested on what was gone by then, and
-- undid the earlier one. So a change may say what it rests on, and is not made if that has changed.

-- p_changes: a string sets, null unsets; p_replace unsets all that is not named. p_expected: all that has
-- to be set of the topic as yet; null is whatever is. altered is false, and the topic is as it was, if
-- something else is set. No row if there is no such topic.
DROP FUNCTION streamhouse_internal.alter_topic_configs(uuid, jsonb, boolean);
CREATE FUNCTION streamhouse_internal.alter_topic_configs(
    p_topic_id uuid, p_changes jsonb, p_replace boolean, p_expected jsonb,
    OUT altered boolean, OUT topic streamhouse_internal.topics
) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    SELECT t.* INTO topic FROM streamhouse_internal.topics AS t WHERE t.topic_id = p_topic_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    altered := p_expected IS NULL OR topic.configs = p_expected;
    IF altered THEN
        UPDATE streamhouse_internal.topics AS t
        SET configs = jsonb_strip_nulls(
                CASE WHEN p_replace THEN p_changes ELSE t.configs || p_changes END
            ),
            version = streamhouse_internal.next_version()
        WHERE t.topic_id = p_topic_id
        RETURNING t.* INTO topic;
    END IF;
    RETURN NEXT;
END
$function$;

-- One change for each place of the arrays, no two of the same entity: a string sets, null unsets; where
-- p_replace is true, all that is not named is unset. Where p_expected is not null, that is all that has to
-- be set of the entity as yet: no row, and nothing is changed, if something else is set of any of them.
-- It takes the cluster's row first, as changes of topics do: changes have the order of their versions,
-- and never deadlock.
DROP FUNCTION streamhouse_internal.alter_entity_configs(text[], text[], jsonb[], boolean[]);
CREATE FUNCTION streamhouse_internal.alter_entity_configs(
    p_kinds text[], p_names text[], p_changes jsonb[], p_replace boolean[], p_expected jsonb[]
) RETURNS SETOF streamhouse_internal.entity_configs
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    altered_version bigint;
BEGIN
    PERFORM FROM streamhouse_internal.cluster FOR UPDATE;
    IF EXISTS (
        SELECT FROM unnest(p_kinds, p_names, p_expected) AS n (kind, name, expected)
        LEFT JOIN streamhouse_internal.entity_configs AS e ON e.kind = n.kind AND e.name = n.name
        WHERE n.expected <> coalesce(e.configs, '{}')
    ) THEN
        RETURN;
    END IF;
    altered_version := streamhouse_internal.next_version();
    RETURN QUERY
    INSERT INTO streamhouse_internal.entity_configs AS e (kind, name, configs, version)
    SELECT n.kind, n.name, jsonb_strip_nulls(n.changes), altered_version
    FROM unnest(p_kinds, p_names, p_changes, p_replace) AS n (kind, name, changes, replaced)
    ON CONFLICT (kind, name) DO UPDATE SET
        configs = (
            SELECT jsonb_strip_nulls(
                CASE WHEN n.replaced THEN n.changes ELSE e.configs || n.changes END
            )
            FROM unnest(p_kinds, p_names, p_changes, p_replace) AS n (kind, name, changes, replaced)
            WHERE n.kind = e.kind AND n.name = e.name
        ),
        version = altered_version
    RETURNING e.*;
END
$function$;
