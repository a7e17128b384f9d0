"""What topics are like: Metadata, DescribeTopicPartitions."""

from typing import Any, Final

from tests.oracle.corpus_topics import METADATA, NO_SUCH_ID, describe, metadata
from tests.oracle.wire_cases import COMMON, PAIR, Step, ask, case, topic, topic_id
from tests.oracle.wire_values import NULL

DESCRIBE_TOPIC_PARTITIONS: Final = 75


METADATA_CASES: Final = (
    case(METADATA, "a topic", topic(partitions=3), describe("t-~")),
    case(
        METADATA,
        "topics in the order asked for",
        topic("b-~"),
        topic("a-~"),
        describe("b-~", "a-~"),
    ),
    case(METADATA, "the same topic twice", COMMON, describe("t-~", "t-~")),
    case(METADATA, "an unknown topic", describe("no-~")),
    case(METADATA, "known and unknown", COMMON, describe("no-~", "t-~")),
    case(METADATA, "invalid names", describe("a b-~"), describe(""), describe("x" * 250)),
    case(
        METADATA,
        "an invalid name to be made",
        describe("a b-~", allow_auto_topic_creation=True),
    ),
    case(
        METADATA,
        "made when asked for",
        describe("t-~", allow_auto_topic_creation=True),
        describe("t-~", until={"topics.0.partitions.0.error_code": 0}),
    ),
    case(METADATA, "all topics", topic(), metadata(topics=[], own=["topics"]), versions=(0,)),
    case(
        METADATA,
        "all topics by null",
        topic(),
        metadata(topics=None, own=["topics"]),
        versions=(1, 13),
    ),
    case(METADATA, "no topics", metadata(topics=[]), versions=(1, 13)),
    case(METADATA, "null topics", metadata(topics=NULL), versions=(0,)),
    case(METADATA, "null name", metadata(topics=[{"name": NULL}]), versions=(0, 9)),
    case(
        METADATA,
        "a null name without an id",
        metadata(topics=[{"name": None}]),
        versions=(10, 13),
    ),
    case(
        METADATA,
        "authorized operations",
        COMMON,
        describe(
            "t-~",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        versions=(8, 10, 13),
    ),
    case(
        METADATA,
        "by id",
        COMMON,
        metadata(topics=[{"topic_id": topic_id(), "name": None}]),
        versions=(12, 13),
    ),
    case(
        METADATA,
        "by id and name",
        COMMON,
        metadata(topics=[{"topic_id": topic_id(), "name": "t-~"}]),
        metadata(topics=[{"topic_id": NO_SUCH_ID, "name": "t-~"}]),
        versions=(10, 11, 12, 13),
    ),
    case(
        METADATA,
        "by unknown id",
        metadata(topics=[{"topic_id": NO_SUCH_ID, "name": None}]),
        versions=(12, 13),
    ),
    case(
        METADATA,
        "by ids known and unknown",
        COMMON,
        metadata(topics=[{"topic_id": NO_SUCH_ID}, {"topic_id": topic_id()}]),
        versions=(12, 13),
    ),
    case(
        METADATA,
        "by id and by name in one request",
        topic(),
        topic("u-~"),
        metadata(topics=[{"topic_id": topic_id()}, {"name": "u-~"}]),
        versions=(12, 13),
    ),
)


def _pages(*names: str, **said: Any) -> Step:
    fields = {"topics": [{"name": name} for name in names], "response_partition_limit": 2000}
    return ask(DESCRIBE_TOPIC_PARTITIONS, **{**fields, **said})


def _from(name: str, index: int) -> dict[str, object]:
    return {"topic_name": name, "partition_index": index}


PAGE_CASES: Final = (
    case(DESCRIBE_TOPIC_PARTITIONS, "a topic", topic(partitions=3), _pages("t-~")),
    case(
        DESCRIBE_TOPIC_PARTITIONS,
        "sorted by name",
        topic("b-~"),
        topic("a-~"),
        _pages("b-~", "a-~"),
    ),
    case(DESCRIBE_TOPIC_PARTITIONS, "an unknown topic", COMMON, _pages("t-~", "no-~")),
    case(DESCRIBE_TOPIC_PARTITIONS, "invalid names", _pages("a b-~", "")),
    case(DESCRIBE_TOPIC_PARTITIONS, "the same topic twice", COMMON, _pages("t-~", "t-~")),
    case(
        DESCRIBE_TOPIC_PARTITIONS,
        "pages of two",
        topic("a-~", partitions=3),
        topic("b-~", partitions=2),
        _pages("a-~", "b-~", response_partition_limit=2),
        _pages("a-~", "b-~", response_partition_limit=2, cursor=_from("a-~", 2)),
        _pages("a-~", "b-~", response_partition_limit=2, cursor=_from("b-~", 1)),
    ),
    case(
        DESCRIBE_TOPIC_PARTITIONS,
        "a page that ends with a topic",
        topic("a-~", partitions=2),
        topic("b-~"),
        _pages("a-~", "b-~", response_partition_limit=2),
    ),
    case(
        DESCRIBE_TOPIC_PARTITIONS,
        "a limit of nothing and less",
        COMMON,
        _pages("t-~", response_partition_limit=0),
        _pages("t-~", response_partition_limit=-1),
    ),
    case(
        DESCRIBE_TOPIC_PARTITIONS,
        "cursors that are off",
        PAIR,
        _pages("t-~", cursor=_from("t-~", 5)),
        _pages("t-~", cursor=_from("t-~", -1)),
        _pages("t-~", cursor=_from("zz-~", 0)),
        _pages("t-~", cursor=_from("aa-~", 0)),
        _pages("t-~", cursor=_from("", 0)),
    ),
    case(DESCRIBE_TOPIC_PARTITIONS, "null topics", _pages(topics=NULL)),
    case(DESCRIBE_TOPIC_PARTITIONS, "null name", _pages(topics=[{"name": NULL}])),
)

CASES: Final = METADATA_CASES + PAGE_CASES
