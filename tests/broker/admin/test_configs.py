"""The config APIs over the wire, in all their versions."""

import asyncio
from typing import Any

import asyncpg
import psutil
import pytest
from kio.schema.errors import ErrorCode

from spark.log_location import LogLocation
from tests.broker.admin.questions import (
    APPEND,
    BROKER,
    DESCRIBE_CONFIGS,
    SET,
    SUBTRACT,
    UNSET,
    change,
    check_topic_configs,
    create,
    describe,
    replace,
    set_configs,
)
from tests.broker.admin.wire import Api, Wire
from tests.support.broker import BrokerProcess

LONG = 5


@pytest.fixture
def topic(wire: Wire, name: str) -> str:
    """A topic that keeps its records for 30 days."""
    assert create(wire, name, configs={"retention.ms": "2592000000"}).error_code is ErrorCode.none
    return name


def by_name(result: Any) -> dict[str, Any]:
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described_with_sources_and_synonyms(
    wire: Wire, topic: str, version: int
) -> None:
    configs = by_name(describe(wire, topic, version=version))

    check_topic_configs(configs)
    own, followed = configs["retention.ms"], configs["max.message.bytes"]
    assert (own.value, own.config_source, own.read_only) == ("2592000000", 1, False)
    assert (followed.value, followed.config_source) == ("1048588", 5)
    assert [(each.name, each.value, each.source) for each in followed.synonyms] == [
        ("message.max.bytes", "1048588", 5)
    ]
    if version >= 3:
        assert own.config_type == LONG
        assert own.documentation is None


def test_synonyms_and_documentation_come_on_request_only(wire: Wire, topic: str) -> None:
    plain = by_name(describe(wire, topic, synonyms=False))
    assert not any(config.synonyms for config in plain.values())
    documented = by_name(describe(wire, topic, documentation=True))
    assert all(config.documentation for config in documented.values())


def test_only_the_names_asked_for_are_described(wire: Wire, topic: str) -> None:
    keys = ("segment.ms", "unheard.of", "retention.ms", "segment.ms")
    assert list(by_name(describe(wire, topic, keys=keys))) == ["segment.ms", "retention.ms"]
    check_topic_configs(by_name(describe(wire, topic, keys=())))


def test_the_broker_is_described(wire: Wire) -> None:
    configs = by_name(describe(wire, "0", kind=BROKER))

    assert configs["num.partitions"].read_only
    assert not configs["log.retention.ms"].read_only
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("3", 4)
    assert (configs["node.id"].value, configs["node.id"].config_source) == ("0", 4)
    listeners = configs["listeners"].value
    assert listeners.startswith("PLAINTEXT://127.0.0.1:")
    assert configs["advertised.listeners"].value == listeners
    assert configs["log.dirs"].value.startswith("file:///")
    assert (configs["log.retention.ms"].value, configs["log.retention.ms"].config_source) == (
        None,
        5,
    )
    assert by_name(describe(wire, "", kind=BROKER)) == {}


@pytest.mark.parametrize(
    ("kind", "resource", "code"),
    [
        (2, "no-such-topic", ErrorCode.unknown_topic_or_partition),
        (2, "", ErrorCode.invalid_topic_exception),
        (2, "a b", ErrorCode.invalid_topic_exception),
        (4, "77", ErrorCode.invalid_request),
        (4, "zero", ErrorCode.invalid_request),
        (4, "00", ErrorCode.invalid_request),
        (4, "+0", ErrorCode.invalid_request),
        (4, " 0", ErrorCode.invalid_request),
        (4, "\u0660", ErrorCode.invalid_request),
        (8, "77", ErrorCode.invalid_request),
        (8, "0_0", ErrorCode.invalid_request),
        (0, "x", ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_described_says_so(
    wire: Wire, kind: int, resource: str, code: ErrorCode
) -> None:
    result = describe(wire, resource, kind=kind)
    assert result.error_code is code
    assert result.error_message
    assert (result.resource_type, result.resource_name, result.configs) == (kind, resource, ())


def test_resources_answer_in_order_and_once(wire: Wire, topic: str) -> None:
    api = Api(DESCRIBE_CONFIGS, 4)
    names = [topic, "no-such-topic", topic]
    resources = tuple(
        api.part(
            "DescribeConfigsResource", resource_type=2, resource_name=name, configuration_keys=None
        )
        for name in names
    )
    results = wire.ask(api.request(resources=resources)).results
    assert [result.resource_name for result in results] == [topic, "no-such-topic"]
    there, missing = (result.configs for result in results)
    check_topic_configs([config.name for config in there])
    assert missing == ()


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_them_all(wire: Wire, topic: str, version: int) -> None:
    checked = replace(wire, topic, {"segment.ms": "5000"}, version=version, check=True)
    assert checked.error_code is ErrorCode.none
    assert set_configs(wire, topic) == {"retention.ms": "2592000000"}

    replaced = replace(wire, topic, {"segment.ms": " 5000 "}, version=version)
    assert (replaced.error_code, replaced.error_message) == (ErrorCode.none, None)
    assert set_configs(wire, topic) == {"segment.ms": "5000"}

    replace(wire, topic, {}, version=version)
    assert set_configs(wire, topic) == {}


@pytest.mark.parametrize("version", range(2))
def test_incremental_changes_leave_the_rest_alone(wire: Wire, topic: str, version: int) -> None:
    first = (("cleanup.policy", APPEND, "compact"), ("segment.ms", SET, "5000"))
    assert change(wire, topic, *first, version=version).error_code is ErrorCode.none
    assert set_configs(wire, topic) == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "2592000000",
        "segment.ms": "5000",
    }

    second = (
        ("cleanup.policy", SUBTRACT, "delete"),
        ("segment.ms", UNSET, None),
        ("unheard.of", UNSET, None),
    )
    assert change(wire, topic, *second, version=version, check=True).error_code is ErrorCode.none
    assert set_configs(wire, topic)["cleanup.policy"] == "delete,compact"
    assert change(wire, topic, *second, version=version).error_code is ErrorCode.none
    assert set_configs(wire, topic) == {"cleanup.policy": "compact", "retention.ms": "2592000000"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([("retention.ms", SET, "soon")], ErrorCode.invalid_config),
        ([("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([("unheard.of", SET, "1")], ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([("retention.ms", 9, "1")], ErrorCode.invalid_request),
        ([("retention.ms", SET, "1"), ("retention.ms", UNSET, None)], ErrorCode.invalid_request),
        ([("segment.ms", SET, "1"), ("retention.ms", SET, "x")], ErrorCode.invalid_config),
    ],
)
def test_a_change_that_is_refused_changes_nothing(
    wire: Wire, topic: str, changes: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    result = change(wire, topic, *changes)
    assert result.error_code is code
    assert changes[-1][0] in result.error_message
    assert set_configs(wire, topic) == {"retention.ms": "2592000000"}


async def metadata_version(broker: BrokerProcess) -> int:
    connection = await asyncpg.connect(LogLocation.of({"data": str(broker.log.parent)}).postgres)
    try:
        version: int = await connection.fetchval(
            "SELECT metadata_version FROM streamhouse_internal.cluster"
        )
    finally:
        await connection.close()
    return version


def test_what_is_so_already_is_not_written(
    admin_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    # Given a topic with one config
    before = asyncio.run(metadata_version(admin_broker))

    # When that is set again, and others are unset that are not set, as MirrorMaker does it
    same = [("retention.ms", SET, "2592000000"), ("segment.ms", UNSET, None)]
    assert change(wire, topic, *same).error_code is ErrorCode.none
    assert replace(wire, topic, {"retention.ms": "2592000000"}).error_code is ErrorCode.none

    # Then no broker hears of a change, until there is one
    assert asyncio.run(metadata_version(admin_broker)) == before
    assert change(wire, topic, ("retention.ms", SET, "1")).error_code is ErrorCode.none
    assert asyncio.run(metadata_version(admin_broker)) > before


def test_a_resource_named_twice_is_not_changed(wire: Wire, topic: str) -> None:
    result = change(wire, topic, ("segment.ms", SET, "5000"), times=2)
    assert result.error_code is ErrorCode.invalid_request
    assert set_configs(wire, topic) == {"retention.ms": "2592000000"}


def test_the_topic_of_a_change_must_be_there(wire: Wire) -> None:
    missing = change(wire, "no-such-topic", ("segment.ms", SET, "5"))
    assert missing.error_code is ErrorCode.unknown_topic_or_partition
    assert change(wire, "", ("segment.ms", SET, "5")).error_code is (
        ErrorCode.invalid_topic_exception
    )


@pytest.mark.parametrize(("kind", "resource"), [(2, None), (4, ""), (16, "s"), (32, "g")])
def test_of_many_unknown_names_the_first_are_told(
    admin_broker: BrokerProcess, wire: Wire, topic: str, kind: int, resource: str | None
) -> None:
    # Given very many configs that nobody knows, and one whose name is very long
    on = topic if resource is None else resource
    lines = [(f"segment.bytesx{number}", SET, "1") for number in range(10_000)]

    # When they are set, then the answer is short, and costs the broker little
    process = psutil.Process(admin_broker.pid)
    before_s = sum(process.cpu_times()[:2])
    many = change(wire, on, *lines, kind=kind)
    long = change(wire, on, ("x" * 30_000, SET, "1"), kind=kind)
    assert sum(process.cpu_times()[:2]) - before_s < 2.0
    assert many.error_code is long.error_code is not ErrorCode.none
    assert "segment.bytesx0" in many.error_message
    assert "9980 more" in many.error_message
    assert max(len(each.error_message) for each in (many, long)) < 5000


def test_of_many_nulls_and_repeated_names_the_first_are_told(wire: Wire, name: str) -> None:
    names = [f"x{number}" for number in range(1000)]
    answers = [
        change(wire, name, *((each, SET, None) for each in names), kind=16),
        change(wire, name, *((each, SET, "1") for each in names * 2), kind=16),
        create(wire, name, configs=dict.fromkeys(names)),
    ]
    for answer in answers:
        assert "x0" in answer.error_message
        assert "980 more" in answer.error_message
        assert len(answer.error_message) < 5000
