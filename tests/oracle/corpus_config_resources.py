"""ListConfigResources."""

from typing import Any, Final

from tests.oracle.corpus_configs import (
    CLIENT_METRICS,
    DESCRIBE,
    FIRST_VALUE,
    GROUP,
    INCREMENTAL,
    SET,
    TOPIC,
    UNKNOWN,
    resource,
)
from tests.oracle.wire_cases import Step, ask, case, given, topic
from tests.oracle.wire_values import NULL

LIST: Final = 74


def _list(*kinds: int, **said: Any) -> Step:
    return ask(LIST, own=["config_resources"], **{"resource_types": kinds, **said})


def _having(kind: int, name: str, key: str, value: str) -> tuple[Step, Step]:
    """Set a config, and wait until the broker knows it."""
    change = [{"name": key, "config_operation": SET, "value": value}]
    described = resource(kind, name, configuration_keys=[key])
    return (
        given(INCREMENTAL, resources=[resource(kind, name, configs=change)]),
        given(DESCRIBE, resources=[described], until={FIRST_VALUE: value}),
    )


LIST_CASES: Final = (
    case(LIST, "all", topic(), _list()),
    case(LIST, "topics", topic(), _list(TOPIC), versions=(1,)),
    case(
        LIST,
        "client metrics",
        _having(CLIENT_METRICS, "m-~", "interval.ms", "5000"),
        ask(LIST, at=0, own=["config_resources"]),
        _list(CLIENT_METRICS),
        _list(CLIENT_METRICS, CLIENT_METRICS),
    ),
    case(
        LIST,
        "groups",
        _having(GROUP, "g-~", "consumer.session.timeout.ms", "50000"),
        _list(GROUP),
        versions=(1,),
    ),
    case(
        LIST, "unknown kinds", _list(99), _list(UNKNOWN), _list(-1), _list(TOPIC, 99), versions=(1,)
    ),
    case(LIST, "null kinds", _list(resource_types=NULL), versions=(1,)),
)

CASES: Final = LIST_CASES
