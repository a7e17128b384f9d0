"""A request of thousands of elements does not keep the event loop from everybody else."""

import asyncio
from typing import Any, Final

from kio.schema.errors import ErrorCode

from tests.support.broker import BrokerProcess
from tests.support.wire import WireClient, build, milliseconds, request_entities

CREATE_TOPICS: Final = 19
API_VERSIONS: Final = 18
TOPICS: Final = 2_000
FEWEST_TURNS: Final = 20
"""Answers to another client meanwhile; it had one, while all was done in a single turn."""


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
    async with (
        await WireClient.connect(broker.bootstrap) as large,
        await WireClient.connect(broker.bootstrap) as small,
    ):
        # Given a client that asks for thousands of topics in one request
        asked = asyncio.create_task(large.ask(creation()))
        await asyncio.sleep(0)

        # When another one asks for little, again and again, until the first has its answer
        answered = 0
        versions = request_entities(API_VERSIONS, 0).ApiVersionsRequest()
        while not asked.done():
            await small.ask(versions)
            answered += 1

        # Then it had its turns, and the first its answer
        assert {topic.error_code for topic in (await asked).topics} == {ErrorCode.none}
        assert answered >= FEWEST_TURNS
