"""The log with transactions: markers, last stable offsets, and what other brokers wrote."""

from protocol.batch import read_header
from protocol.control_batch import read_end_marker
from storage.errors import InvalidTransactionState
from storage.metadata.port import TransactionUse
from storage.partition_log import PartitionLog
from storage.reading.read_planner import ColdRead
from storage.reading.reader import Records
from tests.storage.log_bench import LogBench, running_log


async def cold(
    bench: LogBench, log: PartitionLog, offset: int, end_offset: int = 1 << 62
) -> list[int]:
    """Return the base offsets that a read of the store finds."""
    (found,) = await bench.log.read_store([ColdRead(log, offset, 1 << 20, end_offset)])
    assert isinstance(found, Records)
    return [read_header(batch).base_offset for batch in found.batches]


def tail(bench: LogBench, log: PartitionLog, offset: int) -> list[int]:
    """Return the base offsets that memory has from an offset on."""
    found = bench.log.read_tail(log, offset, 1 << 20)
    return [read_header(batch).base_offset for batch in found.batches]


async def test_a_transaction_is_unstable_until_its_marker_is_there() -> None:
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        log, who = await bench.known(partition), await bench.producer("p")
        await bench.append(partition, [b"plain"])
        await bench.append(partition, [b"a", b"b"], who)
        await bench.append(partition, [b"plain"])
        assert (log.high_watermark, log.last_stable_offset, log.aborted_count) == (4, 1, 0)

        # When it is aborted
        await bench.end(who, committed=False)

        # Then its marker is in the tail, at the end of the log
        assert (log.high_watermark, log.last_stable_offset, log.aborted_count) == (5, 5, 1)
        assert tail(bench, log, 0) == [0, 1, 3, 4]
        (marker,) = bench.log.read_tail(log, 4, 1).batches
        assert not read_end_marker(marker).committed
        aborted = await bench.log.aborted_transactions(
            log, 0, 5, stable_offset=5, aborted_count=log.aborted_count
        )
        assert [(one.first_offset, one.last_offset) for one in aborted] == [(1, 4)]


async def test_markers_of_strangers_are_no_news_here() -> None:
    async with running_log() as bench:
        mine, stranger = await bench.create_partitions(2)
        who = await bench.producer("p")
        await bench.append(mine, [b"a"], who)
        await bench.metadata.add_to_transaction(who.producer, [stranger])
        await bench.end(who, committed=True)
        assert [one.partition for one in bench.log.known_partitions()] == [mine]


async def test_a_batch_says_how_it_belongs_to_a_transaction() -> None:
    async with running_log() as bench:
        added, other = await bench.create_partitions(2)
        who = await bench.producer("p")
        await bench.metadata.add_to_transaction(who.producer, [added])
        use = TransactionUse.ADDED
        assert (await bench.append(added, [b"a"], who, use=use)).refusal is None
        refused = await bench.append(other, [b"b"], who, use=use)
        assert isinstance(refused.refusal, InvalidTransactionState)


async def test_markers_are_read_from_the_index() -> None:
    # Given a transaction of two batches, and a broker that has nothing in memory
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        await bench.append(partition, [b"a", b"b"], who)
        await bench.append(partition, [b"c"], who)
        await bench.end(who, committed=True)
        await bench.append(partition, [b"d"])
        await bench.restart()
        log = await bench.known(partition)

        # Then the marker stands between the others, and no object is asked for it
        assert await cold(bench, log, 0) == [0, 2, 3, 4]
        before = bench.objects.gets
        assert await cold(bench, log, 3, end_offset=4) == [3]
        assert bench.objects.gets == before

        # And reads end where they shall
        assert await cold(bench, log, 0, end_offset=3) == [0, 2]
        assert await cold(bench, log, 1, end_offset=2) == [0]


async def test_what_is_stable_may_end_inside_a_run() -> None:
    # Given three batches side by side in one object, the second one of an open transaction
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        who = await bench.producer("p")
        writers = (None, who, None)
        for future in [bench.append(partition, [b"a", b"b"], writer) for writer in writers]:
            await future
        for restarted in (False, True):
            if restarted:
                await bench.restart()
            log = await bench.known(partition)
            read = bench.log.read_tail(log, 0, 1 << 20, log.last_stable_offset)

            # Then memory and store have it up to the transaction
            assert log.last_stable_offset == 2
            assert len(read.batches) == (0 if restarted else 1)
            assert await cold(bench, log, 0, log.last_stable_offset) == [0]
            assert await cold(bench, log, 0) == [0, 2, 4]


async def test_a_gap_of_another_brokers_marker_is_filled_by_its_first_reader() -> None:
    # Given a transaction that another broker ended, and a batch behind its marker
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        log, who = await bench.known(partition), await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        await bench.end(who, committed=True, elsewhere=True)
        await bench.append(partition, [b"b"])
        assert tail(bench, log, 0) == [0]
        assert tail(bench, log, 1) == []

        # When somebody reads it
        assert await cold(bench, log, 1) == [1]

        # Then it is in memory, with no object read for it
        assert tail(bench, log, 0) == [0, 1, 2]
        assert bench.objects.gets == 0


async def test_the_last_marker_of_another_broker_goes_on_where_the_tail_ends() -> None:
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        log, who = await bench.known(partition), await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        await bench.end(who, committed=True, elsewhere=True)
        await bench.log.refresh([log])
        assert await cold(bench, log, 1) == [1]
        await bench.append(partition, [b"b"])
        assert tail(bench, log, 0) == [0, 1, 2]


async def test_a_marker_that_is_late_fills_its_gap() -> None:
    # Given a batch whose commit was heard of before the end of the transaction that it follows
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        log, who = await bench.known(partition), await bench.producer("p")
        await bench.append(partition, [b"a"], who)
        marker, markers = await bench.end_unheard(who, committed=False)
        await bench.append(partition, [b"b"])
        news = (log.high_watermark, log.last_stable_offset, log.aborted_count)
        assert news == (3, 3, 1)

        # When that is heard of
        bench.log.append_markers(marker, markers)

        # Then nothing moves back, and the tail is whole
        assert (log.high_watermark, log.last_stable_offset, log.aborted_count) == news
        assert tail(bench, log, 0) == [0, 1, 2]


async def test_other_records_of_another_broker_are_not_held_in_gaps() -> None:
    """Their bytes are a view of a whole run: kept in the tail, it would hold on to all of it."""
    async with running_log() as bench:
        (partition,) = await bench.create_partitions()
        log = await bench.known(partition)
        await bench.append(partition, [b"a"])
        other = LogBench()
        other.metadata, other.objects = bench.metadata, bench.objects
        await other.restart()
        await other.append(partition, [b"b"])
        await other.stop()
        await bench.append(partition, [b"c"])
        assert (await cold(bench, log, 1))[0] == 1
        assert tail(bench, log, 1) == []
