"""Log compaction and transactions: what aborted ones leave, and how long markers stay."""

from protocol.batch import read_header
from storage.upkeep.segment_rows import read_index
from tests.storage.compacted_log import records_of
from tests.storage.compaction_world import World


async def test_what_aborted_transactions_wrote_goes_and_supersedes_nothing() -> None:
    world = await World().open()
    await world.produce([(b"a", b"1")])
    await world.produce_in_transaction("t", [(b"a", b"aborted"), (b"b", b"aborted")])
    marker = await world.end("t", committed=False)
    await world.produce_in_transaction("t", [(b"c", b"1")])
    await world.end("t", committed=True)
    await world.build()
    await world.compact()
    assert await world.latest() == {b"a": b"1", b"c": b"1"}

    # Its marker stays, as long as readers are told of the transaction: they go on behind it.
    for _ in range(3):
        world.now_ms += 10_000
        await world.produce([(b"x", b"1")])
        await world.build()
        await world.compact()
        assert marker in {read_header(batch).base_offset for batch in await world.batches()}
        assert (await world.latest())[b"c"] == b"1"


async def test_the_marker_of_a_committed_transaction_goes_after_its_records() -> None:
    # Given a transaction whose record is superseded
    world = await World().open()
    await world.produce_in_transaction("t", [(b"a", b"1")])
    marker = await world.end("t", committed=True)
    await world.build()

    async def markers() -> list[int]:
        headers = map(read_header, await world.batches())
        return [header.base_offset for header in headers if header.is_control]

    async def compact_again() -> None:
        await world.produce([(b"a", b"2")])
        await world.build()
        await world.compact()

    # When the record goes, the marker stays; the next compaction finds that nothing needs it
    await compact_again()
    assert await markers() == [marker]
    assert await world.horizons() == {}
    await compact_again()
    assert await world.horizons() == {marker: world.now_ms + 1_000}

    # Then it goes after delete.retention.ms
    world.now_ms += 999
    await compact_again()
    assert await markers() == [marker]
    world.now_ms += 1
    await compact_again()
    assert await markers() == []


async def test_nothing_of_open_transactions_nor_behind_them_is_touched() -> None:
    world = await World().open()
    await world.produce([(b"a", b"1"), (b"a", b"2")])
    await world.build()
    await world.produce_in_transaction("t", [(b"a", b"3")])
    await world.produce([(b"a", b"4"), (b"a", b"5")])
    await world.build()
    before = await world.batches()
    await world.compact()
    assert (await world.batches())[-2:] == before[-2:]


async def test_what_an_aborted_transaction_wrote_before_the_log_start_goes() -> None:
    # Given a segment with a record of an aborted transaction; the log begins behind that by now
    world = await World().open()
    await world.produce_in_transaction("t", [(b"a", b"aborted")])
    marker = await world.end("t", committed=False)
    assert marker is not None
    await world.produce([(b"b", b"1"), (b"b", b"2")])
    await world.build()
    await world.metadata.delete_records({world.partition: marker + 1})
    while await world.metadata.purge(1000):
        pass

    # When it is compacted, then that record is gone, and nothing tells of the transaction any more
    await world.compact()
    values = {one.value for batch in await world.batches() for one in records_of(batch)}
    assert b"2" in values
    assert b"aborted" not in values
    (row,) = await world.rows()
    assert (await read_index(world.objects, row)).aborted == ()
