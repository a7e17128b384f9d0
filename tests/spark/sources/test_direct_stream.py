"""A streaming query over format("streamhouse"): each record once, whatever comes in between."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import add_partitions, new_topic

Options = Mapping[str, str]
PATIENCE_S = 120


@dataclass(slots=True)
class Query:
    """A query that may be run again and again, with one checkpoint.

    Attributes:
        batches: values of each batch that was done, in the order of batches.
        fails: the next batch fails after it was read.
        seen: what failed batches had read.
    """

    session: SparkSession
    options: Options
    checkpoint: Path
    batches: list[list[str]] = field(default_factory=list)
    seen: list[list[str]] = field(default_factory=list)
    fails: bool = False

    def run(self, **more: str) -> None:
        """Read what there is; raise what the query failed with."""
        query = self._start(more).trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)

    def run_until(self, done: Callable[[], bool], **more: str) -> None:
        """Read batch after batch until it is done."""
        query = self._start(more).trigger(processingTime="0 seconds").start()
        try:
            while not done():
                query.processAllAvailable()
        finally:
            query.stop()

    def values(self) -> list[str]:
        return sorted(value for batch in self.batches for value in batch)

    def _start(self, more: Options) -> DataStreamWriter:
        reader = self.session.readStream.format("streamhouse").options(**self.options, **more)
        return (
            reader.load()
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.checkpoint))
        )

    def _take(self, frame: DataFrame, _batch_id: int) -> None:
        values = [str(row[0]) for row in frame.selectExpr("string(value)").collect()]
        if self.fails:
            self.fails = False
            self.seen.append(values)
            raise RuntimeError("the sink has failed")
        self.batches.append(values)


@pytest.fixture
def make_query(
    session: SparkSession, location_options: dict[str, str], tmp_path: Path
) -> Callable[..., Query]:
    def make(**options: str) -> Query:
        return Query(session, {**location_options, **options}, tmp_path / "checkpoint")

    return make


@pytest.fixture
def send(confluent: Confluent) -> Callable[..., None]:
    def produce(topic: str, *values: object) -> None:
        records = [SentRecord(key=str(one).encode(), value=str(one).encode()) for one in values]
        confluent.produce(topic, records)

    return produce


def test_a_query_goes_on_where_it_ended(
    make_query: Callable[..., Query], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a topic with records, and a query that has read them
    topic = new_topic(confluent, "goes-on", partition_count=3)
    send(topic, *range(10, 40))
    query = make_query(subscribe=topic, startingOffsets="earliest")
    query.run()
    assert query.values() == [str(number) for number in range(10, 40)]

    # When others come, and it runs twice more
    send(topic, *range(40, 60))
    query.run()
    query.run()

    # Then it has each record once, and made no batch of nothing
    assert query.values() == [str(number) for number in range(10, 60)]
    assert len(query.batches) == 2


def test_batches_are_as_small_as_is_asked_for(
    make_query: Callable[..., Query], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a topic of three partitions with 60 records
    topic = new_topic(confluent, "limited", partition_count=3)
    send(topic, *range(100, 160))
    query = make_query(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")

    # When a query that is stopped after two batches is started again
    query.run()
    query.run()
    assert all(len(batch) <= 12 for batch in query.batches)
    assert 16 <= len(query.values()) <= 22
    query.run_until(lambda: len(query.values()) >= 60)

    # Then it has gone on in steps, and each record is there once
    assert query.values() == [str(number) for number in range(100, 160)]
    assert all(len(batch) <= 12 for batch in query.batches)


def test_a_first_batch_that_failed_begins_where_it_began(
    make_query: Callable[..., Query], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a query from the latest offset on, whose very first batch fails
    topic = new_topic(confluent, "first", partition_count=2)
    send(topic, "before")
    query = make_query(subscribe=topic, startingOffsets="latest")
    query.fails = True
    with pytest.raises(StreamingQueryException, match="the sink has failed"):
        query.run()

    # When records come before it is started again
    send(topic, *range(10, 30))
    query.run()
    query.run()

    # Then they belong to it: "latest" is what it was when the query began
    assert query.values() == [str(number) for number in range(10, 30)]


def test_a_first_batch_that_failed_does_not_ask_again_where_to_begin(
    make_query: Callable[..., Query], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a query from offsets of all partitions on, whose very first batch fails
    topic = new_topic(confluent, "told")
    send(topic, *range(10, 20))
    query = make_query(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 4}}))
    query.fails = True
    with pytest.raises(StreamingQueryException, match="the sink has failed"):
        query.run()

    # When a partition that those do not name is there before it is started again
    add_partitions(confluent, topic, 2)
    query.run()

    # Then it has what it had
    assert query.values() == query.seen[0] == [str(number) for number in range(14, 20)]


def test_a_batch_that_failed_is_read_again_as_it_was(
    make_query: Callable[..., Query], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a query that has done one batch, and failed in its second one
    topic = new_topic(confluent, "again", partition_count=2)
    query = make_query(subscribe=topic, startingOffsets="earliest")
    send(topic, *range(10, 20))
    query.run()
    send(topic, *range(20, 30))
    query.fails = True
    with pytest.raises(StreamingQueryException, match="the sink has failed"):
        query.run()

    # When more comes, and it runs again
    send(topic, *range(30, 40))
    query.run()

    # Then the second batch has what it had, and the third one the rest
    assert sorted(query.batches[1]) == sorted(query.seen[0]) == [str(n) for n in range(20, 30)]
    query.run()
    assert query.values() == [str(number) for number in range(10, 40)]
