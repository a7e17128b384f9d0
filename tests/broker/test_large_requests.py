"""A request of thousands of elements does not keep the event loop from everybody else.

Nor does a small one whose answer has thousands.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess, running_broker
from tests.support.group_wire import (
    codes,
    commit_request,
    committed,
    fetch_request,
    join_request,
    named,
    sync_request,
)
from tests.support.large_requests import alteration, deletion
from tests.support.wire import (
    WireClient,
    build,
    encode_frame,
    milliseconds,
    request_entities,
)

API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
DESCRIBE_LOG_DIRS: Final = 35
TOPICS: Final = 2_000
PARTITIONS: Final = 10_000
MIRRORED_TOPICS: Final = 1_500
ASSIGNMENTS: Final = 150_000
"""More than are decoded at once."""
FEWEST_TURNS: Final = 20
"""Answers to another client meanwhile; it had one, while all was done in a single turn."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a topic "t" of many partitions, all of which the group "g" has committed."""
    with running_broker(tmp_path_factory.mktemp("large")) as broker:
        asyncio.run(fill(broker))
        yield broker


async def fill(broker: BrokerProcess) -> None:
    async with await WireClient.connect(broker.bootstrap) as client:
        await client.create_topic("t", PARTITIONS)
        commit = commit_request("g", {"t": dict.fromkeys(range(PARTITIONS), 5)})
        assert set(codes(await client.ask(commit))) == {ErrorCode.none}


async def answered_meanwhile(broker: BrokerProcess, request: Any) -> tuple[Any, int]:
    """Ask for much, and for little on another connection until that is there.

    Returns:
        The answer, and how many others came before it.
    """
    async with (
        await WireClient.connect(broker.bootstrap) as large,
        await WireClient.connect(broker.bootstrap) as small,
    ):
        asked = asyncio.create_task(large.ask(request))
        await asyncio.sleep(0)
        answered = 0
        versions = request_entities(API_VERSIONS, 0).ApiVersionsRequest()
        while not asked.done():
            await small.ask(versions)
            answered += 1
        return await asked, answered


def creation() -> Any:
    module = request_entities(CREATE_TOPICS, 7)
    topics = tuple(
        build(
            module,
            "CreatableTopic",
            name=f"checked-{number}",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        for number in range(TOPICS)
    )
    return module.CreateTopicsRequest(
        topics=topics, timeout=milliseconds(1_000), validate_only=True
    )


async def test_others_are_answered_meanwhile(broker: BrokerProcess) -> None:
    answer, answered = await answered_meanwhile(broker, creation())
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.none}
    assert answered >= FEWEST_TURNS


@pytest.mark.parametrize("version", [7, 10])
async def test_while_all_offsets_are_fetched(large: BrokerProcess, version: int) -> None:
    answer, answered = await answered_meanwhile(large, fetch_request("g", None, version=version))
    (found,) = committed(answer).values()
    assert found == dict.fromkeys(range(PARTITIONS), (5, ""))
    assert answered >= FEWEST_TURNS


async def test_while_all_log_directories_are_described(large: BrokerProcess) -> None:
    answer, answered = await answered_meanwhile(large, named(DESCRIBE_LOG_DIRS, 4, topics=None))
    (topic,) = answer.results[0].topics
    assert len(topic.partitions) == PARTITIONS
    assert answered >= FEWEST_TURNS


async def test_more_configs_than_are_decoded_at_once_are_altered(broker: BrokerProcess) -> None:
    answer, answered = await answered_meanwhile(broker, alteration(MIRRORED_TOPICS))
    names = [resource.resource_name for resource in answer.responses]
    assert names == [f"mirrored-{number}" for number in range(MIRRORED_TOPICS)]
    unknown = ErrorCode.unknown_topic_or_partition
    assert {resource.error_code for resource in answer.responses} == {unknown}
    assert answered >= FEWEST_TURNS


async def test_more_offsets_than_are_decoded_at_once_are_committed_and_deleted(
    large: BrokerProcess,
) -> None:
    # Given a commit of partitions that there are, and of more that there are not
    offsets = dict.fromkeys(range(4 * PARTITIONS), 7)

    # When it is asked for, then each partition answers for itself, and others are answered
    answer, answered = await answered_meanwhile(large, commit_request("many", {"t": offsets}))
    known, unknown = codes(answer)[:PARTITIONS], codes(answer)[PARTITIONS:]
    assert set(known) == {ErrorCode.none}
    assert unknown == [ErrorCode.unknown_topic_or_partition] * (3 * PARTITIONS)
    assert answered >= FEWEST_TURNS

    # When all of these are to be deleted again, then they are
    answer, answered = await answered_meanwhile(large, deletion("many", 4 * PARTITIONS))
    assert codes(answer) == known + unknown
    left, _ = await answered_meanwhile(large, fetch_request("many", None))
    assert committed(left) == {}
    assert answered >= FEWEST_TURNS


async def test_members_that_wait_for_their_leader_take_no_turn_of_the_largest(
    large: BrokerProcess,
) -> None:
    async with (
        await WireClient.connect(large.bootstrap) as one,
        await WireClient.connect(large.bootstrap) as two,
        await WireClient.connect(large.bootstrap) as three,
    ):
        # Given a group whose leader does not sync
        members = (one, two, three)
        join = join_request(
            "waits", version=3, session_timeout_ms=300_000, rebalance_timeout_ms=300_000
        )
        joined = await asyncio.gather(*(member.ask(join) for member in members))
        followers = [
            (member, answer.member_id, answer.generation_id)
            for member, answer in zip(members, joined, strict=True)
            if answer.member_id != answer.leader
        ]
        assert len(followers) == 2

        # When both followers say more than is decoded at once
        assignments = {str(number): b"" for number in range(ASSIGNMENTS)}
        for member, member_id, generation_id in followers:
            sync = sync_request("waits", member_id, generation_id, assignments, version=3)
            await member.send(encode_frame(sync, 2))

        # Then others may, too, and are answered
        commit = commit_request("others", {"t": dict.fromkeys(range(4 * PARTITIONS), 7)})
        answer, _ = await answered_meanwhile(large, commit)
        assert codes(answer)[0] == ErrorCode.none
        assert [await member.ended() for member, *_ in followers] == [True, True]
