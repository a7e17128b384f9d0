"""The rows of the table of access: APIs of groups."""

from typing import Final

from protocol.acl import Operation, ResourceType
from tests.broker.security.access_rows import (
    NEW,
    G,
    Row,
    T,
    X,
    on_group,
    on_topic,
    on_txn,
    seen,
)

READ: Final = Operation.READ
DELETE: Final = Operation.DELETE
DESCRIBE: Final = Operation.DESCRIBE
PARTITION_AT: Final = "topics.0.partitions.0.error_code"

GROUP_ROWS: Final = (
    Row(
        api_key=8,
        values={
            "group_id": G,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": T, "partitions": [{"committed_offset": 0}]}],
        },
        needs=(on_group(READ, PARTITION_AT), on_topic(READ, PARTITION_AT)),
        version=9,
        changes=True,
    ),
    Row(
        api_key=9,
        values={
            "groups": [
                {
                    "group_id": G,
                    "member_epoch": -1,
                    "topics": [{"name": T, "partition_indexes": [0]}],
                }
            ]
        },
        needs=(
            on_group(DESCRIBE, "groups.0.error_code"),
            on_topic(DESCRIBE, "groups.0.topics.0.partitions.0.error_code"),
        ),
        version=9,
    ),
    Row(
        api_key=9,
        name="of all",
        values={"groups": [{"group_id": G, "member_epoch": -1, "topics": None}]},
        needs=(
            on_group(DESCRIBE, "groups.0.error_code"),
            seen(DESCRIBE, ResourceType.TOPIC, T),
        ),
        version=9,
    ),
    Row(
        api_key=10,
        values={"key_type": 0, "coordinator_keys": [G]},
        needs=(on_group(DESCRIBE, "coordinators.0.error_code"),),
    ),
    Row(
        api_key=10,
        name="of a transactional id",
        values={"key_type": 1, "coordinator_keys": [X]},
        needs=(on_txn(DESCRIBE, "coordinators.0.error_code"),),
    ),
    Row(
        api_key=11,
        values={
            "group_id": NEW,
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        },
        needs=(on_group(READ, "error_code", NEW),),
        version=3,
        changes=True,
    ),
    Row(
        api_key=12,
        values={"group_id": G, "generation_id": 1, "member_id": "m"},
        needs=(on_group(READ, "error_code"),),
    ),
    Row(
        api_key=13,
        values={"group_id": G, "members": [{"member_id": "m"}]},
        needs=(on_group(READ, "error_code"),),
    ),
    Row(
        api_key=14,
        values={
            "group_id": G,
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
        needs=(on_group(READ, "error_code"),),
    ),
    Row(
        api_key=15,
        values={"groups": [G]},
        needs=(on_group(DESCRIBE, "groups.0.error_code"),),
    ),
    Row(api_key=16, needs=(seen(DESCRIBE, ResourceType.GROUP, G),)),
    Row(
        api_key=42,
        values={"groups_names": [G]},
        needs=(on_group(DELETE, "results.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=47,
        values={"group_id": G, "topics": [{"name": T, "partitions": [{"partition_index": 0}]}]},
        needs=(on_group(DELETE, "error_code"), on_topic(READ, PARTITION_AT)),
        changes=True,
    ),
    Row(
        api_key=68,
        values={
            "group_id": NEW,
            "member_id": "m",
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": [T],
            "topic_partitions": [],
        },
        needs=(on_group(READ, "error_code", NEW), on_topic(DESCRIBE, "error_code")),
        changes=True,
    ),
    Row(
        api_key=69,
        values={"group_ids": [G]},
        needs=(on_group(DESCRIBE, "groups.0.error_code"),),
    ),
)
