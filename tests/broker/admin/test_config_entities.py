"""The configs of groups, client metrics and log levels, and the list of what has any."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import (
    APPEND,
    BROKER,
    SET,
    SUBTRACT,
    TOPIC,
    UNSET,
    change,
    create,
    describe,
    replace,
)
from tests.broker.admin.wire import Api, Wire
from tests.support.broker import BrokerProcess

LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
DEFAULT, OF_LOGGER, OF_CLIENT_METRICS, OF_GROUP = 5, 6, 7, 8
NONE = ErrorCode.none
INVALID_REQUEST, INVALID_CONFIG = ErrorCode.invalid_request, ErrorCode.invalid_config
SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS = "consumer.heartbeat.interval.ms"


@pytest.fixture
def levels(wire: Wire) -> Iterator[None]:
    """Undo what a test does to log levels."""
    yield
    change(wire, "0", ("root", SET, "INFO"), ("broker", UNSET, None), kind=LOGGER)


def by_name(wire: Wire, resource: str, kind: int) -> dict[str, Any]:
    result = describe(wire, resource, kind=kind)
    assert (result.error_code, result.error_message) == (NONE, None)
    return {config.name: config for config in result.configs}


def listed(wire: Wire, *types: int, version: int = 1) -> Any:
    return wire.ask(Api(74, version).request(resource_types=types))


# --- groups


def test_a_group_is_described_and_altered(wire: Wire, name: str) -> None:
    # Given a group that nobody ever joined: it follows the broker
    configs = by_name(wire, name, GROUP)
    assert list(configs) == [HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS]
    followed = configs[SESSION_TIMEOUT_MS]
    assert (followed.value, followed.config_source, followed.read_only) == ("45000", DEFAULT, False)

    # When a config of it is set, then that counts before the broker's
    assert change(wire, name, (SESSION_TIMEOUT_MS, SET, "50000"), kind=GROUP).error_code is NONE
    own = by_name(wire, name, GROUP)[SESSION_TIMEOUT_MS]
    assert (own.value, own.config_source) == ("50000", OF_GROUP)
    assert [(each.name, each.source) for each in own.synonyms] == [
        (SESSION_TIMEOUT_MS, OF_GROUP),
        (f"group.{SESSION_TIMEOUT_MS}", DEFAULT),
    ]

    # And replacing unsets the rest
    assert replace(wire, name, {HEARTBEAT_INTERVAL_MS: "6000"}, kind=GROUP).error_code is NONE
    configs = by_name(wire, name, GROUP)
    assert configs[HEARTBEAT_INTERVAL_MS].value == "6000"
    assert configs[SESSION_TIMEOUT_MS].config_source == DEFAULT


@pytest.mark.parametrize(
    ("config", "operation", "value", "code"),
    [
        (SESSION_TIMEOUT_MS, SET, "100", INVALID_CONFIG),
        (SESSION_TIMEOUT_MS, SET, "100000", INVALID_CONFIG),
        (SESSION_TIMEOUT_MS, SET, "long", INVALID_CONFIG),
        (SESSION_TIMEOUT_MS, SET, None, INVALID_REQUEST),
        (SESSION_TIMEOUT_MS, APPEND, "1", INVALID_CONFIG),
        ("share.session.timeout.ms", SET, "45000", INVALID_CONFIG),
        ("unheard.of", SET, "1", INVALID_CONFIG),
        ("unheard.of", UNSET, None, NONE),
    ],
)
def test_group_configs_have_the_codes_of_kafka(
    wire: Wire, name: str, config: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    result = change(wire, name, (config, operation, value), kind=GROUP)
    assert result.error_code is code
    assert code is NONE or config in result.error_message
    assert by_name(wire, name, GROUP)[SESSION_TIMEOUT_MS].config_source == DEFAULT


# --- client metrics


def test_a_subscription_lives_as_long_as_something_is_set(wire: Wire, name: str) -> None:
    # Given a name of which nothing is set
    configs = by_name(wire, name, CLIENT_METRICS)
    assert {config: one.value for config, one in configs.items()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }
    assert {one.config_source for one in configs.values()} == {DEFAULT}

    # When it is set, then it is described and listed
    changes = (("metrics", SET, "a., b."), ("match", SET, "client_id=x.*"))
    assert change(wire, name, *changes, kind=CLIENT_METRICS).error_code is NONE
    assert change(wire, name, ("metrics", APPEND, "c."), kind=CLIENT_METRICS).error_code is NONE
    assert change(wire, name, ("metrics", SUBTRACT, "a."), kind=CLIENT_METRICS).error_code is NONE
    metrics = by_name(wire, name, CLIENT_METRICS)["metrics"]
    assert (metrics.value, metrics.config_source) == ("b.,c.", OF_CLIENT_METRICS)
    assert name in [one.resource_name for one in listed(wire, version=0).config_resources]

    # And once all is unset, it is gone
    unset = (("metrics", UNSET, None), ("match", UNSET, None))
    assert change(wire, name, *unset, kind=CLIENT_METRICS).error_code is NONE
    assert name not in [one.resource_name for one in listed(wire, version=0).config_resources]


def test_a_subscription_that_is_wrong_is_refused(wire: Wire, name: str) -> None:
    for config, value, code in (
        ("interval.ms", "99", INVALID_REQUEST),
        ("interval.ms", "x", INVALID_CONFIG),
        ("match", "client_rack=a", INVALID_CONFIG),
        ("labels", "a", INVALID_REQUEST),
    ):
        assert replace(wire, name, {config: value}, kind=CLIENT_METRICS).error_code is code
    for kind in (GROUP, CLIENT_METRICS):
        for resource in ("", "x" * 513):
            assert change(wire, resource, kind=kind).error_code is INVALID_REQUEST
            assert describe(wire, resource, kind=kind).error_code is INVALID_REQUEST


# --- log levels


def test_the_level_of_a_package_takes_effect(
    wire: Wire, admin_broker: BrokerProcess, name: str, levels: None
) -> None:
    """A change of configs is one line of the log."""

    def logged(group: str) -> bool:
        change(wire, group, (SESSION_TIMEOUT_MS, SET, "50000"), kind=GROUP)
        lines = map(json.loads, admin_broker.log.read_text().splitlines())
        return any(line.get("name") == group and line.get("logger") != "audit" for line in lines)

    assert logged(f"{name}-1")

    # When the level is raised, here and at the root, then less is logged
    assert change(wire, "0", ("broker", SET, "WARN"), kind=LOGGER).error_code is NONE
    assert not logged(f"{name}-2")
    change(wire, "0", ("broker", UNSET, None), ("root", SET, "ERROR"), kind=LOGGER)
    assert not logged(f"{name}-3")
    shown = by_name(wire, "0", LOGGER)
    assert {logger: one.value for logger, one in shown.items()} == {
        "broker": "ERROR",
        "root": "ERROR",
        "storage": "ERROR",
    }
    assert {one.config_source for one in shown.values()} == {OF_LOGGER}

    # And when only the package's is lowered, then it logs again; a check changes nothing
    change(wire, "0", ("broker", SET, "DEBUG"), kind=LOGGER)
    change(wire, "0", ("broker", SET, "FATAL"), kind=LOGGER, check=True)
    assert logged(f"{name}-4")


@pytest.mark.parametrize(
    ("resource", "logger", "operation", "value", "code"),
    [
        ("0", "kafka.server", SET, "INFO", INVALID_CONFIG),
        ("0", "kafka.server", UNSET, None, INVALID_CONFIG),
        ("0", "audit", SET, "ERROR", INVALID_CONFIG),
        ("0", "broker", SET, "info", INVALID_CONFIG),
        ("0", "broker", SET, None, INVALID_REQUEST),
        ("0", "broker", APPEND, "INFO", INVALID_REQUEST),
        ("0", "root", UNSET, None, INVALID_REQUEST),
        ("", "root", SET, "INFO", INVALID_REQUEST),
        ("7", "root", SET, "INFO", INVALID_REQUEST),
    ],
)
def test_levels_that_cannot_be_set(
    wire: Wire, resource: str, logger: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    result = change(wire, resource, (logger, operation, value), kind=LOGGER)
    assert result.error_code is code
    assert result.error_message


def test_levels_cannot_be_replaced(wire: Wire) -> None:
    assert replace(wire, "0", {"root": "INFO"}, kind=LOGGER).error_code is INVALID_REQUEST


# --- the list


def test_resources_are_listed_by_type(wire: Wire, name: str) -> None:
    # Given a topic, a group and a subscription
    assert create(wire, name).error_code is NONE
    change(wire, name, (SESSION_TIMEOUT_MS, SET, "50000"), kind=GROUP)
    change(wire, name, ("metrics", SET, "a."), kind=CLIENT_METRICS)

    # Then each type has its own, and no type means all
    for kind in (TOPIC, GROUP, CLIENT_METRICS):
        found = listed(wire, kind).config_resources
        assert {one.resource_type for one in found} == {kind}
        assert name in [one.resource_name for one in found]
    brokers = listed(wire, BROKER, LOGGER).config_resources
    assert [(one.resource_name, one.resource_type) for one in brokers] == [("0", 8), ("0", 4)]
    assert {one.resource_type for one in listed(wire).config_resources} == {2, 4, 8, 16, 32}
    assert name in [one.resource_name for one in listed(wire, version=0).config_resources]

    # And a type that there is not fails the request
    unknown = listed(wire, TOPIC, 99)
    assert (unknown.error_code, unknown.config_resources) == (ErrorCode.unsupported_version, ())


def test_the_stock_client_describes_a_group(admin_broker: BrokerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": admin_broker.bootstrap})
    asked = ConfigResource(ConfigResource.Type.GROUP, name)
    configs = admin.describe_configs([asked])[asked].result(10)
    assert configs[SESSION_TIMEOUT_MS].value == "45000"
    assert configs[SESSION_TIMEOUT_MS].source == ConfigSource.DEFAULT_CONFIG.value
