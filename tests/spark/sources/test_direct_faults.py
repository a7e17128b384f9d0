"""What a direct read does when rows are swapped, records deleted, objects gone or damaged."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._resource import ResourceType

from spark.jobs.task_errors import advice
from spark.log_location import LogLocation
from spark.sources import kept_connection, split_reader
from spark.sources.choosing import Chooser, NoSuchTime, UnknownTopic
from spark.sources.direct_stream import DirectStreamReader
from spark.sources.log_index import LogIndex
from spark.sources.planning import DataLoss
from spark.sources.read_options import ReadOptions
from spark.sources.split import Split
from spark.sources.stores import stores
from storage.errors import MetadataWentBack, ObjectMissing
from storage.objects.port import Owned
from storage.snapshots import Snapshots
from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.clients.long_logs import LongLogs, running_long_logs
from tests.spark.sources.direct_reads import (
    close_stores,
    plan_read,
    read_records,
    read_rows,
    record_of,
)
from tests.spark.upkeep_clusters import new_cluster
from tests.support.broker import BrokerProcess, running_broker
from tests.support.s3_server import S3Server

PATIENCE_S = 240
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
KEPT = {"retention.ms": "-1"}


@pytest.fixture(autouse=True)
def _stores() -> Iterator[None]:
    yield
    close_stores()


@pytest.fixture(scope="module")
def long_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongLogs]:
    """A broker that builds and compacts at once, and deletes what was replaced half a second on."""
    with running_long_logs(tmp_path_factory.mktemp("swapped")) as logs:
        yield logs


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that leaves its objects alone."""
    with running_broker(tmp_path_factory.mktemp("still")) as broker:
        yield broker


def at(broker: BrokerProcess | LongLogs, topic: str, **more: str) -> dict[str, str]:
    data = broker.broker.data if isinstance(broker, LongLogs) else broker.log.parent
    return {"data": str(data), "subscribe": topic, **more}


def write(bootstrap: str, topic: str, count: int, *, keys: int = 7, start: int = 0) -> None:
    """Write `count` batches of 20 records, each with a row of its own.

    librdkafka has to know the partition before: else it hands over what waited for it one by one,
    and a flush in the midst of that sends the first of them as a batch.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1_000})
    producer.list_topics(topic, CALL_TIMEOUT_S)
    for number in range(start, start + count):
        for each in range(20):
            value = b"%d-%d " % (number, each) * 20
            producer.produce(topic, value, key=b"%d" % (each % keys), partition=0)
        assert producer.flush(CALL_TIMEOUT_S) == 0


def objects_of(splits: list[Split], data: Path) -> list[Path]:
    rows = [row for split in splits for row in split.rows if row.inline is None]
    return [data / "objects" / row.path for row in rows]


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.02)


@pytest.mark.parametrize("configs", [KEPT, COMPACTED], ids=["built", "compacted"])
def test_rows_that_were_swapped_are_planned_again(
    long_logs: LongLogs, configs: dict[str, str]
) -> None:
    # Given a read that was planned on objects of the writer
    topic = f"swapped-{configs.get('cleanup.policy', 'built')}"
    long_logs.create(topic, configs)
    options = at(long_logs, topic, maxRecordsPerPartition="130")
    with long_logs.unbuilt(topic):
        write(long_logs.bootstrap, topic, 10)
        splits = plan_read(options)
    planned = objects_of(splits, long_logs.broker.data)

    # When they are built, compacted and gone before it is read
    long_logs.await_built(topic)
    if configs is COMPACTED:
        write(long_logs.bootstrap, topic, 10, keys=4, start=10)
        long_logs.await_compacted(topic)
        long_logs.restart()  # it has the records that are gone in memory
    until(lambda: not any(path.exists() for path in planned))
    found = [record_of(row) for row in read_rows(splits)]

    # Then it has what stock consumers now read of the same offsets
    consumed = Confluent(bootstrap=long_logs.bootstrap).consume(topic)
    assert found == [record for record in consumed if record.offset < 200]
    assert len(found) == (200 if configs is KEPT else 3)  # keys that were not written again

    # And a read that is planned now has all of them, gaps or not
    assert read_records(options) == consumed
    assert read_records({**options, "startingOffsets": f'{{"{topic}": {{"0": 77}}}}'}) == [
        record for record in consumed if record.offset >= 77
    ]


def test_a_time_is_looked_up_again_where_rows_were_swapped(long_logs: LongLogs) -> None:
    # Given a snapshot of objects of the writer
    topic = "swapped-times"
    long_logs.create(topic, KEPT)
    swapping = ExitStack()
    swapping.enter_context(long_logs.unbuilt(topic))
    write(long_logs.bootstrap, topic, 10)
    planned = objects_of(plan_read(at(long_logs, topic)), long_logs.broker.data)
    times = [record.timestamp_ms for record in read_records(at(long_logs, topic))]
    options = at(long_logs, topic, startingTimestamp=str(times[130]))

    def swap() -> None:
        swapping.close()
        long_logs.await_built(topic)
        until(lambda: not any(path.exists() for path in planned))

    async def look() -> list[int]:
        location = LogLocation.of(options)
        async with LogIndex.open(location.postgres) as index:
            read = ReadOptions.of(options)
            chooser = Chooser(index=index, location=location, options=read)
            found = await chooser.partitions()
            await asyncio.to_thread(swap)
            return [*(await chooser.starts(found)).values()]

    # When they are built and gone before a time is looked up in it, then it is found all the same
    assert asyncio.run(look()) == [times.index(times[130])]


def make_snapshot(options: dict[str, str], topic: str) -> None:
    """Make one that has the name of its topic."""

    async def make() -> None:
        async with Snapshots.open(LogLocation.of(options).postgres) as snapshots:
            await snapshots.create(topic, [topic], retention_ms=None)

    asyncio.run(make())


@pytest.mark.parametrize("configs", [KEPT, COMPACTED], ids=["built", "compacted"])
def test_a_snapshot_that_is_compacted_while_it_is_read_is_data_loss(
    long_logs: LongLogs, configs: dict[str, str]
) -> None:
    # Given a read of a snapshot, planned before anything was built or compacted
    topic = f"recorded-{configs.get('cleanup.policy', 'built')}"
    long_logs.create(topic, KEPT)
    options = at(long_logs, topic, asOf=topic)
    with long_logs.unbuilt(topic):
        write(long_logs.bootstrap, topic, 10)
        make_snapshot(at(long_logs, topic), topic)
        splits = plan_read(options)
        lossy = plan_read({**options, "failOnDataLoss": "false"})
    planned = objects_of([*splits, *lossy], long_logs.broker.data)

    # When its objects are gone before it is read
    long_logs.await_built(topic)
    if configs is COMPACTED:
        confluent = Confluent(bootstrap=long_logs.bootstrap)
        confluent.set_configs(ResourceType.TOPIC, topic, COMPACTED)
        long_logs.await_compacted(topic)
    until(lambda: not any(path.exists() for path in planned))

    # Then it has the records of that moment, or says that some may be gone
    if configs is KEPT:
        assert len(read_rows(splits)) == 200
        return
    said = f"{topic}-0: compacted since snapshot {topic}"
    with pytest.raises(DataLoss, match=said):
        read_rows(splits)
    with pytest.raises(DataLoss, match=said):
        plan_read(options)
    assert len(read_rows(lossy)) < 200


def test_records_deleted_within_a_batch_are_not_read(still: BrokerProcess) -> None:
    # Given a log that begins inside of a batch
    Confluent(bootstrap=still.bootstrap).create_topic("cut", partition_count=1, configs=KEPT)
    write(still.bootstrap, "cut", 5)
    admin = AdminClient({"bootstrap.servers": still.bootstrap})
    deleted = admin.delete_records([TopicPartition("cut", 0, 47)])
    for future in deleted.values():
        future.result(CALL_TIMEOUT_S)

    # When it is read, then it has what consumers have
    found = read_records(at(still, "cut"))
    assert found == Confluent(bootstrap=still.bootstrap).consume("cut")
    assert found[0].offset == 47

    # And who asks for what is gone is told so, or gets what there is
    early = at(still, "cut", startingOffsets='{"cut": {"0": 12}}')
    with pytest.raises(DataLoss, match="offset 12 was asked for, the log begins at 47"):
        plan_read(early)
    assert read_records({**early, "failOnDataLoss": "false"}) == found


def test_what_is_not_there_is_said(still: BrokerProcess) -> None:
    # Given a topic of 20 records
    Confluent(bootstrap=still.bootstrap).create_topic("short", partition_count=1, configs=KEPT)
    write(still.bootstrap, "short", 1)

    # Then what is behind its end is not there, nor a topic that nobody made, nor such a time
    late = at(still, "short", endingOffsets='{"short": {"0": 30}}')
    with pytest.raises(DataLoss, match="offsets before 30 were asked for, the log ends at 20"):
        plan_read(late)
    assert len(read_records({**late, "failOnDataLoss": "false"})) == 20
    with pytest.raises(UnknownTopic, match="there is no topic nowhere"):
        plan_read(at(still, "short,nowhere"))
    with pytest.raises(UnknownTopic, match="there is no partition short-3"):
        plan_read({"data": at(still, "")["data"], "assign": '{"short": [0, 3]}'})
    with pytest.raises(NoSuchTime, match="startingTimestamp: short-0 has no record"):
        plan_read(at(still, "short", startingTimestamp="9999999999999"))
    with pytest.raises(ValueError, match=r"nothing is said of short-0, which is read, too"):
        plan_read(at(still, "short", startingOffsets='{"long": {"0": 1}}'))


def test_a_database_that_brokers_have_marked_is_not_read(tmp_path: Path) -> None:
    # Given a database that was set back, as a broker has seen before it ended
    cluster = new_cluster(tmp_path)
    cluster.mark()
    log = {"postgres": cluster.dsn, "store": f"file://{cluster.store}", "subscribe": "any"}

    # When it is read, then that is refused as brokers refuse it; a stream does not wait for better
    with pytest.raises(MetadataWentBack, match="it ends at 1") as refused:
        plan_read(log)
    stream = DirectStreamReader(log)
    began = time.monotonic()
    with pytest.raises(MetadataWentBack, match="it ends at 1"):
        stream.initialOffset()
    assert time.monotonic() - began < kept_connection.PATIENCE_S / 2
    stream.stop()
    assert "When Postgres was set back" in advice(refused.value)


def test_a_stream_that_has_begun_asks_no_database_that_brokers_have_marked(tmp_path: Path) -> None:
    # Given a stream, and one that goes on from a checkpoint, over topics that are to come
    cluster = new_cluster(tmp_path)
    topics = {"subscribePattern": "any.*", "failOnDataLoss": "false"}
    log = {"postgres": cluster.dsn, "store": f"file://{cluster.store}", **topics}
    running, resumed = DirectStreamReader(log), DirectStreamReader(log)
    done = running.latestOffset()
    assert resumed.partitions(done, done) == []

    # When a broker sees that its database was set back
    cluster.mark()

    # Then neither tells Spark of an end, which would be in the checkpoint before records are read
    for stream in (running, resumed):
        with pytest.raises(MetadataWentBack, match="it ends at 1"):
            stream.latestOffset()
        stream.stop()


def damage_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("how", [Path.unlink, damage_byte], ids=["missing", "damaged"])
def test_an_object_that_cannot_be_read_is_an_error_or_left_out(
    still: BrokerProcess, how: Callable[[Path], Any]
) -> None:
    # Given five rows, the object of the third of which is gone, or has another byte
    topic = f"broken-{how.__name__}"
    Confluent(bootstrap=still.bootstrap).create_topic(topic, partition_count=1, configs=KEPT)
    write(still.bootstrap, topic, 5)
    options = at(still, topic)
    whole = read_records(options)
    (split,) = plan_read(options)
    how(objects_of([split], still.log.parent)[2])

    # When it is read, then the error says what is lost, and what to do
    lost = rf"{topic}-0: offsets 40 to 59 cannot be read: .*failOnDataLoss=false"
    with pytest.raises(DataLoss, match=lost):
        read_rows([split])

    # And who wants what there is gets all the rest
    found = read_records({**options, "failOnDataLoss": "false"})
    assert found == [record for record in whole if not 40 <= record.offset < 60]


def test_a_damaged_block_of_a_segment_is_left_out_alone(long_logs: LongLogs) -> None:
    # Given a segment with a byte that is another
    long_logs.create("block", KEPT)
    write(long_logs.bootstrap, "block", 10)
    long_logs.await_built("block")
    options = at(long_logs, "block")
    whole = read_records(options)
    path = objects_of(plan_read(options), long_logs.broker.data)[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)

    # When it is read, then its checksum tells
    with pytest.raises(DataLoss, match="checksum of the block"):
        read_records(options)
    found = read_records({**options, "failOnDataLoss": "false"})
    assert [record for record in whole if record in found] == found
    assert len(found) < len(whole)


def is_missing(path: str, _: Owned) -> Owned:
    raise ObjectMissing(path)


def is_damaged(_: str, data: Owned) -> Owned:
    return bytearray(bytes(data[:65]) + bytes([data[65] ^ 1]) + bytes(data[66:]))


@pytest.mark.parametrize("answer", [is_missing, is_damaged])
@pytest.mark.parametrize("place", ["row", "index", "block"])
def test_a_bad_answer_is_not_the_last_one(
    still: BrokerProcess,
    long_logs: LongLogs,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    answer: Callable[[str, Owned], Owned],
) -> None:
    # Given objects of the writer, or a segment
    topic = f"once-{place}-{answer.__name__}"
    broker = still if place == "row" else long_logs
    Confluent(bootstrap=broker.bootstrap).create_topic(topic, partition_count=1, configs=KEPT)
    write(broker.bootstrap, topic, 4)
    if place != "row":
        long_logs.await_built(topic)
    options = at(broker, topic, failOnDataLoss="false")
    whole = read_records(options)
    (split,) = plan_read(options)
    row = split.rows[-1]
    start = row.start + row.length if place == "index" else row.start

    # And a store of which the first two answers to what lies in one place are bad
    objects = stores().run(stores().store(split.location))
    get, bad = objects.get, iter((answer, answer))

    async def answer_badly(path: str, first: int, length: int) -> Owned:
        data = await get(path, first, length)
        how = next(bad, None) if (path, first) == (row.path, start) else None
        return data if how is None else how(path, data)

    monkeypatch.setattr(objects, "get", answer_badly)
    monkeypatch.setattr(split_reader, "AGAIN_AFTER_S", (0.0, 0.0))

    # When it is read, then nothing is left out
    assert [record_of(one) for one in read_rows([split])] == whole
    assert next(bad, None) is None


def test_a_topic_deleted_meanwhile_is_data_loss(long_logs: LongLogs) -> None:
    # Given a planned read of a topic that is deleted, and its objects with it
    long_logs.create("deleted", KEPT)
    write(long_logs.bootstrap, "deleted", 3)
    splits = plan_read(at(long_logs, "deleted"))
    admin = AdminClient({"bootstrap.servers": long_logs.bootstrap})
    for future in admin.delete_topics(["deleted"]).values():
        future.result(CALL_TIMEOUT_S)
    for path in objects_of(splits, long_logs.broker.data):
        path.unlink(missing_ok=True)  # the sweeper does it in its own time

    # Then it says so
    with pytest.raises(DataLoss, match="deleted-0 is gone from offset 0 on"):
        read_rows(splits)


def test_objects_in_s3_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a log whose objects are in S3
    with S3Server.start(tmp_path) as server:
        server.create_bucket("records")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        cluster = new_cluster(tmp_path)
        url = server.store_url("records", "log")
        store = ("--postgres", cluster.dsn, "--store", url)
        with running_broker(tmp_path / "broker", *store) as broker:
            confluent = Confluent(bootstrap=broker.bootstrap)
            confluent.create_topic("away", partition_count=1, configs=KEPT)
            write(broker.bootstrap, "away", 40)
            consumed = confluent.consume("away")

        # When it is read without a broker, then all is there
        options = {"postgres": cluster.dsn, "store": url, "subscribe": "away"}
        assert read_records(options) == consumed
        close_stores()
