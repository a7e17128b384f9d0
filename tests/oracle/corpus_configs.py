"""Configs: DescribeConfigs, AlterConfigs."""

from typing import Any, Final

from tests.oracle.wire_cases import COMMON, Step, ask, case, given, topic
from tests.oracle.wire_values import NULL, Saved

DESCRIBE: Final = 32
ALTER: Final = 33
INCREMENTAL: Final = 44
UNKNOWN, TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
NODE: Final = Saved("node")
WHO: Final = given(3, topics=[], allow_auto_topic_creation=False, save={"number": "controller_id"})
"""The one broker's node id; NODE needs it as text."""


def resource(kind: int, name: object, **said: Any) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name} | said


def _describe(kind: int, name: object, *keys: str, **said: Any) -> Step:
    """Ask for some configs, or for all without `keys`."""
    asked = resource(kind, name, configuration_keys=keys or None)
    return ask(DESCRIBE, **{"resources": [asked], **said})


DESCRIBE_CASES: Final = (
    case(DESCRIBE, "all of a topic", COMMON, _describe(TOPIC, "t-~")),
    case(
        DESCRIBE,
        "some of a topic",
        topic(retention_ms="1000"),
        _describe(TOPIC, "t-~", "retention.ms", "segment.bytes", "no.such.config"),
    ),
    case(
        DESCRIBE,
        "with synonyms and documentation",
        topic(retention_ms="1000", compression_type="zstd"),
        _describe(
            TOPIC,
            "t-~",
            "retention.ms",
            "compression.type",
            "cleanup.policy",
            include_synonyms=True,
            include_documentation=True,
        ),
    ),
    case(
        DESCRIBE,
        "no keys",
        COMMON,
        ask(DESCRIBE, resources=[resource(TOPIC, "t-~", configuration_keys=[])]),
    ),
    case(
        DESCRIBE,
        "the same key twice",
        COMMON,
        _describe(TOPIC, "t-~", "retention.ms", "retention.ms"),
    ),
    case(DESCRIBE, "an unknown topic", _describe(TOPIC, "no-~")),
    case(DESCRIBE, "invalid topics", _describe(TOPIC, "a b-~"), _describe(TOPIC, "")),
    case(
        DESCRIBE,
        "the same topic twice",
        COMMON,
        ask(DESCRIBE, resources=[resource(TOPIC, "t-~", configuration_keys=["retention.ms"])] * 2),
    ),
    case(
        DESCRIBE,
        "known and unknown",
        COMMON,
        ask(
            DESCRIBE,
            resources=[
                resource(TOPIC, one, configuration_keys=["retention.ms"]) for one in ("no-~", "t-~")
            ],
        ),
    ),
    case(
        DESCRIBE, "the default of brokers", _describe(BROKER, "", "message.max.bytes"), alone=True
    ),
    case(DESCRIBE, "an unknown broker", _describe(BROKER, "4711", "message.max.bytes")),
    case(
        DESCRIBE,
        "a broker by a word",
        _describe(BROKER, "first", "message.max.bytes"),
        _describe(BROKER, "-1", "message.max.bytes"),
    ),
    case(
        DESCRIBE,
        "loggers of unknown brokers",
        _describe(BROKER_LOGGER, "4711"),
        _describe(BROKER_LOGGER, ""),
        _describe(BROKER_LOGGER, "first"),
    ),
    case(DESCRIBE, "a group", _describe(GROUP, "g-~")),
    case(DESCRIBE, "a group without a name", _describe(GROUP, "")),
    case(DESCRIBE, "client metrics", _describe(CLIENT_METRICS, "m-~")),
    case(DESCRIBE, "client metrics without a name", _describe(CLIENT_METRICS, "")),
    case(
        DESCRIBE,
        "unknown kinds",
        _describe(UNKNOWN, "t-~"),
        _describe(1, "t-~"),
        _describe(99, "t-~"),
        _describe(-1, "t-~"),
    ),
    case(DESCRIBE, "nothing", ask(DESCRIBE, resources=[])),
    case(DESCRIBE, "null resources", ask(DESCRIBE, resources=NULL)),
    case(DESCRIBE, "null name", _describe(TOPIC, NULL)),
)


def _alter(kind: int, name: object, *configs: tuple[str, str | None], **said: Any) -> Step:
    values = [{"name": key, "value": value} for key, value in configs]
    return ask(ALTER, **{"resources": [resource(kind, name, configs=values)], **said})


def seen(kind: int, name: object, *keys: str, **said: Any) -> Step:
    return _describe(kind, name, *keys, at=4, **said)


FIRST_VALUE: Final = "results.0.configs.0.value"


ALTER_CASES: Final = (
    case(
        ALTER,
        "a topic",
        topic(),
        _alter(TOPIC, "t-~", ("retention.ms", "1000")),
        seen(TOPIC, "t-~", "retention.ms", until={FIRST_VALUE: "1000"}),
    ),
    case(
        ALTER,
        "a topic, and what was set is gone",
        topic(retention_ms="5"),
        _alter(TOPIC, "t-~", ("segment.bytes", "2000000")),
        seen(TOPIC, "t-~", "retention.ms", until={FIRST_VALUE: "604800000"}),
    ),
    case(
        ALTER,
        "a dry run",
        COMMON,
        _alter(TOPIC, "t-~", ("retention.ms", "1000"), validate_only=True),
        seen(TOPIC, "t-~", "retention.ms"),
    ),
    case(
        ALTER,
        "to nothing",
        topic(retention_ms="5"),
        _alter(TOPIC, "t-~"),
        seen(TOPIC, "t-~", "retention.ms", until={FIRST_VALUE: "604800000"}),
    ),
    case(ALTER, "an unknown topic", _alter(TOPIC, "no-~", ("retention.ms", "1000"))),
    case(
        ALTER,
        "invalid topics",
        _alter(TOPIC, "a b-~", ("retention.ms", "1")),
        _alter(TOPIC, "", ("retention.ms", "1")),
    ),
    case(ALTER, "an unknown config", COMMON, _alter(TOPIC, "t-~", ("no.such.config", "1"))),
    case(ALTER, "an invalid value", COMMON, _alter(TOPIC, "t-~", ("retention.ms", "soon"))),
    case(ALTER, "null values", COMMON, _alter(TOPIC, "t-~", ("retention.ms", None))),
    case(
        ALTER,
        "good and bad together",
        topic(),
        topic("u-~"),
        ask(
            ALTER,
            resources=[
                resource(TOPIC, one, configs=[{"name": "retention.ms", "value": value}])
                for one, value in (("t-~", "soon"), ("u-~", "1000"), ("no-~", "1"))
            ],
        ),
    ),
    case(
        ALTER,
        "the same config twice",
        COMMON,
        _alter(TOPIC, "t-~", ("retention.ms", "1000"), ("retention.ms", "2000")),
    ),
    case(ALTER, "an unknown broker", _alter(BROKER, "4711", ("log.cleaner.threads", "2"))),
    case(ALTER, "a broker by a word", _alter(BROKER, "first", ("log.cleaner.threads", "2"))),
    case(ALTER, "unknown kinds", _alter(UNKNOWN, "t-~"), _alter(99, "t-~"), _alter(-1, "t-~")),
    case(ALTER, "nothing", ask(ALTER, resources=[])),
    case(ALTER, "null resources", ask(ALTER, resources=NULL)),
    case(ALTER, "null configs", ask(ALTER, resources=[resource(TOPIC, "t-~", configs=NULL)])),
)

CASES: Final = DESCRIBE_CASES + ALTER_CASES
