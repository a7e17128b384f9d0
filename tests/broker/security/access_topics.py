"""The rows of the table of access: APIs of topics and configs."""

from typing import Final

from protocol.acl import Operation
from tests.broker.security.access_rows import (
    NEW,
    Row,
    T,
    by_cluster,
    on_cluster,
    on_topic,
)

CREATE: Final = Operation.CREATE
DELETE: Final = Operation.DELETE
ALTER: Final = Operation.ALTER
DESCRIBE: Final = Operation.DESCRIBE

TOPIC_ROWS: Final = (
    Row(
        api_key=19,
        values={
            "topics": [{"name": NEW, "num_partitions": 1, "replication_factor": 1}],
            "timeout": 10_000,
        },
        needs=(on_topic(CREATE, "topics.0.error_code", NEW),),
        version=4,  # later ones tell the configs, to those who may know them
        changes=True,
    ),
    Row(
        api_key=20,
        values={"topics": [{"name": T}], "timeout": 10_000},
        needs=(
            on_topic(DESCRIBE, "responses.0.error_code"),
            on_topic(DELETE, "responses.0.error_code"),
        ),
        changes=True,
    ),
    Row(
        api_key=20,
        name="as the cluster allows",
        values={"topics": [{"name": T}], "timeout": 10_000},
        needs=(by_cluster(DELETE, "responses.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=32,
        values={"resources": [{"resource_type": 2, "resource_name": T}]},
        needs=(on_topic(Operation.DESCRIBE_CONFIGS, "results.0.error_code"),),
    ),
    Row(
        api_key=32,
        name="of brokers",
        values={"resources": [{"resource_type": 4, "resource_name": ""}]},
        needs=(on_cluster(Operation.DESCRIBE_CONFIGS, "results.0.error_code"),),
    ),
    Row(
        api_key=33,
        values={
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": T,
                    "configs": [{"name": "retention.ms", "value": "4711000"}],
                }
            ]
        },
        needs=(on_topic(Operation.ALTER_CONFIGS, "responses.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=37,
        values={
            "topics": [{"name": T, "count": 2, "assignments": None}],
            "timeout": 10_000,
        },
        needs=(on_topic(ALTER, "results.0.error_code"),),
        changes=True,
    ),
    Row(
        api_key=44,
        values={
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": T,
                    "configs": [{"name": "retention.ms", "value": "4711000"}],
                }
            ]
        },
        needs=(on_topic(Operation.ALTER_CONFIGS, "responses.0.error_code"),),
        changes=True,
    ),
)
