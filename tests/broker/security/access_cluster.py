"""The rows of the table of access: APIs of the cluster and its users."""

import dataclasses
from typing import Final

from protocol.acl import Operation, Permission, ResourceType
from tests.broker.security.access_rows import (
    ELSEWHERE,
    NO_CODE,
    G,
    Need,
    Row,
    T,
    on_cluster,
)

READ: Final = Operation.READ
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE

ACL: Final = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": T,
    "resource_pattern_type": 3,
    "principal": "User:~",
    "host": "*",
    "operation": READ,
    "permission_type": Permission.ALLOW,
}
ACL_FILTER: Final = {
    "resource_type_filter": ResourceType.GROUP,
    "resource_name_filter": G,
    "pattern_type_filter": 3,
    "host_filter": ELSEWHERE,
    "operation": 1,
    "permission_type": 1,
}
CREDENTIAL: Final = {
    "name": "u-~",
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"salt of the test",
    "salted_password": b"x" * 32,
}
MOVED: Final = [{"name": T, "partitions": [{"partition_index": 0, "replicas": [0]}]}]


def told_operations(operation: Operation, without: int) -> Need:
    """Return an operation on the cluster, and which others are told without it."""
    need = on_cluster(operation, "cluster_authorized_operations")
    return dataclasses.replace(need, code=NO_CODE, hidden=without)


CLUSTER_ROWS: Final = (
    Row(api_key=29, values=ACL_FILTER, needs=(on_cluster(DESCRIBE),)),
    Row(
        api_key=30,
        values={"creations": [ACL]},
        needs=(on_cluster(ALTER, "results.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=31,
        values={"filters": [ACL_FILTER]},
        needs=(on_cluster(ALTER, "filter_results.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=34,
        values={"dirs": [{"path": "/d", "topics": [{"name": T, "partitions": [0]}]}]},
        needs=(on_cluster(ALTER, "results.0.partitions.0.error_code"),),
    ),
    Row(api_key=35, values={"topics": None}, needs=(on_cluster(DESCRIBE),)),
    Row(
        api_key=43,
        values={"topic_partitions": [{"topic": T, "partitions": [0]}], "timeout": 10_000},
        needs=(on_cluster(ALTER),),
    ),
    Row(api_key=45, values={"topics": MOVED, "timeout": 10_000}, needs=(on_cluster(ALTER),)),
    Row(api_key=46, values={"topics": None, "timeout": 10_000}, needs=(on_cluster(DESCRIBE),)),
    Row(api_key=48, needs=(on_cluster(Operation.DESCRIBE_CONFIGS),)),
    Row(
        api_key=49,
        values={
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u-~"}],
                    "ops": [{"key": "producer_byte_rate", "value": 4711.0}],
                }
            ]
        },
        needs=(on_cluster(Operation.ALTER_CONFIGS, "entries.0.error_code"),),
        changes=True,
    ),
    Row(api_key=50, needs=(on_cluster(DESCRIBE),)),
    Row(
        api_key=51,
        values={"deletions": [], "upsertions": [CREDENTIAL]},
        needs=(on_cluster(ALTER, "results.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=55,
        values={
            "topics": [
                {
                    "topic_name": "__cluster_metadata",
                    "partitions": [{"partition_index": 0}],
                }
            ]
        },
        needs=(on_cluster(DESCRIBE),),
    ),
    Row(api_key=57, values={"timeout": 10_000}, needs=(on_cluster(ALTER),)),
    Row(
        api_key=60,
        values={"include_cluster_authorized_operations": True},
        needs=(
            told_operations(DESCRIBE, 0),
            told_operations(Operation.CREATE, 1 << DESCRIBE),
        ),
    ),
    Row(api_key=64, values={"broker_id": 4711}, needs=(on_cluster(ALTER),)),
    Row(api_key=74, needs=(on_cluster(Operation.DESCRIBE_CONFIGS),)),
)
