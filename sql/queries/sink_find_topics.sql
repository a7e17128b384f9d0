-- Topics of some names, as who writes to them needs them; those that do not exist are left out.
-- leader_epochs: of their partitions, from 0 on. defaults: what is set for all brokers.
-- $1 name text[].
SELECT
    t.topic_id, t.name, t.configs, p.leader_epochs,
    coalesce(
        (
            SELECT e.configs FROM streamhouse_internal.entity_configs AS e
            WHERE e.kind = 'broker' AND e.name = ''
        ),
        '{}'
    ) AS defaults
FROM unnest($1::text[]) AS w (name)
CROSS JOIN LATERAL (
    SELECT found.topic_id, found.name, found.configs
    FROM streamhouse_internal.topics AS found
    WHERE found.name = w.name
    OFFSET 0  -- by key, whatever the planner thinks of the table's size
) AS t
CROSS JOIN LATERAL (
    SELECT array_agg(found.leader_epoch ORDER BY found.partition) AS leader_epochs
    FROM streamhouse_internal.partitions AS found
    WHERE found.topic_id = t.topic_id
) AS p
WHERE p.leader_epochs IS NOT NULL  -- deleted between the two looks
