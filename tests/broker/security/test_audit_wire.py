"""The audit log of a broker that clients change things of."""

import asyncio
import hashlib
import json
import socket
import struct
import urllib.request
from typing import Any

from kio.schema.errors import ErrorCode

from tests.broker.admin.questions import SET, UNSET, change
from tests.broker.admin.wire import TIMEOUT, Api, Wire
from tests.broker.security.acl_wire import (
    DENIED,
    NONE,
    TOPIC,
    WRITE,
    alter_configs,
    configs_of,
    create,
    delete,
    describe,
)
from tests.broker.security.cluster_requests import CREATION
from tests.support.broker import BrokerProcess
from tests.support.row_locks import locked, until_waits
from tests.support.wire import encode_frame

BROKER_LOGGER, GROUP = 8, 32
SECRET = "not to be told"
PATIENCE_S = 20.0
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: nothing is said but that the connection is gone."""
RETENTION = {"name": "retention.ms", "value": "86400000", "config_operation": 0}


def audited(broker: BrokerProcess, name: str) -> list[dict[str, Any]]:
    """Return the lines about something of that name."""
    lines = [json.loads(line) for line in broker.log.read_text().splitlines()]
    return [
        line for line in lines if line.get("logger") == "audit" and name in str(line.get("name"))
    ]


def test_what_was_done_and_what_was_denied_is_told(
    acl_broker: BrokerProcess, admin: Wire, stranger: Wire, name: str
) -> None:
    # Given an ACL, and attempts of somebody who may neither create any nor describe the topic
    one = {"resource_name": name}
    assert create(admin, one) == [NONE]
    assert create(stranger, one | {"operation": WRITE}) == [DENIED]
    for _ in range(2):
        assert configs_of(stranger, TOPIC, name) is ErrorCode.topic_authorization_failed
    assert len(delete(admin, {"resource_name_filter": name})) == 1

    # Then the log tells of it: who, from where, what; a denial that repeats is not told twice
    created, denied, deleted = audited(acl_broker, name)
    assert (created["event"], deleted["event"]) == ("ACL created", "ACL deleted")
    assert (created["principal"], created["host"]) == ("User:ANONYMOUS", "127.0.0.1")
    assert (created["acl_principal"], created["operation"]) == ("User:alice", "READ")
    assert (created["outcome"], created["client_id"]) == ("done", "wire")
    assert denied["event"] == "operation denied"
    assert (denied["host"], denied["resource"], denied["count"]) == ("127.0.0.2", "TOPIC", 1)
    assert (denied["operation"], denied["api"]) == ("DESCRIBE_CONFIGS", "describe_configs")


def test_no_level_hides_it(
    acl_broker: BrokerProcess, admin: Wire, stranger: Wire, name: str
) -> None:
    # Given a broker whose log is as quiet as it can be
    quiet = change(admin, "0", ("root", SET, "FATAL"), kind=BROKER_LOGGER)
    assert quiet.error_code is NONE
    try:
        # When something is done, and something denied
        assert create(admin, {"resource_name": name}) == [NONE]
        assert configs_of(stranger, TOPIC, name) is ErrorCode.topic_authorization_failed
    finally:
        change(admin, "0", ("root", SET, "INFO"), kind=BROKER_LOGGER)

    # Then the audit log tells of it, and who has quieted the log
    lines = audited(acl_broker, name)
    assert [line["event"] for line in lines] == ["ACL created", "operation denied"]
    changes = [line for line in audited(acl_broker, "0") if line["event"] == "configs altered"]
    (quieted, _) = [line for line in changes if line["resource"] == "BROKER_LOGGER"]
    assert (quieted["configs"], quieted["host"]) == (["root"], "127.0.0.1")


async def test_what_is_done_is_told_although_its_client_has_gone(
    acl_broker: BrokerProcess, admin: Wire, name: str
) -> None:
    # Given an ACL that Postgres is about to keep
    api = Api(30, 3)
    creation = api.part("AclCreation", **{**CREATION, "resource_name": name})
    request = encode_frame(api.request(creations=(creation,)), 1)
    with socket.create_connection(("127.0.0.1", acl_broker.port)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        async with locked(acl_broker, "cluster"):
            client.sendall(request)
            async with asyncio.timeout(PATIENCE_S):
                await until_waits(acl_broker, "alter_entity_configs")

            # When the client resets its connection before it does, which the broker learns
            client.close()
            for _ in range(2):
                assert not describe(admin, resource_name_filter=name)

    # Then there is the ACL, and a line about it
    async with asyncio.timeout(PATIENCE_S):
        while not describe(admin, resource_name_filter=name):
            await asyncio.sleep(0.05)
        while not (lines := audited(acl_broker, name)):
            await asyncio.sleep(0.05)
    assert [line["event"] for line in lines] == ["ACL created"]


def change_everything(wire: Wire, name: str) -> None:
    """Make a topic and all that can be set beside it, and delete the topic."""
    api = Api(19, 7)
    topic = api.part(
        "CreatableTopic",
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    wire.ask(api.request(topics=(topic,), timeout=TIMEOUT, validate_only=True))
    wire.ask(api.request(topics=(topic,), timeout=TIMEOUT, validate_only=False))
    wire.ask(api.request(topics=(topic,), timeout=TIMEOUT, validate_only=False))
    api = Api(37, 3)
    more = api.part("CreatePartitionsTopic", name=name, count=3, assignments=None)
    wire.ask(api.request(topics=(more,), timeout=TIMEOUT, validate_only=False))
    for key, version, part in ((44, 1, "AlterableConfig"), (33, 2, "AlterableConfig")):
        api = Api(key, version)
        resource = api.part(
            "AlterConfigsResource",
            resource_type=TOPIC,
            resource_name=name,
            configs=(api.part(part, **RETENTION),),
        )
        wire.ask(api.request(resources=(resource,), validate_only=False))
    api = Api(21, 2)
    offsets = tuple(
        api.part("DeleteRecordsPartition", partition_index=index, offset=-1) for index in range(2)
    )
    records = api.part("DeleteRecordsTopic", name=name, partitions=offsets)
    wire.ask(api.request(topics=(records,), timeout=TIMEOUT))
    api = Api(49, 1)
    entry = api.part(
        "EntryData",
        entity=(api.part("EntityData", entity_type="user", entity_name=name),),
        ops=(api.part("OpData", key="request_percentage", value=200.0, remove=False),),
    )
    wire.ask(api.request(entries=(entry,), validate_only=False))
    api = Api(51, 0)
    upsertion = api.part(
        "ScramCredentialUpsertion",
        name=name,
        mechanism=1,
        iterations=4096,
        salt=b"salt",
        salted_password=hashlib.pbkdf2_hmac("sha256", SECRET.encode(), b"salt", 4096),
    )
    wire.ask(api.request(deletions=(), upsertions=(upsertion,)))
    api = Api(20, 6)
    gone = api.part("DeleteTopicState", name=name, topic_id=None)
    wire.ask(api.request(topics=(gone,), timeout=TIMEOUT))


def test_administrative_changes_are_told(acl_broker: BrokerProcess, admin: Wire, name: str) -> None:
    # When a client changes things, some of which cannot be, or are only checked
    change_everything(admin, name)

    # Then there is one line for each that was done, in order, and no more
    lines = audited(acl_broker, name)
    assert [line["event"] for line in lines] == [
        "topic created",
        "partitions created",
        "configs altered",
        "configs altered",
        "records deleted",
        "quotas altered",
        "SCRAM credentials altered",
        "topic deleted",
    ]
    assert {line["outcome"] for line in lines} == {"done"}
    assert lines[1]["partitions"] == 3
    assert lines[2]["configs"] == ["retention.ms"]
    assert lines[4]["partitions"] == 2

    # And no secret is in them
    text = acl_broker.log.read_text()
    assert SECRET not in text
    assert hashlib.pbkdf2_hmac("sha256", SECRET.encode(), b"salt", 4096).hex() not in text


def test_made_up_configs_neither_fill_the_log_nor_hide_another(
    acl_broker: BrokerProcess, admin: Wire, name: str
) -> None:
    # Given a change of one config, among very many names that nothing has
    made_up = [(f"a{number}\u202e{'x' * 10_000}", UNSET, None) for number in range(300)]
    changes = [*made_up, ("consumer.session.timeout.ms", SET, "50000")]

    # When it is done
    assert change(admin, name, *changes, kind=GROUP).error_code is NONE

    # Then each line about it is short, and tells of that config
    log = acl_broker.log.read_text()
    lines = [line for line in log.splitlines() if name in line and "configs altered" in line]
    assert len(lines) == 2
    assert max(map(len, lines)) < 8_000
    for line in lines:
        first, *others, more = json.loads(line)["configs"]
        assert first == "consumer.session.timeout.ms"
        assert len(others) == 20
        assert more == "280 more like these"

    # And in the audit log nothing that could be chosen is printed as it is
    (audit,) = audited(acl_broker, name)
    assert audit["configs"][1].startswith("a0\\u202exxx")


def denials(broker: BrokerProcess, operation: str) -> float:
    """Return how often somebody was not allowed that with a topic, as /metrics tells it."""
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=20) as answer:
        text: str = answer.read().decode()
    sample = f'streamhouse_denied_operations_total{{operation="{operation}",resource="TOPIC"}}'
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(sample))


def test_denials_are_counted(
    acl_broker: BrokerProcess, admin: Wire, stranger: Wire, name: str
) -> None:
    before = denials(acl_broker, "ALTER_CONFIGS")
    assert create(admin, {"resource_name": name}) == [NONE]
    assert alter_configs(stranger, 44, TOPIC, name) is ErrorCode.topic_authorization_failed
    assert alter_configs(stranger, 33, TOPIC, name) is ErrorCode.topic_authorization_failed
    assert denials(acl_broker, "ALTER_CONFIGS") == before + 2


def test_a_denied_deletion_is_one_denial(
    acl_broker: BrokerProcess, admin: Wire, stranger: Wire, name: str
) -> None:
    before = denials(acl_broker, "DESCRIBE")
    assert create(admin, {"resource_name": name}) == [NONE]
    api = Api(20, 6)
    gone = api.part("DeleteTopicState", name=name, topic_id=None)
    (answer,) = stranger.ask(api.request(topics=(gone,), timeout=TIMEOUT)).responses
    assert answer.error_code is ErrorCode.topic_authorization_failed
    assert denials(acl_broker, "DESCRIBE") == before + 1
