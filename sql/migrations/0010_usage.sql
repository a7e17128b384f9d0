-- What topics and clients ask of the object store, added up by hour: what it costs, and whom.

-- topic: the name of topic_id when it was counted last; topic_id is nil, and topic empty, for what was
-- done for no topic in particular. puts and gets may have fractions: a request that served several is
-- shared out. The key begins with the hour: nothing is looked for but the latest hours, and the oldest.
CREATE TABLE streamhouse_internal.usage (
    hour timestamptz NOT NULL,
    topic_id uuid NOT NULL,
    client_id text COLLATE "C" NOT NULL,
    topic text COLLATE "C" NOT NULL,
    puts double precision NOT NULL,
    put_bytes bigint NOT NULL,
    gets double precision NOT NULL,
    get_bytes bigint NOT NULL,
    lists double precision NOT NULL,
    deletes double precision NOT NULL,
    produced_bytes bigint NOT NULL,
    fetched_bytes bigint NOT NULL,
    PRIMARY KEY (hour, topic_id, client_id)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000
);

CREATE VIEW streamhouse.usage AS
SELECT
    hour, topic, client_id, puts, put_bytes, gets, get_bytes, lists, deletes, produced_bytes,
    fetched_bytes, topic_id
FROM streamhouse_internal.usage;

COMMENT ON VIEW streamhouse.usage IS
    'Object store requests, bytes produced and fetched, by hour, topic and client; kept for 400 days';
