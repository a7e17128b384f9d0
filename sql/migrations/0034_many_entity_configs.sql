-- Of entities that exist, each one's change was looked up among all that were changed with it: more than
-- some thousands could not be changed at once before statement_timeout, and all changes of configs
-- waited for each try.

-- One change for each place of the arrays, no two of the same entity: a string sets, null unsets; where
-- p_replace is true, all that is not named is unset. Where p_expected is not null, that is all that has to
-- be set of the entity as yet: no row, and nothing is changed, if something else is set of any of them.
-- It takes the cluster's row first, as changes of topics do: changes have the order of their versions,
-- never deadlock, and what is set stays as it is read here until it is changed.
CREATE OR REPLACE FUNCTION streamhouse_internal.alter_entity_configs(
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
    SELECT n.kind, n.name, jsonb_strip_nulls(
        CASE WHEN n.replaced THEN n.changes ELSE coalesce(o.configs, '{}') || n.changes END
    ), altered_version
    FROM unnest(p_kinds, p_names, p_changes, p_replace) AS n (kind, name, changes, replaced)
    LEFT JOIN streamhouse_internal.entity_configs AS o ON o.kind = n.kind AND o.name = n.name
    ON CONFLICT (kind, name) DO UPDATE SET configs = excluded.configs, version = excluded.version
    RETURNING e.*;
END
$function$;
