"""A broker whose object store, or a proxy before it, says what S3 does not, or not often."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pytest
import pytest_asyncio
from kio.schema.errors import ErrorCode

from protocol.records import Record, build_batch
from storage.reading.cold_gets import MAX_GETS
from tests.support.broker import BrokerProcess, start_broker
from tests.support.odd_s3_server import ETAG, Answer, OddS3Server, error
from tests.support.postgres import until
from tests.support.request_memory import until_held
from tests.support.wire import WireClient, encode_frame, fetch_request, list_offset_request

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAYS_NOTHING: Final = Answer()
ARCHIVED: Final = error(403, "InvalidObjectState")
LATE: Final = "log/wal/00/0192f000-0000-7000-8000-000000000000"
COLD: Final = "cold"
OLD: Final = "old"
OLDER: Final = "older"
OLD_OBJECTS: Final = 24
CANNOT_BE_READ: Final = Answer(headers={**ETAG, "x-amz-object-size": "large"})


def one_record() -> bytes:
    return build_batch([Record(offset_delta=0, value=b"v")])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[OddS3Server]:
    async with OddS3Server.running() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def broker(
    server: OddS3Server, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BrokerProcess]:
    """A broker that was started when all objects were archived, one that has no row among them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("STREAMHOUSE_WRITER__FLUSH_MS", "5")
        data = tmp_path_factory.mktemp("odd")
        store = f"s3://odd/log?endpoint={server.endpoint}&region=us-east-1"
        before = await asyncio.to_thread(start_broker, data, "--store", store)
        async with await WireClient.connect(before.bootstrap) as wire:
            for topic in (COLD, OLDER):
                await wire.create_topic(topic)
                assert (await wire.produce(topic, one_record())).error_code == 0
            await wire.create_topic(OLD)
            for _ in range(OLD_OBJECTS):
                assert (await wire.produce(OLD, one_record())).error_code == 0
        assert await asyncio.to_thread(before.stop) == 0
        server.unreadable = {key: ARCHIVED for key in server.objects if "/wal/" in key}
        server.objects[LATE], server.unreadable[LATE] = b"of nobody" * 20, ARCHIVED
        hasty = ("tests.support.hasty_store_broker",)
        running = await asyncio.to_thread(start_broker, data, "--store", store, program=hasty)
    yield running
    assert await asyncio.to_thread(running.stop) == 0


@pytest.fixture
def away(server: OddS3Server) -> Iterator[None]:
    """The store is away for those who read, until it is told otherwise, or the test ends."""
    server.refusals["GET"] = error(503, "ServiceUnavailable")
    server.wanted.clear()
    yield
    server.refusals.clear()


def search_request(*topics: str) -> Any:
    """Return what looks for records by time."""
    asked = [list_offset_request(topic, 0) for topic in topics]
    return replace(asked[0], topics=tuple(chain.from_iterable(one.topics for one in asked)))


@pytest.mark.parametrize("said", [SAYS_NOTHING, CANNOT_BE_READ], ids=["nothing", "nonsense"])
async def test_what_a_store_does_not_confirm_is_not_acknowledged(
    server: OddS3Server, broker: BrokerProcess, said: Answer
) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        # Given a store that answers 200 to a PUT, but not as S3 does, and keeps nothing
        topic = f"topic-{said is SAYS_NOTHING}"
        await wire.create_topic(topic)
        stored, asked = len(server.objects), server.asked["PUT"]
        server.refusals["PUT"] = said

        # When records are produced, then they are not acknowledged: they are stored again
        produced = asyncio.create_task(wire.produce(topic, one_record()))

        async def asked_again() -> bool:
            return server.asked["PUT"] > asked + 1

        await until(asked_again)
        assert not produced.done()

        # And they are, as soon as they are in the store
        server.refusals.clear()
        assert (await produced).error_code == 0
        assert len(server.objects) == stored + 1


async def test_no_more_is_searched_for_who_has_gone(
    server: OddS3Server, broker: BrokerProcess, away: None
) -> None:
    # Given a client that looks for records of two topics by time, and a store that is away
    async with await WireClient.connect(broker.bootstrap) as wire:
        await wire.send(encode_frame(search_request(OLD, COLD), 0))

        async def is_searched() -> bool:
            return bool(server.wanted)

        await until(is_searched)

    # When it goes, then the store is not asked for what the second one has
    await until_held(broker, 0)
    assert len(server.wanted) == 1


async def test_searches_of_many_topics_do_not_wait_for_one_after_the_other(
    server: OddS3Server, broker: BrokerProcess, away: None
) -> None:
    # When a client looks for records of some topics by time, while the store is away
    async with await WireClient.connect(broker.bootstrap) as wire:
        response = await wire.ask(search_request(OLD, COLD, OLDER))

    # Then it is told of all, and the store was not asked for each
    answers = [topic.partitions[0] for topic in response.topics]
    assert [one.error_code for one in answers] == [ErrorCode.kafka_storage_error] * 3
    assert len(server.wanted) < 3


async def test_an_object_that_is_not_given_out_is_asked_for_until_it_is(
    server: OddS3Server, broker: BrokerProcess
) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        # Given records in an object that is archived: then their offsets are not skipped
        for _ in range(2):
            assert (await wire.fetch(COLD, 0)).error_code is ErrorCode.kafka_storage_error

        # And when it is restored, then they are read at once
        server.unreadable.clear()
        assert bytes((await wire.fetch(COLD, 0)).records)[-3:-1] == one_record()[-3:-1]


async def test_a_fetch_of_old_records_and_new_ones_has_these_while_the_store_is_away(
    server: OddS3Server, broker: BrokerProcess, away: None
) -> None:
    async with await WireClient.connect(broker.bootstrap) as wire:
        # Given a record that memory has, others that only the store has, and a store that is away
        await wire.create_topic("live")
        assert (await wire.produce("live", one_record())).error_code == 0

        # When a fetch wants both, then it has the one, and is told of the others
        wanted = fetch_request([(OLD, 0, 0), ("live", 0, 0)], max_bytes=50 << 20)
        response = await wire.ask(wanted)
        old, live = (topic.partitions[0] for topic in response.responses)
        assert old.error_code is ErrorCode.kafka_storage_error
        assert bytes(live.records)[-3:-1] == one_record()[-3:-1]

        # And it did not wait for as many rounds as it takes to ask for all of them
        assert 0 < len(server.wanted) <= MAX_GETS < OLD_OBJECTS

        # And when the store is back, then they are read at once
        server.refusals.clear()
        assert (await wire.fetch(OLD, 0)).error_code is ErrorCode.none
