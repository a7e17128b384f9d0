-- The version of the metadata and what changed after version $1 (bigint): a topic as it is now, or
-- only the id of a deleted one. One row with a null topic_id if nothing did. A single statement, so
-- version and topics are of one moment. server: when it was started, microseconds; so a standby that
-- took over is another one. (What tells its timeline, not every hosted Postgres has.)
SELECT
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS server,
    c.metadata_version, t.topic_id, t.deleted, t.name, t.partition_count, t.replication_factor,
    t.configs
FROM streamhouse_internal.cluster AS c
LEFT JOIN (
    SELECT
        changed.topic_id, false AS deleted, changed.name, changed.partition_count,
        changed.replication_factor, changed.configs
    FROM streamhouse_internal.topics AS changed
    WHERE changed.version > $1::bigint
    UNION ALL
    SELECT gone.topic_id, true, NULL, NULL, NULL, NULL
    FROM streamhouse_internal.topics_deleted AS gone
    WHERE gone.version > $1::bigint AND $1::bigint > 0  -- who knows nothing has nothing to forget
) AS t ON true
