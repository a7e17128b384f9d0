"""The rows of the table of access: APIs of producers and their transactions."""

from typing import Final

from protocol.acl import Operation, ResourceType
from tests.broker.security.access_rows import (
    OFFSETS,
    WHO,
    WHO_BEFORE,
    G,
    Need,
    Row,
    T,
    X,
    on_cluster,
    on_group,
    on_topic,
    on_txn,
    seen,
)

READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE
PARTITION_AT: Final = "topics.0.partitions.0.error_code"
MARKER_AT: Final = "markers.0.topics.0.partitions.0.error_code"
MARKERS: Final = {
    "markers": [
        {
            "producer_id": WHO["producer_id"],
            "producer_epoch": WHO["producer_epoch"],
            "topics": [{"name": T, "partition_indexes": [0]}],
        }
    ]
}

TRANSACTION_ROWS: Final = (
    Row(
        api_key=22,
        values={"transactional_id": X, "transaction_timeout": 60_000},
        needs=(on_txn(WRITE, "error_code"),),
        changes=True,
    ),
    Row(
        api_key=22,
        name="of an idempotent producer",
        values={"transactional_id": None},
        needs=(on_cluster(Operation.IDEMPOTENT_WRITE),),
    ),
    Row(
        api_key=22,
        name="of one that may write any topic",
        values={"transactional_id": None},
        needs=(
            Need(
                operation=WRITE,
                resource_type=ResourceType.TOPIC,
                name=T,
                at="error_code",
                code=on_cluster(WRITE).code,
            ),
        ),
    ),
    Row(
        api_key=24,
        values=WHO_BEFORE | {"v3_and_below_topics": [{"name": T, "partitions": [0]}]},
        needs=tuple(
            need(
                WRITE, "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code"
            )
            for need in (on_txn, on_topic)
        ),
        version=3,
        changes=True,
    ),
    Row(
        api_key=24,
        name="as brokers ask",
        values={
            "transactions": [WHO | {"topics": [{"name": T, "partitions": [0]}]}],
        },
        needs=(on_cluster(Operation.CLUSTER_ACTION),),
        changes=True,
    ),
    Row(
        api_key=25,
        values=WHO | {"group_id": G},
        needs=(on_txn(WRITE, "error_code"), on_group(READ, "error_code")),
        changes=True,
    ),
    Row(
        api_key=26,
        values=WHO | {"committed": False},
        needs=(on_txn(WRITE, "error_code"),),
        changes=True,
        opens=True,
    ),
    Row(
        api_key=27,
        values=MARKERS,
        needs=(on_cluster(ALTER, MARKER_AT),),
        changes=True,
        opens=True,
    ),
    Row(
        api_key=27,
        name="as brokers ask",
        values=MARKERS,
        needs=(on_cluster(Operation.CLUSTER_ACTION, MARKER_AT),),
        changes=True,
        opens=True,
    ),
    Row(
        api_key=28,
        values=WHO | {"group_id": G, "generation_id": -1, "topics": OFFSETS},
        needs=(
            on_txn(WRITE, PARTITION_AT),
            on_group(READ, PARTITION_AT),
            on_topic(READ, PARTITION_AT),
        ),
        changes=True,
    ),
    Row(
        api_key=65,
        values={"transactional_ids": [X]},
        needs=(on_txn(DESCRIBE, "transaction_states.0.error_code"),),
        opens=True,  # one that is not open has no start time, which the codec does not read
    ),
    Row(api_key=66, needs=(seen(DESCRIBE, ResourceType.TRANSACTIONAL_ID, X),)),
)
