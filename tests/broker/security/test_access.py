"""What ACLs decide besides refusing a request: what is left out, and what ends when they change."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from protocol.acl import WILDCARD, Operation, Permission, ResourceType
from protocol.records import Record, build_batch
from tests.broker.security.row_client import read_answer
from tests.oracle.wire_frames import frame_of
from tests.support.access import AUTHORIZER, Rule, create_acls, delete_acls, management
from tests.support.broker import running_broker
from tests.support.wire import WireClient, encode_frame, fetch_request

NONE: Final = ErrorCode.none
DENIED: Final = ErrorCode.topic_authorization_failed
CREATE_TOPICS, DELETE_TOPICS, METADATA = 19, 20, 3
SETTLED_BEATS: Final = 20

_hosts = itertools.count(1)


@pytest.fixture(scope="module", name="bootstrap")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = AUTHORIZER | {"group.initial.rebalance.delay.ms": "0"}
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    with running_broker(tmp_path_factory.mktemp("access"), *arguments) as running:
        yield running.bootstrap


class Asker:
    """A client with an address of its own, whose ACLs the manager makes and takes away."""

    def __init__(self, bootstrap: str, client: WireClient, manager: WireClient, host: str) -> None:
        self.bootstrap = bootstrap
        self.client = client
        self.manager = manager
        self.host = host

    async def may(
        self,
        operation: Operation,
        kind: ResourceType,
        name: str,
        permission: Permission = Permission.ALLOW,
    ) -> Rule:
        rule = Rule(
            host=self.host,
            operation=operation,
            resource_type=kind,
            name=name,
            permission=permission,
        )
        await create_acls(self.manager, [rule])
        return rule

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        return await _ask(self.client, api_key, version, values)

    async def manage(self, api_key: int, version: int, **values: Any) -> Any:
        return await _ask(self.manager, api_key, version, values)


async def _ask(client: WireClient, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
    frame, _ = frame_of(api_key, version, values, 0)
    await client.send(frame)
    return read_answer(api_key, version, await client.receive_frame()).response


@pytest.fixture
async def asker(bootstrap: str) -> Any:
    host = f"127.2.0.{next(_hosts)}"
    async with (
        await WireClient.connect(bootstrap) as manager,
        await WireClient.connect(bootstrap, local_host=host) as client,
    ):
        await create_acls(manager, management())
        yield Asker(bootstrap, client, manager, host)


TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


async def test_a_kept_answer_is_for_nobody_else(asker: Asker, topic: str) -> None:
    # Given an answer that the manager got, twice, so that it is kept
    await asker.manager.create_topic(topic)
    topics = [{"name": topic}]
    for _ in range(2):
        assert (await asker.manage(METADATA, 12, topics=topics)).topics[0].error_code == NONE
        assert topic in names(await asker.manage(METADATA, 12, topics=None))

    # When somebody asks just the same, who may not, then it is no answer for him
    assert (await asker.ask(METADATA, 12, topics=topics)).topics[0].error_code == DENIED
    assert topic not in names(await asker.ask(METADATA, 12, topics=None))

    # When he may, then it is at once; and when he may not any more, then it is not
    rule = await asker.may(Operation.DESCRIBE, TOPIC, topic)
    assert (await asker.ask(METADATA, 12, topics=topics)).topics[0].error_code == NONE
    assert topic in names(await asker.ask(METADATA, 12, topics=None))
    await delete_acls(asker.manager, [rule])
    assert (await asker.ask(METADATA, 12, topics=topics)).topics[0].error_code == DENIED
    assert topic not in names(await asker.ask(METADATA, 12, topics=None))


async def test_an_id_does_not_tell_a_name(asker: Asker, topic: str) -> None:
    await asker.manager.create_topic(topic)
    topic_id = await asker.manager.topic_id(topic)

    (described,) = (await asker.ask(METADATA, 12, topics=[{"topic_id": topic_id}])).topics
    assert (described.error_code, described.name, described.topic_id) == (DENIED, None, topic_id)
    (deleted,) = (await asker.ask(DELETE_TOPICS, 6, topics=[{"topic_id": topic_id}])).responses
    assert (deleted.error_code, deleted.name, deleted.topic_id) == (DENIED, None, topic_id)
    twice = [{"topic_id": topic_id}, {"name": topic}]
    answers = (await asker.ask(DELETE_TOPICS, 6, topics=twice)).responses
    assert {one.error_code for one in answers} == {DENIED}  # not that they are the same

    await asker.may(Operation.DESCRIBE, TOPIC, topic)
    (described,) = (await asker.ask(METADATA, 12, topics=[{"topic_id": topic_id}])).topics
    assert (described.error_code, described.name) == (NONE, topic)


async def test_who_waits_for_records_gets_none_after_its_acl_is_gone(
    asker: Asker, topic: str
) -> None:
    # Given a client that waits for records
    await asker.manager.create_topic(topic)
    rule = await asker.may(Operation.READ, TOPIC, topic)
    assert (await asker.client.fetch(topic, 0, max_wait_ms=0)).error_code == NONE
    await asker.client.send(encode_frame(fetch_request([(topic, 0, 0)], max_wait_ms=60_000), 0))

    # When it may not read any more, and a record comes
    await delete_acls(asker.manager, [rule])
    assert (
        await asker.manager.produce(topic, build_batch([Record(offset_delta=0, value=b"v")]))
    ).error_code == NONE

    # Then it does not get that
    answer = read_answer(1, 12, await asker.client.receive_frame()).response
    (partition,) = answer.responses[0].partitions
    assert (partition.error_code, partition.records) == (DENIED, b"")


async def test_a_session_is_told_when_its_acl_is_gone_and_when_it_is_back(
    asker: Asker, topic: str
) -> None:
    # Given a session that has nothing new to be told
    await asker.manager.create_topic(topic)
    rule = await asker.may(Operation.READ, TOPIC, topic)
    begin = fetch_request([(topic, 0, 0)], max_wait_ms=0, session_epoch=0)
    session_id = (await asker.client.ask(begin)).session_id

    async def told(epoch: int) -> list[ErrorCode]:
        request = fetch_request([], max_wait_ms=0, session_id=session_id, session_epoch=epoch)
        answer = await asker.client.ask(request)
        return [one.error_code for topic in answer.responses for one in topic.partitions]

    assert await told(1) == []

    # When its client may not read any more, and then may again
    await delete_acls(asker.manager, [rule])
    denied = [await told(2), await told(3)]
    await asker.may(Operation.READ, TOPIC, topic)

    # Then it is told so
    assert (denied, await told(4), await told(5)) == ([[DENIED], [DENIED]], [NONE], [])


async def test_what_is_denied_looks_the_same_there_or_not(asker: Asker, topic: str) -> None:
    await asker.manager.create_topic(topic)
    missing = f"{topic}-missing"

    for api_key, version, values in (
        (METADATA, 12, {"topics": [{"name": topic}, {"name": missing}]}),
        (75, 0, {"topics": [{"name": topic}, {"name": missing}]}),
    ):
        answers = (await asker.ask(api_key, version, **values)).topics
        first, second = (dataclasses.replace(one, name="") for one in answers)
        assert first == second
        assert first.error_code == DENIED
    for name in (topic, missing):
        assert (await asker.client.fetch(name, 0)).error_code == DENIED


async def test_what_a_new_topic_is_like_needs_describe_configs(asker: Asker, topic: str) -> None:
    await asker.may(Operation.CREATE, CLUSTER, "kafka-cluster")
    new = {"num_partitions": 2, "replication_factor": 1}
    (made,) = (
        await asker.ask(CREATE_TOPICS, 7, topics=[new | {"name": topic}], timeout=10_000)
    ).topics
    assert (made.error_code, made.topic_config_error_code) == (NONE, DENIED)
    assert (made.num_partitions, made.replication_factor, made.configs) == (-1, -1, ())

    await asker.may(Operation.DESCRIBE_CONFIGS, TOPIC, f"{topic}-2")
    (made,) = (
        await asker.ask(CREATE_TOPICS, 7, topics=[new | {"name": f"{topic}-2"}], timeout=10_000)
    ).topics
    assert (made.error_code, made.topic_config_error_code) == (NONE, NONE)
    assert made.num_partitions == 2
    assert made.configs


async def test_rights_on_the_cluster_stand_for_those_on_each_thing(
    asker: Asker, topic: str
) -> None:
    await asker.manager.create_topic(topic)
    await asker.manage(
        8,
        8,
        group_id=topic,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [{"committed_offset": 0}]}],
    )

    await asker.may(Operation.DESCRIBE, CLUSTER, "kafka-cluster")
    assert topic in {group.group_id for group in (await asker.ask(16, 5)).groups}
    await asker.may(Operation.CLUSTER_ACTION, CLUSTER, "kafka-cluster")
    asked = [{"topic": topic, "partitions": [{"leader_epoch": 0}]}]
    (found,) = (await asker.ask(23, 4, replica_id=-1, topics=asked)).topics
    assert found.partitions[0].error_code == NONE
    await asker.may(Operation.DELETE, CLUSTER, "kafka-cluster")
    (gone,) = (await asker.ask(DELETE_TOPICS, 6, topics=[{"name": topic}])).responses
    assert gone.error_code == NONE


async def test_a_member_whose_acl_is_taken_away_hears_so(asker: Asker, topic: str) -> None:
    # Given a member
    rule = await asker.may(Operation.READ, GROUP, topic)
    joined = await asker.ask(
        11,
        3,
        group_id=topic,
        session_timeout=30_000,
        rebalance_timeout=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    assert joined.error_code == NONE
    who = {"group_id": topic, "generation_id": 1, "member_id": joined.member_id}
    assert (await asker.ask(12, 4, **who)).error_code == NONE

    # When its ACL is taken away
    await delete_acls(asker.manager, [rule])

    # Then its next heartbeat tells
    denied = ErrorCode.group_authorization_failed
    assert (await asker.ask(12, 4, **who)).error_code == denied


async def test_a_pattern_matches_what_its_member_may_see(asker: Asker, topic: str) -> None:
    # Given topics of which a member may see one
    seen, hidden = f"{topic}-seen", f"{topic}-hidden"
    ids = {}
    for name in (seen, hidden):
        await asker.manager.create_topic(name)
        ids[await asker.manager.topic_id(name)] = name
    await asker.may(Operation.READ, GROUP, topic)
    rule = await asker.may(Operation.DESCRIBE, TOPIC, seen)

    async def beat(epoch: int, **said: Any) -> Any:
        return await asker.ask(68, 1, group_id=topic, member_id="m", member_epoch=epoch, **said)

    def topics_of(answer: Any) -> set[str]:
        return {ids[one.topic_id] for one in answer.assignment.topic_partitions}

    # When it subscribes to both by a pattern, then it gets the one
    joined = await beat(
        0,
        subscribed_topic_regex=f"{topic}-.*",
        rebalance_timeout=30_000,
        topic_partitions=[],
    )
    assert topics_of(joined) == {seen}

    # When it may see the other one instead, then that is what its next heartbeats give it
    await asker.may(Operation.DESCRIBE, TOPIC, hidden)
    await delete_acls(asker.manager, [rule])
    epoch, holds = joined.member_epoch, {seen}
    for _ in range(SETTLED_BEATS):
        owned = [
            {"topic_id": topic_id, "partitions": [0]}
            for topic_id, name in ids.items()
            if name in holds
        ]
        answer = await beat(epoch, topic_partitions=owned)
        assert answer.error_code == NONE
        epoch = answer.member_epoch
        if answer.assignment is not None:
            holds = topics_of(answer)
    assert holds == {hidden}

    # And who describes the group has to be allowed to know of that, too
    await asker.may(Operation.DESCRIBE, GROUP, topic)
    assert (await asker.ask(69, 1, group_ids=[topic])).groups[0].error_code == NONE
    await asker.may(Operation.DESCRIBE, TOPIC, hidden, Permission.DENY)
    (described,) = (await asker.ask(69, 1, group_ids=[topic])).groups
    assert (described.error_code, described.members) == (DENIED, ())
    assert hidden not in repr(described)


async def test_a_transaction_does_not_tell_hidden_topics(asker: Asker, topic: str) -> None:
    await asker.manager.create_topic(topic)
    found = await asker.manage(22, 4, transactional_id=topic, transaction_timeout=60_000)
    await asker.manage(
        24,
        3,
        v3_and_below_transactional_id=topic,
        v3_and_below_producer_id=found.producer_id,
        v3_and_below_producer_epoch=found.producer_epoch,
        v3_and_below_topics=[{"name": topic, "partitions": [0]}],
    )
    await asker.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, topic)

    (state,) = (await asker.ask(65, 0, transactional_ids=[topic])).transaction_states
    assert (state.error_code, state.transaction_state, state.topics) == (NONE, "Ongoing", ())
    await asker.may(Operation.DESCRIBE, TOPIC, WILDCARD)
    (state,) = (await asker.ask(65, 0, transactional_ids=[topic])).transaction_states
    assert [one.topic for one in state.topics] == [topic]


def names(answer: Any) -> set[str]:
    return {one.name for one in answer.topics}
