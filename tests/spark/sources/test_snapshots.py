"""Reads as of a snapshot or a time: one cut over several topics, whatever comes afterwards."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from spark.log_location import LogLocation
from spark.sources.snapshots import parse_time
from storage.snapshots import OpenTransaction, Snapshots
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic
from tests.spark.sources.direct_reads import plan_read, read_rows
from tests.spark.sources.kafka_logs import LONG_TRANSACTIONS
from tests.streamctl.conftest import Streamctl

NOON_MS = 1_750_000_000_000


@dataclass(frozen=True, slots=True)
class Log:
    """The log of the tests, and its snapshots."""

    session: SparkSession
    location: LogLocation
    options: Mapping[str, str]

    def snapshot(self, *topics: str) -> str:
        """Make one; return its id."""
        snapshot_id = f"s-{uuid4().hex[:12]}"

        async def make() -> None:
            async with Snapshots.open(self.location.postgres) as snapshots:
                await snapshots.create(snapshot_id, topics, retention_ms=None)

        asyncio.run(make())
        return snapshot_id

    def read(self, as_of: str, **options: str) -> DataFrame:
        reader = self.session.read.format("streamhouse").options(**self.options, **options)
        return reader.option("asOf", as_of).load()

    def values(self, as_of: str, **options: str) -> list[str]:
        rows = self.read(as_of, **options).selectExpr("string(value)").collect()
        return sorted(row[0] for row in rows)


@pytest.fixture
def log(session: SparkSession, location: LogLocation, location_options: dict[str, str]) -> Log:
    return Log(session, location, location_options)


@pytest.fixture
def send(confluent: Confluent) -> Callable[..., None]:
    def produce(topic: str, *values: object, timestamp_ms: int | None = None) -> None:
        confluent.produce(
            topic,
            [
                SentRecord(
                    key=str(one).encode(), value=str(one).encode(), timestamp_ms=timestamp_ms
                )
                for one in values
            ],
        )

    return produce


@pytest.fixture
def streamctl(bootstrap: str) -> Streamctl:
    return Streamctl(bootstrap=bootstrap)


def test_a_snapshot_is_read_as_it_was(
    log: Log, confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a snapshot of two topics, and records that came later
    orders = new_topic(confluent, "orders", partition_count=3)
    payments = new_topic(confluent, "payments", partition_count=2)
    send(orders, *range(10, 30))
    send(payments, *range(30, 40))
    before = log.session.read.format("streamhouse").options(
        **log.options, subscribe=f"{orders},{payments}"
    )
    expected = log.session.createDataFrame(before.load().collect(), before.load().schema)
    snapshot = log.snapshot(orders, payments)
    send(orders, "later")
    send(payments, "later")

    # When it is read, then it has what was there, with the same offsets and times
    assertDataFrameEqual(log.read(snapshot), expected)

    # and less of it, if less is asked for
    assert log.values(snapshot, subscribe=payments) == [str(number) for number in range(30, 40)]
    assert log.values(snapshot, subscribePattern="nothing.*") == []
    few = log.read(snapshot, subscribe=orders, minPartitions="8")
    assert few.count() == 20
    assert few.rdd.getNumPartitions() >= 8


def test_transactions_are_whole_in_a_snapshot_or_not_there(
    log: Log, confluent: Confluent, bootstrap: str
) -> None:
    # Given an open transaction, one behind it that was committed over two topics, one aborted
    orders, payments = new_topic(confluent, "orders"), new_topic(confluent, "payments")
    common = {"bootstrap.servers": bootstrap, **LONG_TRANSACTIONS}
    producers = [Producer({**common, "transactional.id": f"{orders}-{n}"}) for n in range(3)]
    for producer in producers:
        producer.init_transactions()
        producer.begin_transaction()
    slow, quick, undone = producers
    for producer, value in ((slow, "slow"), (quick, "quick"), (undone, "undone")):
        producer.produce(orders, value)
        producer.produce(payments, value)
        producer.flush()
    quick.commit_transaction()
    undone.abort_transaction()
    confluent.produce(orders, [SentRecord(key=None, value=b"plain")])

    # When a snapshot is made
    snapshot = log.snapshot(orders, payments)
    while_open = log.values(snapshot)

    # Then it has all of what was committed, in both topics, though a consumer has yet to wait
    assert while_open == ["plain", "quick", "quick"]
    reader = log.session.read.format("streamhouse").options(**log.options)
    assert reader.options(subscribe=orders).load().count() == 0

    # and it has the same when the open one has ended, unless what was not committed is wanted
    slow.commit_transaction()
    assert log.values(snapshot) == while_open
    uncommitted = log.values(snapshot, isolationLevel="read_uncommitted")
    assert uncommitted == sorted([*while_open, *["slow", "undone"] * 2])


def test_what_a_snapshot_has_lost_is_said(
    log: Log, confluent: Confluent, send: Callable[..., None], streamctl: Streamctl
) -> None:
    # Given a snapshot of two topics of which one is deleted, and made again
    kept, deleted = new_topic(confluent, "kept"), new_topic(confluent, "deleted")
    send(kept, 1)
    send(deleted, 2)
    snapshot = log.snapshot(kept, deleted)
    streamctl.well("topic", "delete", deleted, "--yes")
    confluent.create_topic(deleted, partition_count=1)
    send(deleted, "of another topic")

    # When it is read, then that is said; and what is left can be read
    with pytest.raises(PySparkException, match=f"{deleted}-0 is gone"):
        log.values(snapshot)
    assert log.values(snapshot, failOnDataLoss="false") == ["1"]
    assert log.values(snapshot, subscribe=kept) == ["1"]


def test_a_snapshot_that_is_deleted_while_it_is_looked_up_is_not_read(
    log: Log, confluent: Confluent, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a snapshot with an open transaction
    topic = new_topic(confluent, "open")
    common = {"bootstrap.servers": bootstrap, **LONG_TRANSACTIONS}
    producer = Producer({**common, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "not committed")
    producer.flush()
    snapshot = log.snapshot(topic)
    options = {**log.options, "asOf": snapshot}
    assert read_rows(plan_read(options)) == []

    # When it is deleted between two of the questions that a plan asks about it
    ask = Snapshots.open_transactions

    async def too_late(snapshots: Snapshots, snapshot_id: str) -> list[OpenTransaction]:
        await snapshots.delete(snapshot_id)
        return await ask(snapshots, snapshot_id)

    monkeypatch.setattr(Snapshots, "open_transactions", too_late)

    # Then nothing is read, rather than what was not committed
    with pytest.raises(ValueError, match=f"there is no snapshot '{snapshot}'"):
        plan_read(options)
    producer.abort_transaction()


def test_a_time_is_where_later_records_begin(
    log: Log, confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given records of several times in two topics
    orders, payments = new_topic(confluent, "orders"), new_topic(confluent, "payments")
    for number, topic in enumerate((orders, payments, orders, payments)):
        send(topic, f"{number}", timestamp_ms=NOON_MS + number)
    send(orders, "late", timestamp_ms=NOON_MS)  # behind a record that is later than it

    # When they are read as of times, then each topic ends before its first later record
    both = f"{orders},{payments}"
    assert log.values(str(NOON_MS + 1), subscribe=both) == ["0", "1"]
    assert log.values(str(NOON_MS + 2), subscribe=both) == ["0", "1", "2", "late"]
    assert log.values(str(NOON_MS - 1), subscribe=both) == []
    noon = datetime.fromtimestamp(NOON_MS / 1000, UTC).isoformat()
    assert log.values(noon, subscribe=both) == ["0"]


@pytest.mark.parametrize(
    ("as_of", "options", "message"),
    [
        ("missing", {}, "there is no snapshot 'missing'"),
        ("2025-13-01", {"subscribe": "t"}, "neither the id of a snapshot nor a time"),
        ("1750000000000", {}, "set exactly one of the options subscribe"),
        ("missing", {"endingOffsets": "latest"}, "option endingOffsets: leave it out"),
    ],
)
def test_what_cannot_be_read_as_of_is_said(
    log: Log, as_of: str, options: dict[str, str], message: str
) -> None:
    # When a read makes no sense, then it says why
    with pytest.raises(PySparkException, match=message):
        log.values(as_of, **options)


def test_times_are_told_from_ids() -> None:
    # When texts are looked at, then an id begins with a letter, and a time without a zone is UTC
    assert parse_time("nightly-2026-06-24") is None
    assert parse_time("1750000000000") == NOON_MS
    assert parse_time("2025-06-15T15:06:40Z") == NOON_MS
    assert parse_time("2025-06-15 17:06:40+02:00") == NOON_MS
    assert parse_time("2025-06-15") == 1_749_945_600_000
    with pytest.raises(ValueError, match="neither"):
        parse_time("12:30")
