"""`streamctl recover`: a broker whose Postgres is lost, and what is there afterwards."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from storage.postgres.postgres_binaries import socket_directory, unix_socket_dsn
from storage.postgres.postgres_connection import Connection
from tests.clients.confluent import Confluent
from tests.crash.processes import PATIENCE_S, KillableBroker, killable_broker, until
from tests.storage.recovering import (
    SEGMENT_ROWS,
    Acknowledged,
    building_broker,
    end_of,
    lose_postgres,
    read,
    send,
    streamctl,
)
from tests.support.ports import free_ports
from tests.support.wal_objects import wal_indexes, wal_with_batches

ROWS = (
    "SELECT built, count(*) AS row_count FROM streamhouse.segments WHERE topic = $1 GROUP BY built"
)


def rows(broker: KillableBroker, topic: str) -> dict[bool, int]:
    """Return how many rows of the index are built (True) and not."""

    async def ask() -> dict[bool, int]:
        sockets = socket_directory(broker.embedded_postgres)
        database: Connection = await asyncpg.connect(unix_socket_dsn(sockets))
        try:
            found = await database.fetch(ROWS, topic)
        finally:
            await database.close()
        return {row["built"]: row["row_count"] for row in found}

    return asyncio.run(ask())


def numbered(name: str, count: int) -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


def recovered(broker: KillableBroker) -> dict[str, dict[str, object]]:
    """Lose Postgres, recover, start the broker again; return what was said of each topic."""
    lose_postgres(broker)
    said = streamctl("recover", "--data", str(broker.data), "--json")
    assert said.exit_code == 0, said.err
    broker.start()
    return {topic["name"]: topic for topic in said.json["topics"]}


def check(broker: KillableBroker) -> None:
    said = streamctl("fsck", "--data", str(broker.data), "--deep")
    assert said.exit_code == 0, said.out + said.err


def test_every_acknowledged_record_is_there_once_at_its_offset(tmp_path: Path) -> None:
    acknowledged: Acknowledged = {}
    with building_broker(tmp_path) as broker:
        # Given topics written by plain, idempotent and transactional producers: some of it built
        client = Confluent(bootstrap=broker.bootstrap)
        for topic in ("plain", "idempotent", "transactional", "fresh"):
            client.create_topic(topic, partition_count=2, configs={"retention.ms": "2592000000"})
        for partition in range(2):
            for topic, settings in (
                ("plain", {"acks": "all"}),
                ("idempotent", {"enable.idempotence": True}),
            ):
                acknowledged |= send(
                    broker, topic, numbered(topic, 61), partition=partition, settings=settings
                )
        acknowledged |= send(
            broker,
            "transactional",
            numbered("t", 60),
            settings={"transactional.id": "t"},
            transactions=[True, False] * 6,
        )
        for topic in ("plain", "idempotent", "transactional"):
            until(lambda topic=topic: rows(broker, topic).get(True), "the builder")  # type: ignore[misc]
        # and some of it in the writer's objects only
        acknowledged |= send(broker, "plain", numbered("late", 7), flush_every=3)
        acknowledged |= send(
            broker, "idempotent", numbered("late", 7), settings={"enable.idempotence": True}
        )
        acknowledged |= send(broker, "fresh", numbered("fresh", 9), partition=1)

        # When Postgres is lost, and the index recovered
        ends = {topic: end_of(broker, topic) for topic in ("plain", "idempotent", "fresh")}
        topics = recovered(broker)

        # Then all of it is where it was, in order, once, and nothing else
        found: Acknowledged = {}
        for topic in ("plain", "idempotent", "transactional", "fresh"):
            for partition in range(2):
                found |= read(broker, topic, partition)
        assert found == acknowledged
        assert {topic: end_of(broker, topic) for topic in ends} == ends
        assert topics["plain"]["moved"] == topics["idempotent"]["moved"] == 0
        assert topics["plain"]["lost"] == topics["idempotent"]["lost"] == []
        assert topics["fresh"]["partitions"] == 2
        assert "retention.ms=-1" in str(topics["fresh"]["note"])
        check(broker)

        # And producing goes on
        more = send(broker, "plain", numbered("more", 60))
        more |= send(
            broker,
            "transactional",
            numbered("more", 10),
            settings={"transactional.id": "t"},
            transactions=[True, True],
        )
        assert min(offset for topic, _, offset in more if topic == "plain") == ends["plain"]
        found = read(broker, "plain") | read(broker, "transactional")
        assert found.items() >= more.items()
        left = 2 * (SEGMENT_ROWS - 1)  # fewer of each partition wait for more of them
        until(lambda: rows(broker, "plain").get(False, 0) <= left or None, "the builder")
        check(broker)


def test_transactions_are_read_as_they_ended_where_that_is_stored(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        # Given transactions whose markers are built, and one that was left open
        client = Confluent(bootstrap=broker.bootstrap)
        client.create_topic("orders", partition_count=1, configs={"segment.ms": "1000"})
        settings = {"transactional.id": "orders"}
        sent = send(
            broker,
            "orders",
            numbered("order", 60),
            settings=settings,
            transactions=[True, False, True] * 4,
        )
        until(lambda: not rows(broker, "orders").get(False) or None, "the builder")
        before = read(broker, "orders", committed=True)
        assert 0 < len(before) < len(sent)
        opened = send(broker, "orders", numbered("open", 5), settings=settings, transactions=[])

        # When Postgres is lost, and the index recovered
        topics = recovered(broker)

        # Then what was committed is read, what was aborted is not, nor what was open
        assert topics["orders"]["unfinished"] == 1
        assert read(broker, "orders", committed=True) == before
        assert read(broker, "orders") == sent | opened
        check(broker)

        # And what other producers commit later is read
        later = send(
            broker,
            "orders",
            numbered("later", 5),
            settings={"transactional.id": "other"},
            transactions=[True],
        )
        assert read(broker, "orders", committed=True) == before | later


@contextmanager
def two_workers(data: Path) -> Iterator[KillableBroker]:
    port = free_ports(4)
    broker = KillableBroker(data, "--workers", "2", "--http", f"127.0.0.1:{port + 2}")
    broker.bootstrap = f"127.0.0.1:{port}"
    try:
        broker.start()
        yield broker
    finally:
        broker.end()


def told_ends(broker: KillableBroker) -> set[tuple[int, int]]:
    """Return partition and offset of all ends of transactions that the store tells."""
    indexes = wal_indexes(broker.data)
    return {(one.partition, one.offset) for _, index in indexes for one in index.endings}


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_was_committed_is_committed_though_nothing_is_built(
    tmp_path: Path, is_killed: bool
) -> None:
    with killable_broker(tmp_path) as broker:
        # Given transactions of which nothing is built, the last of them just committed
        Confluent(bootstrap=broker.bootstrap).create_topic("orders", partition_count=1)
        ends = [True, False, True, True]
        sent = send(
            broker,
            "orders",
            numbered("order", 20),
            settings={"transactional.id": "orders"},
            transactions=ends,
        )
        before = read(broker, "orders", committed=True)
        assert len(before) == 15
        end_offset = end_of(broker, "orders")

        # When the broker stops, or is killed a few seconds later, and Postgres is lost
        if is_killed:
            until(lambda: (0, end_offset - 1) in told_ends(broker) or None, "the last end")
        else:
            broker.process.stop()
        topics = recovered(broker)

        # Then each transaction is as it ended, at the same offsets
        assert read(broker, "orders", committed=True) == before
        assert read(broker, "orders") == sent
        assert end_of(broker, "orders") == end_offset
        orders = topics["orders"]
        assert (orders["unfinished"], orders["moved"], orders["lost"]) == (0, 0, [])
        check(broker)


def test_what_was_committed_through_another_broker_than_the_leader_is_committed(
    tmp_path: Path,
) -> None:
    with two_workers(tmp_path) as broker:
        # Given transactions over four partitions, which two brokers lead
        Confluent(bootstrap=broker.bootstrap).create_topic("orders", partition_count=4)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "orders"})
        producer.init_transactions(PATIENCE_S)
        for number, commits in enumerate((True, True, False, True)):
            producer.begin_transaction()
            for partition in range(4):
                producer.produce("orders", f"order-{number}", partition=partition)
            assert producer.flush(PATIENCE_S) == 0
            if commits:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        before = [read(broker, "orders", partition, committed=True) for partition in range(4)]
        assert [len(found) for found in before] == [3] * 4
        ends = {(partition, 2 * number + 1) for partition in range(4) for number in range(4)}

        # When both are killed a few seconds later, and Postgres is lost
        until(lambda: told_ends(broker) == ends or None, "all ends")
        topics = recovered(broker)

        # Then each transaction is as it ended, at the same offsets
        found = [read(broker, "orders", partition, committed=True) for partition in range(4)]
        assert found == before
        assert [end_of(broker, "orders", partition) for partition in range(4)] == [8] * 4
        orders = topics["orders"]
        assert (orders["unfinished"], orders["moved"], orders["lost"]) == (0, 0, [])
        check(broker)


def test_a_producer_that_lived_on_goes_on_without_repeating(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        # Given an idempotent producer that has written
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        producer.produce("t", b"before")
        assert producer.flush(PATIENCE_S) == 0

        # When Postgres is lost under it, and the index recovered
        recovered(broker)
        failures = []
        producer.produce("t", b"after", on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(PATIENCE_S) == 0

        # Then it goes on by its sequence numbers
        assert failures == [None]
        assert list(read(broker, "t").values()) == [b"before", b"after"]


def test_no_offset_of_an_emptied_log_is_given_again(tmp_path: Path) -> None:
    hasty = ("--set", "log.retention.check.interval.ms=500")
    with building_broker(tmp_path, *hasty) as broker:
        # Given a log that is emptied, of which only objects tell that have nothing of it; of the
        # rest all is built, however few rows the builder's last look has left
        client = Confluent(bootstrap=broker.bootstrap)
        client.create_topic("t", partition_count=2, configs={"segment.ms": "1000"})
        other = send(broker, "t", numbered("other", 30), partition=1)
        settings = {"transactional.id": "t"}
        send(broker, "t", numbered("v", 30), settings=settings, transactions=[True] * 6)
        end_offset = end_of(broker, "t")
        until(lambda: (0, end_offset - 1) in told_ends(broker) or None, "the last end")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.delete_records([TopicPartition("t", 0, end_offset)]).values():
            future.result(PATIENCE_S)
        segments = broker.data / "objects" / "topics"
        until(lambda: not wal_with_batches(broker.data) or None, "the sweeper")
        until(lambda: not [*segments.glob("t/partitions/0/segments/*")] or None, "the sweeper")

        # When Postgres is lost, and the index recovered
        topics = recovered(broker)

        # Then a broker starts, and goes on where the log ended; nobody calls that lost
        assert (topics["t"]["records"], topics["t"]["lost"]) == (len(other), [])
        assert read(broker, "t", 1) == other
        sent = send(broker, "t", numbered("w", 3))
        assert min(offset for _, _, offset in sent) >= end_offset
        assert read(broker, "t") == sent
        check(broker)


def test_nothing_is_written_into_a_database_that_is_not_empty(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        send(broker, "t", numbered("v", 3))
        broker.process.stop()
        said = streamctl("recover", "--data", str(broker.data))
        assert said.exit_code == 1
        assert "the database is not empty: it has 1 topics" in said.err
        assert "make a new database" in said.err


def test_what_is_not_all_there_is_a_failure(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        # Given a store with an object that cannot be read
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        sent = send(broker, "t", numbered("v", 3))
        (folder := tmp_path / "objects" / "wal" / "00").mkdir(parents=True, exist_ok=True)
        (folder / "damaged").write_bytes(b"bytes")
        lose_postgres(broker)

        # When it is recovered, then all the rest is there, but scripts hear that it is not all
        tried = streamctl("recover", "--data", str(broker.data), "--dry-run", "--json")
        assert (tried.exit_code, len(tried.json["unreadable"])) == (1, 1), tried.err
        said = streamctl("recover", "--data", str(broker.data))
        assert said.exit_code == 1
        assert "1 topic recovered" in said.out
        assert "unreadable: wal/00/damaged" in said.err
        broker.start()
        assert read(broker, "t") == sent


def test_a_dry_run_leaves_an_empty_database(tmp_path: Path) -> None:
    with building_broker(tmp_path) as broker:
        Confluent(bootstrap=broker.bootstrap).create_topic("t", partition_count=1)
        sent = send(broker, "t", numbered("v", 30))
        lose_postgres(broker)
        for arguments in (["--dry-run"], ["--dry-run", "--json"]):
            tried = streamctl("recover", "--data", str(broker.data), *arguments)
            assert tried.exit_code == 0, tried.err
        said = streamctl("recover", "--data", str(broker.data))
        assert said.exit_code == 0, said.err
        assert "1 topic recovered" in said.out
        assert "committed offsets of groups" in said.err
        assert "streamctl config alter broker --unset log.retention.ms" in said.err
        broker.start()
        assert read(broker, "t") == sent
