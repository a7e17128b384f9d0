-- The version of the metadata, and the entities whose configs changed after version $1 (bigint), as they
-- are now. One row with a null kind if none did. A single statement, so both are of one moment. server:
-- see topic_find_changes.
SELECT
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server,
    c.metadata_version, e.kind, e.name, e.configs
FROM streamhouse_internal.cluster AS c
LEFT JOIN streamhouse_internal.entity_configs AS e ON e.version > $1::bigint
