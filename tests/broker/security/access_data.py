"""The rows of the table of access: APIs of records."""

from typing import Final

from protocol.acl import Operation, ResourceType
from tests.broker.security.access_rows import (
    NEW,
    TRANSACTIONAL,
    Row,
    T,
    X,
    by_cluster,
    on_topic,
    on_txn,
    produced,
    seen,
)
from tests.oracle.wire_values import Batch

READ: Final = Operation.READ
WRITE: Final = Operation.WRITE
CREATE: Final = Operation.CREATE
DELETE: Final = Operation.DELETE
DESCRIBE: Final = Operation.DESCRIBE
PRODUCED_AT: Final = "responses.0.partition_responses.0.error_code"
PARTITION_AT: Final = "topics.0.partitions.0.error_code"

DATA_ROWS: Final = (
    Row(
        api_key=0,
        values=produced(Batch()),
        needs=(on_topic(WRITE, PRODUCED_AT),),
        version=12,
        changes=True,
    ),
    Row(
        api_key=0,
        name="in a transaction",
        values=produced(TRANSACTIONAL, transactional_id=X),
        needs=(on_txn(WRITE, PRODUCED_AT), on_topic(WRITE, PRODUCED_AT)),
        version=12,
        changes=True,
    ),
    Row(
        api_key=1,
        values={
            "max_bytes": 1000,
            "session_epoch": -1,
            "topics": [{"topic": T, "partitions": [{"partition_max_bytes": 1000}]}],
        },
        needs=(on_topic(READ, "responses.0.partitions.0.error_code"),),
        version=12,
    ),
    Row(
        api_key=2,
        values={"replica_id": -1, "topics": [{"name": T, "partitions": [{"timestamp": -1}]}]},
        needs=(on_topic(DESCRIBE, PARTITION_AT),),
    ),
    Row(
        api_key=3,
        values={"topics": [{"name": T}]},
        needs=(on_topic(DESCRIBE, "topics.0.error_code"),),
    ),
    Row(
        api_key=3,
        name="of all",
        values={"topics": None},
        needs=(seen(DESCRIBE, ResourceType.TOPIC, T),),
    ),
    Row(
        api_key=3,
        name="that makes a topic",
        values={"topics": [{"name": NEW}], "allow_auto_topic_creation": True},
        needs=(
            on_topic(DESCRIBE, "topics.0.error_code", NEW),
            on_topic(CREATE, "topics.0.error_code", NEW),
        ),
        changes=True,
    ),
    Row(
        api_key=3,
        name="that makes a topic as the cluster allows",
        values={"topics": [{"name": NEW}], "allow_auto_topic_creation": True},
        needs=(
            on_topic(DESCRIBE, "topics.0.error_code", NEW),
            by_cluster(CREATE, "topics.0.error_code"),
        ),
        changes=True,
    ),
    Row(
        api_key=21,
        values={"topics": [{"name": T, "partitions": [{"offset": 1}]}], "timeout": 10_000},
        needs=(on_topic(DELETE, PARTITION_AT),),
        changes=True,
    ),
    Row(
        api_key=23,
        values={"replica_id": -1, "topics": [{"topic": T, "partitions": [{"leader_epoch": 0}]}]},
        needs=(on_topic(DESCRIBE, PARTITION_AT),),
    ),
    Row(
        api_key=61,
        values={"topics": [{"name": T, "partition_indexes": [0]}]},
        needs=(on_topic(READ, PARTITION_AT),),
    ),
    Row(
        api_key=75,
        values={"topics": [{"name": T}], "response_partition_limit": 10},
        needs=(on_topic(DESCRIBE, "topics.0.error_code"),),
    ),
    Row(
        api_key=75,
        name="of all",
        values={"response_partition_limit": 10},
        needs=(seen(DESCRIBE, ResourceType.TOPIC, T),),
    ),
)
