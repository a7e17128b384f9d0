"""New topics: CreateTopics."""

from typing import Any, Final
from uuid import UUID

from tests.oracle.wire_cases import COMMON, PATIENT_MS, Case, Step, ask, case
from tests.oracle.wire_values import NULL, Null

METADATA: Final = 3
CREATE_TOPICS: Final = 19
NO_SUCH_ID: Final = UUID(int=0x1234_5678_9ABC_4DEF_8123_4567_89AB_CDEF)
LONGEST: Final = 249


def _new(name: str | Null = "t-~", **said: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1} | said


def _create(*topics: dict[str, Any], **said: Any) -> Step:
    return ask(CREATE_TOPICS, **{"topics": topics, "timeout": PATIENT_MS, **said})


def _config(name: str, value: object) -> list[dict[str, object]]:
    return [{"name": name, "value": value}]


def _assigned(*replicas: tuple[int, list[int]]) -> list[dict[str, object]]:
    return [{"partition_index": index, "broker_ids": brokers} for index, brokers in replicas]


def _refused(name: str, /, **said: Any) -> Case:
    """One topic with something wrong, really and as a dry run."""
    return case(
        CREATE_TOPICS, name, _create(_new(**said)), _create(_new(**said), validate_only=True)
    )


def metadata(**said: Any) -> Step:
    return ask(METADATA, **{"allow_auto_topic_creation": False, **said})


def describe(*names: str, **said: Any) -> Step:
    return metadata(**{"topics": [{"name": name} for name in names], **said})


CREATE_CASES: Final = (
    case(CREATE_TOPICS, "a topic", _create(_new())),
    case(CREATE_TOPICS, "a topic with many partitions", _create(_new(num_partitions=20))),
    case(
        CREATE_TOPICS,
        "defaults for partitions and replicas",
        _create(_new(num_partitions=-1, replication_factor=-1)),
    ),
    case(
        CREATE_TOPICS,
        "a topic with configs",
        _create(
            _new(
                configs=[
                    {"name": "cleanup.policy", "value": "compact"},
                    {"name": "retention.ms", "value": "86400000"},
                    {"name": "max.message.bytes", "value": "2000000"},
                ]
            )
        ),
    ),
    case(
        CREATE_TOPICS,
        "a dry run",
        _create(_new(), validate_only=True),
        describe("t-~"),
    ),
    case(CREATE_TOPICS, "an existing topic", COMMON, _create(_new())),
    case(
        CREATE_TOPICS,
        "an existing topic as a dry run",
        COMMON,
        _create(_new(), validate_only=True),
    ),
    case(CREATE_TOPICS, "good and bad together", _create(_new("a-~"), _new("b ~"), _new("c-~"))),
    case(
        CREATE_TOPICS,
        "too many partitions together",
        _create(_new("a-~", num_partitions=5_000), _new("b-~", num_partitions=5_000), _new("c-~")),
    ),
    case(CREATE_TOPICS, "no topics", _create()),
    case(CREATE_TOPICS, "the same name twice", _create(_new(), _new())),
    case(
        CREATE_TOPICS,
        "the same name twice and another",
        _create(_new(), _new(num_partitions=2), _new("u-~")),
    ),
    case(CREATE_TOPICS, "no time at all", _create(_new(), timeout=0)),
    case(CREATE_TOPICS, "negative time", _create(_new(), timeout=-1)),
    case(CREATE_TOPICS, "null topics", _create(topics=NULL)),
    case(CREATE_TOPICS, "null name", _create(_new(name=NULL))),
    case(CREATE_TOPICS, "null assignments", _create(_new(assignments=NULL))),
    case(CREATE_TOPICS, "null configs", _create(_new(configs=NULL))),
    case(
        CREATE_TOPICS, "names that clash in metrics", _create(_new("a.b-~")), _create(_new("a_b-~"))
    ),
    case(CREATE_TOPICS, "names that clash in one request", _create(_new("c.d-~"), _new("c_d-~"))),
    _refused("an empty name", name=""),
    _refused("a dot for a name", name="."),
    _refused("two dots for a name", name=".."),
    _refused("a name too long", name="x" * (LONGEST + 1)),
    _refused("a name with a space", name="a b-~"),
    _refused("a name with a slash", name="a/b-~"),
    _refused("a name beyond ASCII", name="tópico-~"),
    case(
        CREATE_TOPICS,
        "internal names",
        _create(_new("__consumer_offsets"), validate_only=True),
        _create(_new("__cluster_metadata"), validate_only=True),
    ),
    _refused("no partitions", num_partitions=0),
    _refused("negative partitions", num_partitions=-2),
    _refused("no replicas", replication_factor=0),
    _refused("negative replicas", replication_factor=-2),
    _refused("more replicas than brokers", replication_factor=3),
    _refused("an unknown config", configs=_config("no.such.config", "1")),
    _refused("a config out of range", configs=_config("retention.ms", "-2")),
    _refused("a config of another type", configs=_config("retention.ms", "soon")),
    _refused("a config with an unknown word", configs=_config("cleanup.policy", "shred")),
    _refused("a config without a value", configs=_config("retention.ms", None)),
    _refused("an empty config", configs=_config("retention.ms", "")),
    _refused("a config without a name", configs=_config("", "1")),
    _refused("a boolean that is none", configs=_config("preallocate", "yes")),
    _refused("more in-sync replicas than none", configs=_config("min.insync.replicas", "0")),
    _refused("an unknown codec", configs=_config("compression.type", "brotli")),
    _refused(
        "a config twice",
        configs=_config("retention.ms", "1000") + _config("retention.ms", "2000"),
    ),
    _refused("assignments and a count", assignments=_assigned((0, [1]))),
    _refused(
        "an unknown broker",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((0, [4711])),
    ),
    _refused(
        "a negative broker",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((0, [-1])),
    ),
    _refused(
        "a replica twice",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((0, [4711, 4711])),
    ),
    _refused(
        "a partition without replicas",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((0, [])),
    ),
    _refused(
        "a gap in the assignments",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((1, [4711])),
    ),
    _refused(
        "a partition assigned twice",
        num_partitions=-1,
        replication_factor=-1,
        assignments=_assigned((0, [4711]), (0, [4711])),
    ),
)

CASES: Final = CREATE_CASES
