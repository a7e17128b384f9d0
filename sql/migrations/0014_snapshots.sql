-- Snapshots: one moment of several topics, written down, so that it can be read again (asOf).
--
-- A snapshot holds nothing back. Retention, DeleteRecords, compaction and the deletion of topics take
-- records as if it were not there; who reads it later is told what has gone (find_snapshot_partitions).
-- Nobody but create_snapshot removes what has expired: where no snapshot is made, none is added, either.

-- snapshot_id begins with a letter, so that it is never taken for a time. expires_at: from then on it
-- cannot be read any more; null: only delete_snapshot ends it.
CREATE TABLE streamhouse_internal.snapshots (
    snapshot_id text COLLATE "C" PRIMARY KEY CHECK (snapshot_id ~ '^[A-Za-z][A-Za-z0-9._-]{0,99}$'),
    created_at timestamptz NOT NULL,
    expires_at timestamptz
);
CREATE INDEX snapshots_expiry ON streamhouse_internal.snapshots (expires_at);

-- Where each partition began and ended (both offsets as in partitions). topic: its name at that moment,
-- which outlives it; topic_id tells it from a topic that is made again under the name.
CREATE TABLE streamhouse_internal.snapshot_partitions (
    snapshot_id text COLLATE "C" NOT NULL
        REFERENCES streamhouse_internal.snapshots ON DELETE CASCADE,
    topic text COLLATE "C" NOT NULL,
    partition int NOT NULL,
    topic_id uuid NOT NULL,
    log_start_offset bigint NOT NULL,
    high_watermark bigint NOT NULL,
    PRIMARY KEY (snapshot_id, topic, partition)
);

-- What was open: the producer's records from first_offset to the high watermark are not part of what was
-- committed then, whatever became of the transaction later.
CREATE TABLE streamhouse_internal.snapshot_transactions (
    snapshot_id text COLLATE "C" NOT NULL
        REFERENCES streamhouse_internal.snapshots ON DELETE CASCADE,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    producer_id bigint NOT NULL,
    first_offset bigint NOT NULL,
    PRIMARY KEY (snapshot_id, topic_id, partition, producer_id)
);

-- Write down where all partitions of some topics (all topics, if p_topics is null) are at one moment.
-- p_retention: how long it can be read; null: until it is deleted. created_at is null, and nothing is
-- written, if there is a snapshot of that id, or if topics are missing: those are named.
--
-- The moment is one statement, hence one snapshot of Postgres: what any transaction of the database has
-- committed to all of these partitions is in it, or nothing of it. That is why there are three inserts in
-- one statement, and why where a transaction of a producer was open is written down, and not just where
-- the last stable offset was: that stands still in one partition, and not in another, for the sake of
-- somebody else's transaction, and so would cut one in two that has ended.
CREATE FUNCTION streamhouse_internal.create_snapshot(
    p_snapshot_id text, p_topics text[], p_retention interval,
    OUT created_at timestamptz, OUT partition_count int, OUT missing text[]
)
LANGUAGE plpgsql VOLATILE
AS $function$
DECLARE
    right_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    DELETE FROM streamhouse_internal.snapshots AS s WHERE s.ctid = ANY (ARRAY(
        SELECT f.ctid FROM streamhouse_internal.snapshots AS f
        WHERE f.expires_at <= right_now
        ORDER BY f.snapshot_id <> p_snapshot_id, f.expires_at
        LIMIT 100  -- the next call goes on, and adds but one
        FOR UPDATE SKIP LOCKED
    ));

    WITH wanted AS (
        SELECT t.topic_id, t.name
        FROM streamhouse_internal.topics AS t
        WHERE p_topics IS NULL OR t.name = ANY (p_topics)
    ), absent AS (
        SELECT coalesce(array_agg(DISTINCT n.name ORDER BY n.name), '{}') AS names
        FROM unnest(p_topics) AS n (name)
        WHERE NOT EXISTS (SELECT FROM wanted AS w WHERE w.name = n.name COLLATE "C")
    ), made AS (
        INSERT INTO streamhouse_internal.snapshots AS s (snapshot_id, created_at, expires_at)
        SELECT p_snapshot_id, right_now, right_now + p_retention
        FROM absent AS a
        WHERE a.names = '{}'
        ON CONFLICT (snapshot_id) DO NOTHING
        RETURNING s.snapshot_id, s.created_at
    ), cut AS (
        INSERT INTO streamhouse_internal.snapshot_partitions AS s (
            snapshot_id, topic, partition, topic_id, log_start_offset, high_watermark
        )
        SELECT m.snapshot_id, w.name, p.partition, p.topic_id, p.log_start_offset, p.high_watermark
        FROM made AS m
        CROSS JOIN wanted AS w
        JOIN streamhouse_internal.partitions AS p ON p.topic_id = w.topic_id
        RETURNING s.partition
    ), unfinished AS (
        INSERT INTO streamhouse_internal.snapshot_transactions (
            snapshot_id, topic_id, partition, producer_id, first_offset
        )
        SELECT m.snapshot_id, t.topic_id, t.partition, t.producer_id, t.first_offset
        FROM made AS m
        CROSS JOIN wanted AS w
        JOIN streamhouse_internal.transaction_partitions AS t ON t.topic_id = w.topic_id
        WHERE t.first_offset IS NOT NULL
    )
    SELECT (SELECT m.created_at FROM made AS m), (SELECT count(*) FROM cut), a.names
    INTO created_at, partition_count, missing
    FROM absent AS a;
END
$function$;

-- Forget a snapshot; false if there is none of that id.
CREATE FUNCTION streamhouse_internal.delete_snapshot(p_snapshot_id text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
AS $function$
BEGIN
    DELETE FROM streamhouse_internal.snapshots AS s WHERE s.snapshot_id = p_snapshot_id;
    RETURN FOUND;
END
$function$;

-- The partitions of a snapshot that has not expired, by topic and partition, with what has become of
-- them. first_offset: from where on its records are still there, null if the topic was deleted.
-- compacted: records may have gone from behind that, too, because later ones have their keys: the
-- partition was compacted since, or somebody is at it.
CREATE FUNCTION streamhouse_internal.find_snapshot_partitions(p_snapshot_id text)
RETURNS TABLE (
    topic text, partition int, topic_id uuid, log_start_offset bigint, high_watermark bigint,
    first_offset bigint, compacted boolean
)
LANGUAGE sql STABLE
AS $function$
    SELECT
        c.topic, c.partition, c.topic_id, c.log_start_offset, c.high_watermark,
        p.log_start_offset,
        coalesce(p.compacted_at >= s.created_at, false) OR EXISTS (
            SELECT FROM streamhouse_internal.storage_tasks AS t
            WHERE t.kind = 'compact' AND t.topic_id = c.topic_id AND t.partition = c.partition
                AND t.claimed_until IS NOT NULL
        )
    FROM streamhouse_internal.snapshots AS s
    JOIN streamhouse_internal.snapshot_partitions AS c USING (snapshot_id)
    LEFT JOIN streamhouse_internal.partitions AS p
        ON p.topic_id = c.topic_id AND p.partition = c.partition
    WHERE s.snapshot_id = p_snapshot_id
        AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())
    ORDER BY c.topic, c.partition
$function$;

CREATE VIEW streamhouse.snapshots AS
SELECT
    s.snapshot_id, s.created_at, s.expires_at, c.topic, c.partition, c.log_start_offset,
    c.high_watermark, c.topic_id
FROM streamhouse_internal.snapshots AS s
JOIN streamhouse_internal.snapshot_partitions AS c USING (snapshot_id)
WHERE s.expires_at IS NULL OR s.expires_at > clock_timestamp();

COMMENT ON VIEW streamhouse.snapshots IS
    'One row per partition of each snapshot that can be read: where it began and ended at that moment '
    '(high_watermark is exclusive); a snapshot holds nothing back';
