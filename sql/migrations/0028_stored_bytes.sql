-- How many bytes each topic has in the object store by the index, and, without a topic, how many all
-- objects have. It reads every row of both, so as they lie there, not by key as sessions of brokers do:
-- along the key of segments each row is another page. Markers in the index itself take nothing of the
-- store.
CREATE FUNCTION streamhouse_internal.find_stored_bytes() RETURNS TABLE (topic text, size bigint)
LANGUAGE sql STABLE
SET enable_seqscan = on
AS $function$
    SELECT t.name, n.size
    FROM (
        SELECT s.topic_id, sum(s.byte_length + coalesce(s.index_length, 0))::bigint AS size
        FROM streamhouse_internal.segments AS s
        WHERE s.inline IS NULL
        GROUP BY s.topic_id
    ) AS n
    JOIN streamhouse_internal.topics AS t ON t.topic_id = n.topic_id
    UNION ALL
    SELECT NULL, coalesce(sum(o.size), 0)::bigint
    FROM streamhouse_internal.objects AS o;
$function$;
