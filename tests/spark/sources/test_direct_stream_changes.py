"""A streaming reader while topics come and go: asked as Spark asks it, without Spark."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from spark.sources.direct_stream import DirectStreamReader
from spark.sources.group_progress import GroupHasMembers
from spark.sources.planning import DataLoss
from tests.clients.confluent import Confluent
from tests.clients.records import SentRecord
from tests.clients.topics import new_topic
from tests.spark.sources.kafka_logs import LONG_TRANSACTIONS
from tests.streamctl.conftest import Streamctl

ANSWER_S = 60


@dataclass(slots=True)
class Asked:
    """A query's batches; `done` is what its checkpoint holds, through which readers come and go.

    Attributes:
        reader: of the run that goes on.
    """

    options: dict[str, str]
    reader: DirectStreamReader
    done: dict[str, Any] | None = None
    batches: list[list[str]] = field(default_factory=list)

    def batch(self) -> list[str]:
        """Read the next batch; return its values."""
        end = json.loads(json.dumps(self.reader.latestOffset()))
        if end == self.done:
            self.batches.append([])
            return []
        start = self.reader.initialOffset() if self.done is None else self.done
        splits = self.reader.partitions(json.loads(json.dumps(start)), end)
        rows = [batch for split in splits for batch in self.reader.read(split)]
        if self.done is not None:
            self.reader.commit(self.done)
        self.done = end
        values = [value.decode() for batch in rows for value in batch.column("value").to_pylist()]
        self.batches.append(sorted(values))
        return self.batches[-1]

    def restart(self, **more: str) -> None:
        """Go on from the checkpoint, as another run of the query does."""
        self.reader.stop()
        self.options.update(more)
        self.reader = DirectStreamReader(self.options)
        if self.done is not None:
            assert self.reader.partitions(self.done, self.done) == []


@pytest.fixture
def ask(location_options: dict[str, str]) -> Iterator[Callable[..., Asked]]:
    made: list[Asked] = []

    def begin(**options: str) -> Asked:
        given = {**location_options, **options}
        made.append(Asked(given, DirectStreamReader(given)))
        return made[-1]

    yield begin
    for one in made:
        one.reader.stop()


@pytest.fixture
def send(confluent: Confluent) -> Callable[..., None]:
    def produce(topic: str, *values: object) -> None:
        records = [SentRecord(key=str(one).encode(), value=str(one).encode()) for one in values]
        confluent.produce(topic, records)

    return produce


@pytest.fixture
def streamctl(bootstrap: str) -> Streamctl:
    return Streamctl(bootstrap=bootstrap)


def texts(numbers: range) -> list[str]:
    return sorted(str(number) for number in numbers)


def test_partitions_and_topics_that_come_are_read_from_their_beginning(
    ask: Callable[..., Asked],
    confluent: Confluent,
    send: Callable[..., None],
    streamctl: Streamctl,
) -> None:
    # Given a query over a pattern, from the latest offset on
    topic = new_topic(confluent, "grows")
    query = ask(subscribePattern=f"{topic}.*")
    send(topic, "old")
    assert query.batch() == []

    # When the topic gets partitions, and another topic comes
    streamctl.well("topic", "alter", topic, "--partitions", "6")
    confluent.create_topic(f"{topic}-more", partition_count=2)
    send(topic, *range(10, 40))
    send(f"{topic}-more", *range(40, 50))

    # Then all of it is in the next batch, and nothing in the one after it
    assert query.batch() == texts(range(10, 50))
    query.restart()
    assert query.batch() == []


def test_a_deleted_topic_stops_a_query_unless_it_may_be_lost(
    ask: Callable[..., Asked],
    confluent: Confluent,
    send: Callable[..., None],
    streamctl: Streamctl,
) -> None:
    # Given a query that has read two topics
    kept, deleted = new_topic(confluent, "kept"), new_topic(confluent, "deleted")
    query = ask(subscribe=f"{kept},{deleted}", startingOffsets="earliest")
    send(kept, 1)
    send(deleted, *range(10, 20))
    assert len(query.batch()) == 11

    # When one of them is deleted
    streamctl.well("topic", "delete", deleted, "--yes")
    send(kept, 2)

    # Then the query says so, and goes on with the other one if it may
    with pytest.raises(DataLoss, match=f"deleted while it was read: {deleted}-0"):
        query.batch()
    query.restart(failOnDataLoss="false")
    assert query.batch() == ["2"]

    # and a topic that is made again is read from its beginning
    confluent.create_topic(deleted, partition_count=1)
    send(deleted, "new")
    assert query.batch() == ["new"]


def test_a_topic_that_is_no_longer_asked_for_is_not_said_to_be_deleted(
    ask: Callable[..., Asked], send: Callable[..., None], confluent: Confluent
) -> None:
    # Given a query that has read two topics
    kept, left = new_topic(confluent, "kept"), new_topic(confluent, "left")
    query = ask(subscribe=f"{kept},{left}", startingOffsets="earliest")
    send(kept, 1)
    send(left, 2)
    assert query.batch() == ["1", "2"]

    # When it is to go on with one of them
    query.restart(subscribe=kept)

    # Then it says what it would forget, and goes on if it may
    with pytest.raises(DataLoss, match=f"^no longer asked for: {left}-0; failOnDataLoss=false"):
        query.batch()
    query.restart(failOnDataLoss="false")
    assert query.batch() == []


def test_deleted_records_stop_a_query_unless_they_may_be_lost(
    ask: Callable[..., Asked],
    confluent: Confluent,
    send: Callable[..., None],
    bootstrap: str,
) -> None:
    # Given a query that is five records behind
    topic = new_topic(confluent, "expired")
    query = ask(subscribe=topic, startingOffsets="earliest")
    send(topic, *range(5))
    query.batch()
    send(topic, *range(10, 20))

    # When retention takes records that it has not read
    admin = confluent._admin()
    deleted = admin.delete_records([TopicPartition(topic, 0, 8)])
    next(iter(deleted.values())).result(ANSWER_S)

    # Then it says so, and goes on behind them if it may
    with pytest.raises(DataLoss, match="offset 5 was asked for, the log begins at 8"):
        query.batch()
    query.restart(failOnDataLoss="false")
    assert query.batch() == texts(range(13, 20))


def test_only_what_is_committed_is_read(
    ask: Callable[..., Asked], confluent: Confluent, bootstrap: str
) -> None:
    # Given two queries, and transactions: one aborted, one open, and a record behind them
    topic = new_topic(confluent, "committed")
    settings = {"subscribe": topic, "startingOffsets": "earliest"}
    committed = ask(**settings)
    uncommitted = ask(**settings, isolationLevel="read_uncommitted")
    common = {"bootstrap.servers": bootstrap, **LONG_TRANSACTIONS}
    undone, slow = (
        Producer({**common, "transactional.id": f"{topic}-{number}"}) for number in range(2)
    )
    for producer, value in ((undone, "undone"), (slow, "slow")):
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
    undone.abort_transaction()
    confluent.produce(topic, [SentRecord(key=None, value=b"plain")])

    # Then one reads everything, and the other one waits
    assert committed.batch() == []
    assert uncommitted.batch() == ["plain", "slow", "undone"]

    # When the open one ends, then it has what was committed
    slow.commit_transaction()
    assert committed.batch() == ["plain", "slow"]
    assert uncommitted.batch() == []


def test_a_group_shows_how_far_a_query_is(
    ask: Callable[..., Asked],
    confluent: Confluent,
    send: Callable[..., None],
    streamctl: Streamctl,
) -> None:
    # Given a query that reports to a group
    topic = new_topic(confluent, "reported")
    group = f"{topic}-group"
    send(topic, *range(10))
    query = ask(subscribe=topic, startingOffsets="earliest", commitGroup=group)
    query.batch()

    # When it finds that there is nothing more to read
    query.batch()

    # Then consumers, and tools, see what it has read
    assert committed(confluent.bootstrap, group, topic) == 10
    assert topic in streamctl.well("group", "describe", group).text

    # and it goes on, though the group's coordinator has loaded it since
    send(topic, *range(5))
    query.batch()
    assert committed(confluent.bootstrap, group, topic) == 10
    query.batch()
    assert committed(confluent.bootstrap, group, topic) == 15


def test_a_group_with_members_is_not_taken(
    ask: Callable[..., Asked], confluent: Confluent, bootstrap: str
) -> None:
    # Given a consumer in a group
    topic = new_topic(confluent, "taken")
    settings = {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group"}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)

        # When a query is to report to that, then it does not begin
        with pytest.raises(GroupHasMembers, match="has members"):
            ask(subscribe=topic, commitGroup=f"{topic}-group").batch()


def test_a_query_goes_on_when_consumers_join_its_group(
    ask: Callable[..., Asked],
    confluent: Confluent,
    send: Callable[..., None],
    bootstrap: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Given a query that has reported to a group
    topic = new_topic(confluent, "joined")
    group = f"{topic}-group"
    send(topic, *range(10))
    query = ask(subscribe=topic, startingOffsets="earliest", commitGroup=group)
    query.batch()
    query.batch()
    assert committed(bootstrap, group, topic) == 10

    # When a consumer joins that
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        send(topic, *range(20, 25))

        # Then the query reads on, says that it does not report, and leaves the group alone
        assert query.batch() == texts(range(20, 25))
        assert query.batch() == []
        assert f"group '{group}' has members" in caplog.text
        assert committed(bootstrap, group, topic) == 10


def test_a_batch_never_ends_before_it_begins(
    ask: Callable[..., Asked], confluent: Confluent, send: Callable[..., None]
) -> None:
    # Given a checkpoint that is ahead of what a reader was told
    topic = new_topic(confluent, "ahead")
    send(topic, *range(10))
    query = ask(subscribe=topic, startingOffsets="earliest")
    query.batch()
    assert query.done is not None
    again = ask(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="2").reader
    end = again.latestOffset()

    # When it has to go back, then it refuses: records would be read twice
    with pytest.raises(DataLoss, match="would end at 2, where it begins at 10"):
        again.partitions(query.done, end)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger: 0 is less than 1"),
        ({"maxOffsetsPerTrigger": "x"}, "maxOffsetsPerTrigger: 'x' is no whole number"),
        ({"maxOffsetsPerTriger": "10"}, "did you mean maxOffsetsPerTrigger"),
        ({"endingOffsets": '{"t": {"0": 1}}'}, "a streaming query has no end"),
        ({"asOf": "snapshot"}, "option asOf: a streaming query has no end"),
        ({"subscribe": "missing"}, "there is no topic missing"),
    ],
)
def test_options_that_cannot_be_are_named(
    ask: Callable[..., Asked], options: dict[str, str], message: str
) -> None:
    # When a query has an option that makes no sense, then it says which
    with pytest.raises(ValueError, match=message):
        ask(**{"subscribe": "t", **options}).batch()


def committed(bootstrap: str, group: str, topic: str) -> int:
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=ANSWER_S)
    offset: int = found.offset
    return offset
