"""Streams written with format("streamhouse"): each micro-batch is in the log once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.clients.confluent import Confluent
from tests.clients.topics import new_topic

Run = Callable[..., StreamingQuery]


class Files:
    """A stream of lines: a file is a micro-batch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "lines"
        self.directory.mkdir()
        self.checkpoint = directory / "checkpoint"
        self._count = 0

    def add(self, *lines: str) -> None:
        self._count += 1
        (self.directory / f"{self._count:03}.txt").write_text("\n".join(lines))

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a driver does that dies before it notes a batch as done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def topic(confluent: Confluent) -> str:
    return new_topic(confluent, "stream", partition_count=2)


@pytest.fixture
def run(session: SparkSession, files: Files, topic: str, location_options: dict[str, str]) -> Run:
    """Write what there is to the topic, a micro-batch per file, and end."""

    def write() -> StreamingQuery:
        lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(files.directory))
        writer = lines.selectExpr("value AS key", "value").writeStream.format("streamhouse")
        writer = writer.options(**location_options, topic=topic)
        writer = writer.option("checkpointLocation", str(files.checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return write


def values_of(confluent: Confluent, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in confluent.consume(topic))


def test_a_batch_that_spark_does_again_is_there_once(
    run: Run, files: Files, topic: str, confluent: Confluent
) -> None:
    # Given a stream of two micro-batches, whose driver died before it noted the second one
    files.add("a", "b")
    files.add("c")
    first = run()
    assert values_of(confluent, topic) == ["a", "b", "c"]
    files.forget_commit(1)

    # When it goes on, with one more to come
    files.add("d", "e")
    again = run()

    # Then it is the same query, has done that batch again, and each row is there once
    assert again.id == first.id == json.loads((files.checkpoint / "metadata").read_text())["id"]
    assert [progress["batchId"] for progress in again.recentProgress] == [1, 2]
    assert values_of(confluent, topic) == ["a", "b", "c", "d", "e"]


def test_a_checkpoint_that_is_begun_anew_is_another_query(
    run: Run, files: Files, topic: str, confluent: Confluent
) -> None:
    # Given a stream whose checkpoint was deleted
    files.add("a", "b")
    run()
    shutil.rmtree(files.checkpoint)

    # When it is begun anew under the same path, then its rows are written again
    run()
    assert values_of(confluent, topic) == ["a", "a", "b", "b"]


def test_a_checkpoint_that_was_set_back_is_noticed(
    run: Run, files: Files, topic: str, confluent: Confluent
) -> None:
    # Given a stream of two micro-batches, and its checkpoint as it was before the second one
    files.add("a")
    run()
    before = files.checkpoint.with_name("before")
    shutil.copytree(files.checkpoint, before)
    files.add("b")
    run()
    shutil.rmtree(files.checkpoint)
    before.rename(files.checkpoint)
    files.forget_commit(0)

    # When it goes on from there, then it is told so, and nothing is there twice
    with pytest.raises(StreamingQueryException, match=r"batch 0 of query:.* comes after batch 1"):
        run()
    assert values_of(confluent, topic) == ["a", "b"]


def test_a_stream_that_cannot_be_written_says_why(
    session: SparkSession, files: Files, location_options: dict[str, str]
) -> None:
    # Given a stream to a topic that does not exist
    files.add("a")
    lines = session.readStream.text(str(files.directory))
    writer = lines.writeStream.format("streamhouse").options(**location_options, topic="missing")

    # When it runs, then the error says so
    writer = writer.option("checkpointLocation", str(files.checkpoint))
    with pytest.raises(StreamingQueryException, match="topic missing does not exist"):
        writer.trigger(availableNow=True).start().awaitTermination()
