"""IncrementalAlterConfigs."""

from typing import Any, Final

from tests.oracle.corpus_configs import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    FIRST_VALUE,
    GROUP,
    INCREMENTAL,
    SET,
    SUBTRACT,
    TOPIC,
    UNKNOWN,
    resource,
    seen,
)
from tests.oracle.wire_cases import COMMON, Case, Step, ask, case, topic
from tests.oracle.wire_values import NULL


def _change(kind: int, name: object, *changes: tuple[str, int, str | None], **said: Any) -> Step:
    values = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    return ask(INCREMENTAL, **{"resources": [resource(kind, name, configs=values)], **said})


def _refused(name: str, *changes: tuple[str, int, str | None], alone: bool = False) -> Case:
    """A change of a topic that is not made, really and as a dry run."""
    return case(
        INCREMENTAL,
        name,
        COMMON,
        _change(TOPIC, "t-~", *changes),
        _change(TOPIC, "t-~", *changes, validate_only=True),
        alone=alone,
    )


INCREMENTAL_CASES: Final = (
    case(
        INCREMENTAL,
        "set",
        topic(),
        _change(TOPIC, "t-~", ("retention.ms", SET, "1000")),
        seen(TOPIC, "t-~", "retention.ms", until={FIRST_VALUE: "1000"}),
    ),
    case(
        INCREMENTAL,
        "delete",
        topic(retention_ms="5"),
        _change(TOPIC, "t-~", ("retention.ms", DELETE, None)),
        seen(TOPIC, "t-~", "retention.ms", until={FIRST_VALUE: "604800000"}),
    ),
    case(
        INCREMENTAL,
        "delete what is not set",
        topic(),
        _change(TOPIC, "t-~", ("retention.ms", DELETE, "")),
    ),
    case(
        INCREMENTAL,
        "append",
        topic(),
        _change(TOPIC, "t-~", ("cleanup.policy", APPEND, "compact")),
        seen(TOPIC, "t-~", "cleanup.policy", until={FIRST_VALUE: "delete,compact"}),
    ),
    case(
        INCREMENTAL,
        "append what is there",
        topic(),
        _change(TOPIC, "t-~", ("cleanup.policy", APPEND, "delete")),
        seen(TOPIC, "t-~", "cleanup.policy", until={"results.0.configs.0.config_source": 1}),
    ),
    case(
        INCREMENTAL,
        "subtract",
        topic(cleanup_policy="compact,delete"),
        _change(TOPIC, "t-~", ("cleanup.policy", SUBTRACT, "delete")),
        seen(TOPIC, "t-~", "cleanup.policy", until={FIRST_VALUE: "compact"}),
    ),
    case(
        INCREMENTAL,
        "subtract what is not there",
        topic(),
        _change(TOPIC, "t-~", ("cleanup.policy", SUBTRACT, "compact")),
        seen(TOPIC, "t-~", "cleanup.policy", until={"results.0.configs.0.config_source": 1}),
    ),
    case(
        INCREMENTAL,
        "a dry run",
        COMMON,
        _change(TOPIC, "t-~", ("retention.ms", SET, "1000"), validate_only=True),
        seen(TOPIC, "t-~", "retention.ms"),
    ),
    case(
        INCREMENTAL,
        "several",
        topic(),
        _change(TOPIC, "t-~", ("retention.ms", SET, "1000"), ("segment.bytes", SET, "2000000")),
    ),
    _refused("append to a number", ("retention.ms", APPEND, "1000")),
    _refused("subtract from a number", ("retention.ms", SUBTRACT, "1000")),
    # Apache Kafka's controller resigns over these: what others have asked of it is then done again
    _refused("an unknown operation", ("retention.ms", 9, "1000"), alone=True),
    _refused("a negative operation", ("retention.ms", -1, "1000"), alone=True),
    _refused("an unknown config", ("no.such.config", SET, "1")),
    _refused("deleting an unknown config", ("no.such.config", DELETE, None)),
    _refused("an empty config", ("", SET, "1")),
    _refused("an invalid value", ("retention.ms", SET, "soon")),
    _refused("a null value", ("retention.ms", SET, None)),
    _refused("null to append", ("cleanup.policy", APPEND, None)),
    _refused("a value of the wrong kind to append", ("cleanup.policy", APPEND, "shred")),
    _refused("the same config twice", ("retention.ms", SET, "1000"), ("retention.ms", SET, "2000")),
    _refused("one good, one bad", ("retention.ms", SET, "1000"), ("segment.bytes", SET, "1")),
    case(INCREMENTAL, "an unknown topic", _change(TOPIC, "no-~", ("retention.ms", SET, "1"))),
    case(
        INCREMENTAL,
        "invalid topics",
        _change(TOPIC, "a b-~", ("retention.ms", SET, "1")),
        _change(TOPIC, "", ("retention.ms", SET, "1")),
    ),
    case(INCREMENTAL, "nothing of a topic", COMMON, _change(TOPIC, "t-~")),
    case(
        INCREMENTAL,
        "good and bad together",
        topic(),
        ask(
            INCREMENTAL,
            resources=[
                resource(
                    TOPIC,
                    one,
                    configs=[{"name": "retention.ms", "config_operation": SET, "value": "1000"}],
                )
                for one in ("no-~", "t-~")
            ],
        ),
    ),
    case(
        INCREMENTAL,
        "the same topic twice",
        topic(),
        ask(
            INCREMENTAL,
            resources=[
                resource(
                    TOPIC,
                    "t-~",
                    configs=[{"name": "retention.ms", "config_operation": SET, "value": value}],
                )
                for value in ("1000", "2000")
            ],
        ),
    ),
    case(
        INCREMENTAL, "an unknown broker", _change(BROKER, "4711", ("log.cleaner.threads", SET, "2"))
    ),
    case(
        INCREMENTAL,
        "a broker by a word",
        _change(BROKER, "first", ("log.cleaner.threads", SET, "2")),
    ),
    case(
        INCREMENTAL,
        "brokers: an unknown config",
        _change(BROKER, "", ("no.such.config", SET, "2"), validate_only=True),
    ),
    case(
        INCREMENTAL,
        "brokers: read only",
        _change(BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), validate_only=True),
    ),
    case(
        INCREMENTAL,
        "brokers: an invalid value",
        _change(BROKER, "", ("message.max.bytes", SET, "many"), validate_only=True),
    ),
    case(
        INCREMENTAL,
        "brokers: a dry run",
        _change(BROKER, "", ("message.max.bytes", SET, "2000000"), validate_only=True),
    ),
    case(
        INCREMENTAL,
        "a group",
        _change(GROUP, "g-~", ("consumer.session.timeout.ms", SET, "50000")),
        seen(GROUP, "g-~", "consumer.session.timeout.ms", until={FIRST_VALUE: "50000"}),
        _change(GROUP, "g-~", ("consumer.session.timeout.ms", DELETE, None)),
    ),
    case(
        INCREMENTAL,
        "a group: refused",
        _change(GROUP, "g-~", ("consumer.session.timeout.ms", SET, "1")),
        _change(GROUP, "g-~", ("no.such.config", SET, "1")),
        _change(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
    ),
    case(
        INCREMENTAL,
        "client metrics",
        _change(
            CLIENT_METRICS,
            "m-~",
            ("interval.ms", SET, "5000"),
            ("metrics", SET, "org.apache.kafka.consumer."),
            ("match", SET, "client_id=a.*"),
        ),
        seen(CLIENT_METRICS, "m-~", until={FIRST_VALUE: "5000"}),
        _change(
            CLIENT_METRICS,
            "m-~",
            ("interval.ms", DELETE, None),
            ("metrics", DELETE, None),
            ("match", DELETE, None),
        ),
    ),
    case(
        INCREMENTAL,
        "client metrics: refused",
        _change(CLIENT_METRICS, "m-~", ("interval.ms", SET, "1")),
        _change(CLIENT_METRICS, "m-~", ("no.such.config", SET, "1")),
        _change(CLIENT_METRICS, "m-~", ("match", SET, "nonsense")),
        _change(CLIENT_METRICS, "", ("interval.ms", SET, "5000")),
    ),
    case(
        INCREMENTAL,
        "loggers: refused",
        _change(BROKER_LOGGER, "4711", ("kafka", SET, "INFO")),
        _change(BROKER_LOGGER, "", ("kafka", SET, "INFO")),
    ),
    case(
        INCREMENTAL,
        "unknown kinds",
        _change(UNKNOWN, "t-~", ("a", SET, "1")),
        _change(99, "t-~", ("a", SET, "1")),
        _change(-1, "t-~", ("a", SET, "1")),
    ),
    case(INCREMENTAL, "nothing", ask(INCREMENTAL, resources=[])),
    case(INCREMENTAL, "null resources", ask(INCREMENTAL, resources=NULL)),
)

CASES: Final = INCREMENTAL_CASES
