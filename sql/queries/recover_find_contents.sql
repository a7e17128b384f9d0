-- How much a database holds of what would be mixed up with a recovered index; all 0 in an empty one.
SELECT
    (SELECT count(*) FROM streamhouse_internal.topics) AS topics,
    (SELECT count(*) FROM streamhouse_internal.topics_deleted) AS deleted_topics,
    (SELECT count(*) FROM streamhouse_internal.objects) AS objects,
    (SELECT count(*) FROM streamhouse_internal.groups) AS groups,
    (SELECT count(*) FROM streamhouse_internal.transactions) AS transactional_ids
