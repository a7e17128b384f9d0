"""Configs of brokers and groups that are set while the broker runs, and take effect."""

import asyncio
import datetime as dt
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from tests.broker.admin.questions import (
    APPEND,
    BROKER,
    SET,
    SUBTRACT,
    UNSET,
    change,
    describe,
    replace,
)
from tests.broker.admin.wire import Wire
from tests.support.broker import BrokerProcess, running_broker
from tests.support.group_wire import (
    CONSUMER_GROUP_DESCRIBE,
    consumer_heartbeat_request,
    named,
    new_member_id,
)
from tests.support.wire import WireClient, request_entities

TOPIC, GROUP = 2, 32
CLUSTER_WIDE, OWN = "", "0"
HERE, CLUSTER, DEFAULT = 2, 3, 5
NONE = ErrorCode.none
INVALID_REQUEST, INVALID_CONFIG = ErrorCode.invalid_request, ErrorCode.invalid_config
SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = (
        *("--set", "group.consumer.min.session.timeout.ms=200"),
        *("--set", "group.consumer.min.heartbeat.interval.ms=100"),
    )
    with running_broker(tmp_path_factory.mktemp("dynamic"), *settings) as broker:
        yield broker


@pytest.fixture
def wire(broker: BrokerProcess) -> Iterator[Wire]:
    """A broker of which nothing is set but by its start, before a test and after."""
    wire = Wire("127.0.0.1", broker.port)
    yield wire
    for name in (CLUSTER_WIDE, OWN):
        assert replace(wire, name, {}, kind=BROKER).error_code is NONE


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[WireClient]:
    async with await WireClient.connect(broker.bootstrap) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"dynamic-{uuid.uuid4().hex[:12]}"


def entry(wire: Wire, resource: str, config: str, *, kind: int) -> Any:
    (found,) = describe(wire, resource, kind=kind, keys=(config,)).configs
    return found


def places(found: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in found.synonyms]


# --- brokers


def test_a_config_of_the_cluster_and_of_the_broker(wire: Wire) -> None:
    # When a limit is set at both levels
    assert change(
        wire, CLUSTER_WIDE, ("max.connections", SET, " 500 "), kind=BROKER
    ).error_code is (NONE)
    assert change(wire, OWN, ("max.connections", SET, "600"), kind=BROKER).error_code is NONE

    # Then the broker's counts, and the cluster is described by what is set of it
    found = entry(wire, OWN, "max.connections", kind=BROKER)
    assert (found.value, found.config_source, found.read_only) == ("600", HERE, False)
    assert places(found) == [
        ("max.connections", "600", HERE),
        ("max.connections", "500", CLUSTER),
        ("max.connections", "10000", DEFAULT),
    ]
    (wide,) = describe(wire, CLUSTER_WIDE, kind=BROKER).configs
    assert (wide.name, wide.value, wide.config_source) == ("max.connections", "500", CLUSTER)

    # And once both are unset, the default
    for level in (CLUSTER_WIDE, OWN):
        change(wire, level, ("max.connections", UNSET, None), kind=BROKER)
    assert entry(wire, OWN, "max.connections", kind=BROKER).config_source == DEFAULT


def test_replacing_unsets_the_rest(wire: Wire) -> None:
    assert replace(wire, CLUSTER_WIDE, {"log.roll.ms": "70000"}, kind=BROKER).error_code is NONE
    checked = replace(wire, CLUSTER_WIDE, {"log.roll.ms": "80000"}, kind=BROKER, check=True)
    assert checked.error_code is NONE
    assert replace(
        wire, CLUSTER_WIDE, {"log.segment.bytes": "2000000"}, kind=BROKER
    ).error_code is (NONE)
    (wide,) = describe(wire, CLUSTER_WIDE, kind=BROKER).configs
    assert (wide.name, wide.value) == ("log.segment.bytes", "2000000")


def test_the_items_of_a_list_come_and_go(wire: Wire) -> None:
    policy = "log.cleanup.policy"
    change(wire, CLUSTER_WIDE, (policy, APPEND, "compact"), kind=BROKER)
    assert entry(wire, OWN, policy, kind=BROKER).value == "delete,compact"
    change(wire, CLUSTER_WIDE, (policy, SUBTRACT, "delete"), kind=BROKER)
    assert entry(wire, OWN, policy, kind=BROKER).value == "compact"


@pytest.mark.parametrize("level", [CLUSTER_WIDE, OWN])
@pytest.mark.parametrize(
    ("config", "operation", "value", "code"),
    [
        ("num.partitions", SET, "2", INVALID_REQUEST),
        ("log.retention.hours", SET, "2", INVALID_REQUEST),
        ("node.id", SET, "2", INVALID_REQUEST),
        ("max.connections", SET, "0", INVALID_REQUEST),
        ("max.connections", SET, "", INVALID_REQUEST),
        ("max.connections", SET, None, INVALID_REQUEST),
        ("max.connections", APPEND, "5", INVALID_CONFIG),
        ("max.connections", 9, "5", INVALID_REQUEST),
        ("unheard.of", SET, "5", INVALID_REQUEST),
        ("log.cleanup.policy", SET, "shred", INVALID_REQUEST),
        ("log.retention.ms", SET, "0", INVALID_REQUEST),
        ("unheard.of", UNSET, None, NONE),
        ("num.partitions", UNSET, None, NONE),
    ],
)
def test_codes_are_those_of_kafka(
    wire: Wire, level: str, config: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    other = ("max.connections.per.ip", SET, "70000")
    result = change(wire, level, other, (config, operation, value), kind=BROKER)
    assert result.error_code is code
    assert code is NONE or config in result.error_message
    is_set = entry(wire, OWN, other[0], kind=BROKER).value == "70000"
    assert is_set is (code is NONE)


def test_what_upkeep_does_for_all_is_not_set_of_one_broker(wire: Wire) -> None:
    # When retention is set of one broker, beside something that could be
    limit = ("max.connections", SET, "600")
    refused = change(wire, OWN, limit, ("log.retention.ms", SET, "-1"), kind=BROKER)
    assert replace(wire, OWN, {"log.cleanup.policy": "compact"}, kind=BROKER).error_code is (
        INVALID_REQUEST
    )

    # Then neither is, and the reason says what to do
    assert refused.error_code is INVALID_REQUEST
    assert refused.error_message.endswith("cluster here: set it without a broker's id")
    assert entry(wire, OWN, "log.retention.ms", kind=BROKER).config_source == DEFAULT
    assert entry(wire, OWN, "max.connections", kind=BROKER).config_source == DEFAULT

    # And unsetting it is no mistake, nor is setting it of all
    unset = ("log.retention.ms", UNSET, None)
    assert change(wire, OWN, limit, unset, kind=BROKER).error_code is NONE
    assert change(wire, CLUSTER_WIDE, ("log.retention.ms", SET, "-1"), kind=BROKER).error_code is (
        NONE
    )
    assert entry(wire, OWN, "log.retention.ms", kind=BROKER).value == "-1"


def test_a_broker_answers_for_itself_only(wire: Wire) -> None:
    for name in ("77", "zero"):
        refused = change(wire, name, ("max.connections", SET, "5"), kind=BROKER)
        assert refused.error_code is INVALID_REQUEST
        assert replace(wire, name, {}, kind=BROKER).error_code is INVALID_REQUEST


async def test_topics_follow_at_once(wire: Wire, client: WireClient, name: str) -> None:
    # Given two topics, one with a limit of its own
    own = f"{name}-own"
    await client.create_topic(name)
    await client.create_topic(own, max_message_bytes="5000")
    batch = build_batch([Record(offset_delta=0, value=b"x" * 1000)])

    async def codes() -> list[ErrorCode]:
        return [(await client.produce(topic, batch)).error_code for topic in (name, own)]

    # When the brokers' limit falls
    change(wire, CLUSTER_WIDE, ("message.max.bytes", SET, "500"), kind=BROKER)

    # Then the one follows and says so, and the other does not
    found = entry(wire, name, "max.message.bytes", kind=TOPIC)
    assert (found.value, found.config_source) == ("500", CLUSTER)
    assert await codes() == [ErrorCode.message_too_large, NONE]

    # And once it is unset, all is as before
    change(wire, CLUSTER_WIDE, ("message.max.bytes", UNSET, None), kind=BROKER)
    assert await codes() == [NONE, NONE]


async def test_the_limit_of_connections_follows(broker: BrokerProcess, wire: Wire) -> None:
    # Given as many connections as are allowed from now on, and one that sets it
    async with await WireClient.connect(broker.bootstrap) as one:
        await one.create_topic("connected")
        change(wire, OWN, ("max.connections.per.ip", SET, "1"), kind=BROKER)

        # When another comes, then it is closed; the open one is served
        async with await WireClient.connect(broker.bootstrap) as refused:
            assert await refused.ended()
        await one.topic_id("connected")

        # And once that one may raise the limit again, others are served
        await one.ask(incremental_request(("max.connections.per.ip", UNSET, None)))
    async with await WireClient.connect(broker.bootstrap) as another:
        await another.topic_id("connected")


def incremental_request(*changes: tuple[str, int, str | None]) -> Any:
    module = request_entities(44, 1)
    lines = tuple(
        module.AlterableConfig(name=config, config_operation=operation, value=value)
        for config, operation, value in changes
    )
    resource = module.AlterConfigsResource(resource_type=BROKER, resource_name=OWN, configs=lines)
    return module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


# --- groups


async def test_a_group_follows_its_configs_from_the_next_heartbeat(
    wire: Wire, client: WireClient, name: str
) -> None:
    # Given a group of one
    member = new_member_id()

    async def beat(epoch: int) -> Any:
        names = (name,) if epoch == 0 else None
        request = consumer_heartbeat_request(name, member, epoch, subscribed_topic_names=names)
        return await client.ask(request)

    joined = await beat(0)
    assert joined.heartbeat_interval == dt.timedelta(seconds=5)

    # When its times are set, then the next heartbeat is answered with the new interval
    times = (("consumer.heartbeat.interval.ms", SET, "150"), (SESSION_TIMEOUT_MS, SET, "250"))
    assert change(wire, name, *times, kind=GROUP).error_code is NONE
    answered = await beat(joined.member_epoch)
    assert (answered.error_code, answered.heartbeat_interval) == (
        NONE,
        dt.timedelta(milliseconds=150),
    )

    # And a member that is silent for the new session timeout is out, long before the broker's
    async with asyncio.timeout(20):
        while (await described_group(client, name)).members:
            await asyncio.sleep(0.05)
    assert (await beat(answered.member_epoch)).error_code is ErrorCode.unknown_member_id


async def described_group(client: WireClient, group: str) -> Any:
    request = named(
        CONSUMER_GROUP_DESCRIBE, 0, group_ids=(group,), include_authorized_operations=False
    )
    (described,) = (await client.ask(request)).groups
    return described


# --- with a client that nobody here wrote


def test_the_stock_client_sets_and_describes_a_broker(broker: BrokerProcess, wire: Wire) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(ConfigResource.Type.BROKER, OWN)
    resource.add_incremental_config(
        ConfigEntry("message.max.bytes", "70000", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result(10)

    # Then it is told what counts, and from where
    asked = ConfigResource(ConfigResource.Type.BROKER, OWN)
    configs = admin.describe_configs([asked])[asked].result(10)
    found = configs["message.max.bytes"]
    assert (found.value, found.source) == ("70000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    assert list(found.synonyms) == ["message.max.bytes"]
    assert not found.is_read_only
    assert configs["num.partitions"].is_read_only
    assert entry(wire, OWN, "message.max.bytes", kind=BROKER).value == "70000"

    # And what cannot be set while the broker runs is refused with a reason
    fixed = ConfigResource(ConfigResource.Type.BROKER, OWN)
    fixed.add_incremental_config(
        ConfigEntry("num.partitions", "7", incremental_operation=AlterConfigOpType.SET)
    )
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([fixed])[fixed].result(10)
    error = refused.value.args[0]
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "num.partitions" in error.str()
