"""Recovery of partitions that several brokers wrote to in one leader epoch, as racks let them."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.storage.stored_log import WRITER, StoredLog, stored_log
from tests.storage.test_recover_changed import records_of
from tests.storage.test_recover_store import extents, recover

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


async def write_unaware(log: StoredLog, writer: UUID, *values: bytes) -> str:
    """Store an object of a broker that has heard of nothing in the log."""
    log.writer = writer
    log.ends[log.partition()] = 0
    return await log.write(*values)


async def tell_the_rest(log: StoredLog) -> None:
    """Let both brokers write to another partition, which tells where their last batches are."""
    for writer in (WRITER, OTHER):
        log.writer = writer
        await log.write(b"x", index=1)


@pytest.mark.parametrize("is_built", [False, True])
async def test_what_later_objects_tell_is_where_it_was_whatever_was_expected(
    log: StoredLog, is_built: bool
) -> None:
    # Given two brokers that take turns without hearing of each other, and offsets that are lost
    log.tells = True
    await write_unaware(log, WRITER, b"a", b"b")
    await write_unaware(log, OTHER, b"c", b"d", b"e")
    if is_built:
        await log.build()
    await write_unaware(log, WRITER, b"f")
    lost = await write_unaware(log, OTHER, b"g", b"h")
    for writer in (WRITER, WRITER, OTHER, WRITER, OTHER):
        await write_unaware(log, writer, b"i", b"j")
    await tell_the_rest(log)
    before = await records_of(log)
    log.spoil(lost, None)
    del before[6], before[7]

    # When Postgres is lost, then all the rest is where it was
    report = await recover(log)
    assert await records_of(log) == before
    assert (report.topics[0].lost, report.topics[0].moved) == ([(0, 6, 7)], 0)


async def test_what_was_stepped_over_is_where_later_objects_tell(log: StoredLog) -> None:
    # Given rows that were stepped over, of brokers that had heard of nothing
    log.tells = True
    writers = (WRITER, OTHER, OTHER, WRITER, OTHER, WRITER)
    paths = [await write_unaware(log, writer, b"same", b"same") for writer in writers]
    await tell_the_rest(log)
    contents = {paths[number]: log.content(paths[number]) for number in (1, 2, 4)}
    for path in contents:
        log.spoil(path, None)
    await log.build()
    for path, content in contents.items():
        log.spoil(path, content)
    before, rows = await records_of(log), await extents(log)

    # When Postgres is lost, then they are where they were
    report = await recover(log)
    assert (await records_of(log), await extents(log)) == (before, rows)
    assert (report.topics[0].lost, report.topics[0].moved) == ([], 0)


async def test_only_what_nobody_tells_is_put_where_there_is_room(log: StoredLog) -> None:
    # Given a broker whose last object nothing came behind, while another one went on
    log.tells = True
    await write_unaware(log, WRITER, b"a", b"b")
    await write_unaware(log, OTHER, b"c")
    await write_unaware(log, WRITER, b"d")
    await write_unaware(log, WRITER, b"e")
    before = await records_of(log)

    # When Postgres is lost, then that is where it fits, and the others are where they were
    report = await recover(log)
    assert await records_of(log) == before
    assert report.topics[0].lost == []
