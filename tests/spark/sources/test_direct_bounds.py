"""What a direct read takes no more of than it has to: memory, and parts of the log."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from unittest.mock import Mock
from uuid import UUID

import pytest

from protocol.batch import TRANSACTIONAL_BIT, BatchHeader
from spark.log_location import LogLocation
from spark.sources import split_pieces
from spark.sources.cut import Range, TopicPartition
from spark.sources.planning import PlanOptions, _cut_further, _group
from spark.sources.pushed import Pushed
from spark.sources.read_options import EARLIEST, ReadOptions
from spark.sources.split import Aborted, Split
from spark.sources.split_pieces import Got, read_pieces
from spark.sources.split_reader import SplitReader
from storage.segment_entry import SegmentEntry

MiB = 1024 * 1024
ORDERS = TopicPartition(topic="orders", partition=0, topic_id=UUID(int=1))
USERS = TopicPartition(topic="users", partition=1, topic_id=UUID(int=2))
SECOND = datetime(2024, 1, 1, tzinfo=UTC)
SECOND_MS = 1_704_067_200_000
ENOUGH_S: Final = 30.0  # to compare all with all takes minutes, one after the other seconds


def row(number: int, length: int) -> SegmentEntry:
    return SegmentEntry(
        start_offset=10 * number,
        end_offset=10 * number + 9,
        path=f"wal/{number}",
        start=0,
        length=length,
        max_timestamp_ms=0,
    )


@dataclass
class CountedStore:
    """A store that notes how many bytes it was asked for that nobody has taken yet."""

    taken: int = 0
    asked: int = 0
    most: int = 0
    gets: list[str] = field(default_factory=list)

    async def get(self, path: str, start: int, length: int) -> bytearray:
        self.gets.append(path)
        self.asked += length
        self.most = max(self.most, self.asked - self.taken)
        await asyncio.sleep(0)
        return bytearray(length)


async def test_gets_run_ahead_within_bounds() -> None:
    # Given a hundred rows of a megabyte, one after the other
    store: Any = CountedStore()
    rows = [row(number, MiB) for number in range(100)]
    seen: list[str] = []

    # When they are read by one who takes his time
    async with aclosing(read_pieces(store, rows, Range(start=0, end=1000), None)) as pieces:
        async for got in pieces:
            assert isinstance(got, Got)
            await asyncio.sleep(0.001)
            store.taken += len(got.data)
            seen.append(got.pieces[0].entry.path)

    # Then all come in order, and no more than the bound is in memory
    assert seen == [each.path for each in rows]
    assert 2 * MiB < store.most <= split_pieces.READ_AHEAD_BYTES + 2 * MiB


def split(offsets: Range, rows: tuple[SegmentEntry, ...] = ()) -> Split:
    location = LogLocation(postgres="postgresql://nowhere", store="file:///nowhere")
    return Split(location=location, partition=ORDERS, offsets=offsets, rows=rows)


def test_a_task_has_rows_of_limited_bytes() -> None:
    # Given rows of any size, some larger than a task
    rows = [row(number, size * MiB) for number, size in enumerate((40, 20, 10, 100, 1, 1))]

    # Then tasks are cut between them
    groups = [[each.start_offset // 10 for each in group] for group in _group(rows)]
    assert groups == [[0, 1], [2], [3], [4, 5]]


@pytest.mark.parametrize(("least", "most"), [(7, None), (None, 9), (30, 50), (5000, None)])
def test_splits_are_cut_as_far_as_is_asked(least: int | None, most: int | None) -> None:
    # Given two splits of 100 and 3 offsets
    rows = tuple(row(number, 1) for number in range(10))
    splits = [split(Range(start=0, end=100), rows), split(Range(start=200, end=203))]

    # When more or smaller ones are wanted
    options = PlanOptions(min_partitions=least, max_records=most)
    found = list(_cut_further(splits, options))

    # Then there are, and they have all offsets and just the rows of them
    assert len(found) >= min(least or 1, 103)
    sizes = [each.offsets.end - each.offsets.start for each in found]
    assert sum(sizes) == 103
    assert max(sizes) <= (most or 103)
    for each in found:
        assert all(part.end_offset >= each.offsets.start for part in each.rows)
        assert all(part.start_offset < each.offsets.end for part in each.rows)


def test_aborted_transactions_are_looked_at_once_each() -> None:
    # Given many aborted transactions of one producer, which writes on, and one of another beside
    count = 50_000
    aborted = [
        Aborted(producer_id=7, first_offset=3 * number, last_offset=3 * number + 1)
        for number in range(count)
    ]
    long = Aborted(producer_id=8, first_offset=4, last_offset=3 * count)
    whole = replace(split(Range(start=0, end=3 * count)), aborted=(*aborted, long))
    began = time.process_time()

    # When that is cut into as many tasks, and a task is asked about as many batches
    parts = list(_cut_further([whole], PlanOptions(max_records=3)))
    reader = SplitReader(whole, Mock())
    found = [reader._is_wanted(of_transaction(offset)) for offset in range(3 * count)]

    # Then each task has its own of them, batches are left out, and it does not take long
    assert [part.aborted for part in parts[:3]] == [
        (aborted[0],),
        *((one, long) for one in aborted[1:3]),
    ]
    assert found == [False, False, True] * count
    assert time.process_time() - began < ENOUGH_S


def of_transaction(offset: int) -> BatchHeader:
    nothing = BatchHeader(*[0] * len(BatchHeader._fields))
    return nothing._replace(
        base_offset=offset, attributes=TRANSACTIONAL_BIT, producer_id=7, record_count=1
    )


@dataclass
class EqualTo:
    attribute: tuple[str, ...]
    value: Any


class In(EqualTo):
    pass


class GreaterThan(EqualTo):
    pass


class LessThanOrEqual(EqualTo):
    pass


class Unknown(EqualTo):
    pass


def test_filters_narrow_what_is_planned() -> None:
    # Given the filters of a query, by the names that pyspark gives them
    filters = [
        In(("partition",), (0, 2)),
        GreaterThan(("offset",), 5),
        LessThanOrEqual(("offset",), 20),
        GreaterThan(("timestamp",), SECOND),
        LessThanOrEqual(("timestamp",), SECOND + timedelta(microseconds=1500)),
        Unknown(("topic",), "users"),
    ]
    pushed = Pushed.of(filters)

    # Then a cut is narrowed as far as is certain, and no further
    everything = {ORDERS: Range(start=0, end=100), USERS: Range(start=0, end=100)}
    assert pushed.narrow(everything) == {ORDERS: Range(start=5, end=21)}
    assert pushed.times(None, None) == (SECOND_MS, SECOND_MS + 2)
    assert pushed.times(SECOND_MS + 1, SECOND_MS) == (SECOND_MS + 1, SECOND_MS)
    assert Pushed.of([EqualTo(("topic",), "users")]).narrow(everything) == {
        USERS: everything[USERS]
    }
    assert Pushed.of([]).narrow(everything) == everything


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of the options subscribe"),
        ({"subscribe": "a", "assign": "{}"}, "exactly one of the options subscribe"),
        ({"subscribe": " , "}, "option subscribe: no topic"),
        ({"subscribePattern": "("}, "option subscribePattern"),
        ({"assign": '{"a": ["0"]}'}, "option assign: use JSON"),
        ({"subscribe": "a", "startingOffsets": "latest"}, "latest .-1. cannot be there"),
        ({"subscribe": "a", "startingOffsets": '{"a": {"0": -1}}'}, "latest .-1. cannot"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "earliest .-2. cannot be there"),
        ({"subscribe": "a", "endingOffsets": '{"a": 3}'}, "option endingOffsets: use JSON"),
        ({"subscribe": "a", "startingTimestamp": "now"}, "'now' is no whole number"),
        ({"subscribe": "a", "minPartitions": "0"}, "option minPartitions: 0 is less than 1"),
        ({"subscribe": "a", "failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"subscribe": "a", "isolationLevel": "serializable"}, "neither read_committed nor"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "did you mean startingOffsets"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReadOptions.of(options)


def test_names_of_options_are_told_apart_without_case() -> None:
    # Given options as Spark hands them on
    read = ReadOptions.of(
        {"SUBSCRIBE": "a, b", "includeheaders": "TRUE", "failondataloss": "false"}
    )

    # Then they say what they say
    assert read.topics.names == frozenset({"a", "b"})
    assert read.include_headers
    assert not read.fail_on_data_loss
    assert read.starting.offset == EARLIEST
    assert read.read_committed
