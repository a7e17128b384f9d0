-- What was set while the cluster runs, of everything but topics: configs of brokers, groups and client
-- metrics, quotas, credentials.

-- kind and name: see storage/entity_configs.py. configs: by name, all values are strings. An entity of
-- which everything was unset stays, empty, so that its change has a version that others can ask for.
CREATE TABLE streamhouse_internal.entity_configs (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    configs jsonb NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE INDEX entity_configs_version ON streamhouse_internal.entity_configs (version);

-- One change for each place of the arrays, no two of the same entity: a string sets, null unsets; where
-- p_replace is true, all that is not named is unset. It takes the cluster's row first, as changes of
-- topics do: changes have the order of their versions, and never deadlock.
CREATE FUNCTION streamhouse_internal.alter_entity_configs(
    p_kinds text[], p_names text[], p_changes jsonb[], p_replace boolean[]
) RETURNS SETOF streamhouse_internal.entity_configs
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    altered_version bigint := streamhouse_internal.next_version();
BEGIN
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

CREATE VIEW streamhouse.entity_configs AS
SELECT kind, name, configs
FROM streamhouse_internal.entity_configs
WHERE kind <> 'scram' AND configs <> '{}';

COMMENT ON VIEW streamhouse.entity_configs IS
    'What is set of brokers, groups, client metrics and quotas while the cluster runs';
