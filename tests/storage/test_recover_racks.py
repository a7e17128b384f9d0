"""Recovery of partitions that several brokers wrote to in one leader epoch, as racks let them."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.storage.stored_log import WRITER, StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import recover

OTHER = UUID(int=0x78)


@pytest.fixture
async def log() -> AsyncIterator[StoredLog]:
    """An empty log."""
    async with stored_log() as opened:
        yield opened


async def test_a_producer_that_went_to_a_broker_that_began_earlier_loses_nothing(
    log: StoredLog,
) -> None:
    # Given a broker that wrote first, and a producer that began with another one in the same epoch
    await log.write(b"first")
    log.writer = OTHER
    await log.write(b"a", b"b", producer=(40, 2, 0))
    await log.write(b"c", producer=(40, 2, 2))

    # When the producer goes on with the first one, and Postgres is lost
    log.writer = WRITER
    await log.write(b"d", producer=(40, 2, 3))
    await log.write(b"e", b"f", producer=(40, 2, 4))
    before = await records_of(log)
    report = await recover(log)

    # Then all of it is where it was
    assert await records_of(log) == before
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)


async def test_what_another_broker_committed_behind_what_is_built_is_not_lost(
    log: StoredLog,
) -> None:
    # Given a broker that has not heard of what another one wrote, all of which is built
    await log.write(b"a", b"b")
    log.writer = OTHER
    await log.write(b"c", b"d")
    await log.build()

    # When it writes behind that, in the same epoch, and Postgres is lost
    log.writer = WRITER
    log.ends[log.partition()] = 2
    await log.write(b"e", b"f")
    before = await records_of(log)
    await recover(log)

    # Then that is where it was
    assert await records_of(log) == before
