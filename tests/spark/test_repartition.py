"""A topic in another one with more partitions: which records, where, in which order, how often."""

import shutil
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from protocol.compression import Codec
from spark.jobs import repartition
from spark.jobs.options import JobFailed, PipelineOptions, Source
from spark.jobs.repartition import BatchWriter, copy_topic
from spark.jobs.topic_ids import DIRECTORY
from spark.jobs.topics import topic_ids
from spark.sinks.direct_topics import TopicRules
from spark.upkeep.repartitioning import (
    NO_LIMIT_MS,
    NO_LIMITS,
    TAKES_ALL,
    Copy,
    CopyRefused,
    place,
    prepare_target,
)
from storage.errors import MetadataWentBack
from storage.sink_commits import SinkTopic
from tests.clients.confluent import Confluent
from tests.clients.records import ConsumedRecord, SentRecord, check_dense_offsets
from tests.spark.upkeep_clusters import (
    KEPT_FOR_EVER,
    new_cluster,
    rounds_of,
    send_rounds,
    send_transactions,
)
from tests.support.fakes.metadata import MemoryMetadata

FOR_EVER = dict([KEPT_FOR_EVER.removeprefix("log.").split("=")])
OF_CLUSTER = (
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.max.bytes",
)
COUNT = 3
BATCH = {"maxOffsetsPerTrigger": "250"}


def options_of(
    confluent: Confluent, data: dict[str, str], source: Source, tmp_path: Path, topic: str
) -> PipelineOptions:
    return PipelineOptions(
        log=data,
        source=source,
        bootstrap=confluent.bootstrap,
        topics=(topic,),
        output=f"{topic}-wide",
        checkpoint=str(tmp_path / "checkpoint"),
        reader=BATCH,
    )


def flat(rounds: list[list[SentRecord]]) -> list[SentRecord]:
    return [record for records in rounds for record in records]


def fields(one: ConsumedRecord | SentRecord) -> tuple[object, ...]:
    return one.timestamp_ms, one.key, one.value, one.headers


def check_copy(received: list[ConsumedRecord], sent: list[SentRecord]) -> None:
    """All were copied once and as they were; each key is in one partition, in its order."""
    assert sorted(map(fields, received), key=str) == sorted(map(fields, sent), key=str)
    check_dense_offsets(received)
    places: dict[bytes, set[int]] = defaultdict(set)
    order: dict[bytes, list[int | None]] = defaultdict(list)
    for record in received:
        if record.key is not None:
            places[record.key].add(record.partition)
            order[record.key].append(record.timestamp_ms)
    assert all(len(found) == 1 for found in places.values())
    for key, times in order.items():
        assert times == [record.timestamp_ms for record in sent if record.key == key]


@pytest.mark.parametrize("source", list(Source))
def test_every_record_is_copied_once_and_keys_keep_their_order(
    source: Source,
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
) -> None:
    # Given a topic with headers, tombstones, null keys and aborted transactions
    topic = f"narrow-{source}"
    confluent.create_topic(topic, partition_count=2, configs={**FOR_EVER, "segment.ms": "70000"})
    first, later = rounds_of(4, 100), rounds_of(2, 100, start=400)
    send_rounds(confluent.bootstrap, topic, first, **{"compression.type": "zstd"})
    send_transactions(confluent.bootstrap, topic, [False])
    options = options_of(confluent, location_options, source, tmp_path, topic)
    copy = Copy(source=topic, target=options.output, partition_count=COUNT)

    # When it is copied into one with more partitions, in several micro-batches
    done = copy_topic(session, options, copy)

    # Then a stock client reads the same records there, and keys are where Kafka puts them
    received = confluent.consume(options.output)
    check_copy(received, flat(first))
    assert done.records == len(flat(first))
    assert done.batches == 2
    assert confluent.partitions(options.output) == list(range(COUNT))
    judge = f"{topic}-judge"
    confluent.create_topic(judge, partition_count=COUNT, configs=FOR_EVER)
    send_rounds(confluent.bootstrap, judge, first)  # partitioner=murmur2, of another maker
    there = {record.key: record.partition for record in confluent.consume(judge) if record.key}
    assert {record.key: record.partition for record in received if record.key} == there

    # And a run after it copies what came since, and no more
    send_rounds(confluent.bootstrap, topic, later)
    shutil.rmtree(tmp_path / "checkpoint" / DIRECTORY)  # versions before kept no ids of topics
    again = copy_topic(session, options, replace(copy, partition_count=None))
    check_copy(confluent.consume(options.output), [*flat(first), *flat(later)])
    assert again.records == len(flat(later))


class Crash(RuntimeError):
    pass


def test_a_batch_that_spark_has_not_noted_is_not_written_again(
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a driver that dies when its first batch is committed, before Spark knows
    topic = "narrow-crash"
    confluent.create_topic(topic, partition_count=2, configs=FOR_EVER)
    sent = rounds_of(4, 100)
    send_rounds(confluent.bootstrap, topic, sent)
    options = options_of(confluent, location_options, Source.direct, tmp_path, topic)
    copy = Copy(source=topic, target=options.output, partition_count=COUNT)

    class Crashing(BatchWriter):
        def __call__(self, batch: DataFrame, batch_id: int) -> None:
            BatchWriter.__call__(self, batch, batch_id)
            if batch_id == 0:
                raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(repartition, "BatchWriter", Crashing)
        with pytest.raises(JobFailed):
            copy_topic(session, options, copy)
    committed = len(confluent.consume(options.output))
    assert 0 < committed < 400

    # When the job is run again, then each record is there once
    copy_topic(session, options, copy)
    check_copy(confluent.consume(options.output), flat(sent))

    # And a run that does not know what is there refuses to write it twice
    stranger = replace(options, checkpoint=str(tmp_path / "other"))
    with pytest.raises(CopyRefused, match="has records already"):
        copy_topic(session, stranger, copy)


def test_a_checkpoint_that_was_put_back_is_refused(
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
) -> None:
    # Given a copy that was made in two runs, and the checkpoint as it was in between
    topic = "narrow-put-back"
    confluent.create_topic(topic, partition_count=1, configs=FOR_EVER)
    options = options_of(confluent, location_options, Source.direct, tmp_path, topic)
    copy = Copy(source=topic, target=options.output, partition_count=COUNT)
    for start in (0, 10):
        send_rounds(confluent.bootstrap, topic, rounds_of(1, 10, start=start))
        copy_topic(session, options, copy)
        shutil.copytree(options.checkpoint, tmp_path / f"from-{start}")

    # When that is put back, and records come, then they are not taken for what was copied
    shutil.rmtree(options.checkpoint)
    (tmp_path / "from-0").rename(options.checkpoint)
    send_rounds(confluent.bootstrap, topic, rounds_of(1, 10, start=20))
    with pytest.raises(JobFailed, match=r"put back from an older copy: .* has batch 1 of it"):
        copy_topic(session, options, copy)
    assert len(confluent.consume(options.output)) == 20


@pytest.mark.parametrize("source", list(Source))
def test_a_copy_goes_on_only_from_and_into_the_topics_that_it_was_of(
    source: Source,
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
) -> None:
    # Given a copy
    topic = f"narrow-again-{source}"
    confluent.create_topic(topic, partition_count=2, configs=FOR_EVER)
    sent = rounds_of(4, 100)
    send_rounds(confluent.bootstrap, topic, sent)
    options = options_of(confluent, location_options, source, tmp_path, topic)
    options = options.with_reader(failOnDataLoss="false")
    copy = Copy(source=topic, target=options.output, partition_count=COUNT)
    copy_topic(session, options, copy)

    # When a run is to go on with the other source, then it says what its checkpoint is of
    (other_source,) = set(Source) - {source}
    with pytest.raises(JobFailed, match=f"was written with --source {source}"):
        copy_topic(session, replace(options, source=other_source), copy)

    # Given that the target is deleted
    delete(confluent, options.output)

    # When a run goes on, then it makes none that would have only what is new
    wider = replace(copy, partition_count=2 * COUNT)
    with pytest.raises(CopyRefused, match="is gone, and with it what was copied"):
        copy_topic(session, options, wider)

    # Nor does it go on into one that was made again, or into another one
    confluent.create_topic(options.output, partition_count=2 * COUNT, configs=FOR_EVER)
    with pytest.raises(JobFailed, match=f"{options.output} was made again") as refused:
        copy_topic(session, options, wider)
    assert f"another --checkpoint, or remove {options.checkpoint}" in refused.value.fix
    confluent.create_topic(f"{topic}-other", partition_count=COUNT, configs=FOR_EVER)
    other = replace(options, output=f"{topic}-other")
    with pytest.raises(JobFailed, match=f"is of {options.output}, not of {topic}-other"):
        copy_topic(session, other, replace(copy, target=other.output))

    # And a new checkpoint has all of it
    anew = replace(options, checkpoint=str(tmp_path / "anew"))
    copy_topic(session, anew, wider)
    check_copy(confluent.consume(options.output), flat(sent))

    # When the source is made again, then what it has is not taken for what follows
    delete(confluent, topic)
    confluent.create_topic(topic, partition_count=2, configs=FOR_EVER)
    send_rounds(confluent.bootstrap, topic, rounds_of(6, 100, start=1_000))
    with pytest.raises(JobFailed, match=f"the topic {topic} was made again"):
        copy_topic(session, anew, wider)
    check_copy(confluent.consume(options.output), flat(sent))


@pytest.mark.parametrize("source", list(Source))
def test_a_copy_does_not_go_on_into_a_topic_that_is_made_again_meanwhile(
    source: Source,
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a topic that is copied in several batches
    topic = f"narrow-meanwhile-{source}"
    confluent.create_topic(topic, partition_count=2, configs=FOR_EVER)
    send_rounds(confluent.bootstrap, topic, rounds_of(4, 100))
    options = options_of(confluent, location_options, source, tmp_path, topic)

    class Disturbed(BatchWriter):
        def __call__(self, batch: DataFrame, batch_id: int) -> None:
            BatchWriter.__call__(self, batch, batch_id)
            if batch_id == 0:
                delete(confluent, options.output)
                confluent.create_topic(options.output, partition_count=COUNT, configs=FOR_EVER)

    # When the new one is made again between two of them
    monkeypatch.setattr(repartition, "BatchWriter", Disturbed)
    copy = Copy(source=topic, target=options.output, partition_count=COUNT)
    with pytest.raises(JobFailed, match=f"{options.output} was made again"):
        copy_topic(session, options, copy)

    # Then it has not the second without the first
    assert confluent.consume(options.output) == []


def test_no_topic_is_looked_up_in_a_database_that_brokers_have_marked(
    session: SparkSession, tmp_path: Path
) -> None:
    # Given a database that was set back, as a broker has seen before it ended
    cluster = new_cluster(tmp_path)
    cluster.mark()
    log = {"postgres": cluster.dsn, "store": f"file://{cluster.store}"}
    options = PipelineOptions(log=log, source=Source.direct, topics=("any",))

    # When a job asks which topics they are, then that is refused as brokers refuse it
    with pytest.raises(MetadataWentBack, match="it ends at 1"):
        topic_ids(session, options)


def delete(confluent: Confluent, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": confluent.bootstrap})
    admin.delete_topics([topic])[topic].result(timeout=30)


def test_topics_that_cannot_be_copied_are_refused(
    session: SparkSession,
    confluent: Confluent,
    location_options: dict[str, str],
    tmp_path: Path,
) -> None:
    options = options_of(confluent, location_options, Source.direct, tmp_path, "refused")
    confluent.create_topic("refused", partition_count=1)
    clock = {"message.timestamp.type": "LogAppendTime"}
    confluent.create_topic("refused-clock", partition_count=3, configs=clock)
    for copy, reason in (
        (Copy(source="nope", target="t"), "there is no topic nope"),
        (Copy(source="refused", target="refused"), "into itself"),
        (Copy(source="refused", target="t"), "--partitions N makes it"),
        (Copy(source="refused", target="a b", partition_count=2), "cannot be the name"),
        (Copy(source="refused", target="refused-clock"), "sets timestamps itself"),
        (Copy(source="refused", target="refused-clock", partition_count=4), "has 3 partitions"),
    ):
        with pytest.raises(CopyRefused, match=reason):
            copy_topic(session, options, copy)


@pytest.mark.parametrize("name", TAKES_ALL)
async def test_a_topic_that_is_made_takes_what_the_old_one_has(name: str) -> None:
    # Given a topic that has got a config since, by which it would not take its records again
    metadata = MemoryMetadata(Random(1))
    value = "true" if name.endswith(".validation") else "1000"
    configs = {name: value, "retention.ms": "-1"}
    await metadata.create_topic("old", partition_count=1, replication_factor=1, configs=configs)

    # When one is made to copy it into, then the direct sink may write any time and size there,
    # whatever is set of the cluster
    copy = Copy(source="old", target="new", partition_count=COUNT)
    target = await prepare_target(metadata, copy, is_resumed=False)
    assert target.partition_count == COUNT
    (made,) = [one for one in (await metadata.topic_changes(0)).changed if one.name == "new"]
    described = SinkTopic(
        topic_id=made.topic_id,
        name="new",
        leader_epochs=(0,) * COUNT,
        configs=made.configs,
        defaults=dict.fromkeys(OF_CLUSTER, "1000"),
    )
    rules = TopicRules.of(described, Codec.NONE)
    assert rules.before_max_ms == int(NO_LIMIT_MS)
    assert rules.after_max_ms == int(NO_LIMIT_MS)
    assert rules.max_message_bytes == 2**31 - 1
    assert made.configs["retention.ms"] == "-1"

    # And it is told what to set and unset afterwards, until that is done
    to_set = dict.fromkeys(NO_LIMITS) | {name: value}
    assert target.to_set == to_set
    await metadata.alter_topic_configs(made.topic_id, to_set, replace=False)
    again = await prepare_target(metadata, copy, is_resumed=True)
    assert again.to_set == {}


async def test_a_limit_that_somebody_chose_for_the_new_topic_is_left_as_it_is() -> None:
    # Given a topic that has no limits of its own, and one for its copy that has
    metadata = MemoryMetadata(Random(1))
    chosen = {"max.message.bytes": "1000"}
    for name, configs in (("old", {}), ("new", chosen)):
        await metadata.create_topic(name, partition_count=1, replication_factor=1, configs=configs)

    # Then nobody is told to unset them
    target = await prepare_target(metadata, Copy(source="old", target="new"), is_resumed=False)
    assert target.to_set == {}


def test_records_without_a_key_go_by_their_place() -> None:
    # Given records without a key, and some with an empty one
    columns = {
        "key": pa.array([None, b"", None, None], pa.binary()),
        "old_partition": pa.array([0, 0, 0, 2], pa.int32()),
        "old_offset": pa.array([0, 1, 2_500, 999], pa.int64()),
    }
    batch = pa.RecordBatch.from_pydict(columns)

    # Then where they go depends on nothing else, and an empty key is a key
    everywhere = place(batch, 5).tolist()
    assert [everywhere[0], *everywhere[2:]] == [0, 2, 2]
    assert [int(place(batch.slice(at, 1), 5)[0]) for at in range(4)] == everywhere
    assert place(batch, 1).tolist() == [0, 0, 0, 0]
