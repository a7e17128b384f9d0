-- The tables behind the log (D1, D5, D6). They belong to the broker; people read schema streamhouse.
-- Every name is qualified, so nothing depends on a search_path, which a pooler would lose.
-- No sequence orders anything: sequences are taken out of commit order.

CREATE SCHEMA streamhouse;

-- One row. metadata_version is taken, first of all, by whatever changes a topic, and held to its
-- commit: so versions become visible in ascending order, and nobody who asks for "what is newer than
-- the version I saw" misses a change.
CREATE TABLE streamhouse_internal.cluster (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    cluster_id text NOT NULL,
    metadata_version bigint NOT NULL DEFAULT 0,
    next_producer_id bigint NOT NULL DEFAULT 0
);

-- 16 random bytes in base64url, like every Kafka cluster id. None begins with '-', because command
-- line tools would take it for an option.
INSERT INTO streamhouse_internal.cluster (cluster_id)
SELECT regexp_replace(
    rtrim(translate(encode(uuid_send(gen_random_uuid()), 'base64'), '+/', '-_'), '='), '^-', 'A'
);

CREATE TABLE streamhouse_internal.topics (
    topic_id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    partition_count int NOT NULL CHECK (partition_count > 0),
    replication_factor int NOT NULL,
    configs jsonb NOT NULL,
    version bigint NOT NULL
);
CREATE INDEX topics_version ON streamhouse_internal.topics (version);

-- What is gone, so that other brokers forget it, too.
CREATE TABLE streamhouse_internal.topics_deleted (
    topic_id uuid PRIMARY KEY,
    version bigint NOT NULL,
    deleted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX topics_deleted_version ON streamhouse_internal.topics_deleted (version);

-- The row that a commit locks; whoever changes segments or producers of a partition locks it first.
-- Nothing that changes is indexed and pages have room, so an update stays in its page (HOT).
CREATE TABLE streamhouse_internal.partitions (
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    log_start_offset bigint NOT NULL DEFAULT 0,
    high_watermark bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, partition),
    CHECK (0 <= log_start_offset AND log_start_offset <= high_watermark)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- An upload's life: pending (reserved, before the PUT) -> live (committed) or doomed (given up by the
-- sweeper). Both are conditional changes of this one row, so exactly one happens. The three arrays are
-- the answer of the commit, an element per batch, given again to whoever repeats it.
CREATE TABLE streamhouse_internal.objects (
    object_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    path text COLLATE "C" NOT NULL UNIQUE,
    state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'live', 'doomed')),
    size bigint,
    created_at timestamptz NOT NULL DEFAULT now(),
    outcomes smallint[],
    base_offsets bigint[],
    log_start_offsets bigint[]
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);
CREATE INDEX objects_not_live ON streamhouse_internal.objects (created_at) WHERE state <> 'live';

-- Which bytes of which object hold which offsets; end_offset is inclusive. The key answers "from this
-- offset on" with one descent, for all tiers.
CREATE TABLE streamhouse_internal.segments (
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    object_id bigint NOT NULL,
    byte_start bigint NOT NULL,
    byte_length bigint NOT NULL,
    max_timestamp_ms bigint NOT NULL,
    PRIMARY KEY (topic_id, partition, end_offset)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 10000
);
CREATE INDEX segments_object ON streamhouse_internal.segments (object_id);

-- An idempotent producer's state in one partition (KIP-98): its last five batches as a ring of five
-- slots, the oldest at next_slot; -1 is an empty slot. Guarded by the lock of the partition's row.
CREATE TABLE streamhouse_internal.producers (
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    producer_id bigint NOT NULL,
    producer_epoch int NOT NULL,
    last_sequence int NOT NULL,
    next_slot int NOT NULL CHECK (next_slot BETWEEN 1 AND 5),
    first_sequences int[] NOT NULL,
    last_sequences int[] NOT NULL,
    base_offsets bigint[] NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (topic_id, partition, producer_id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
