"""Kafka Streams loses its disk, and has its counts back from a changelog that was compacted."""

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.confluent import Confluent
from tests.clients.long_logs import LongLogs, running_long_logs
from tests.streams.test_word_count import PARTITIONS, PROGRESS, WORDS, Lines, reading
from tests.streams.word_count import WordCount, killed_in_the_end


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LongLogs]:
    with running_long_logs(tmp_path / "broker") as running:
        yield running


def test_counts_come_back_from_a_compacted_changelog(logs: LongLogs, tmp_path: Path) -> None:
    # Given an application that counts words
    name = f"words-{uuid.uuid4().hex[:8]}"
    lines, counts, changelog = f"{name}-lines", f"{name}-counts", f"{name}-counts-changelog"
    for topic in (lines, counts):
        logs.create(topic, {}, partition_count=PARTITIONS)
    application = WordCount(
        bootstrap=logs.bootstrap,
        application=name,
        input_topic=lines,
        output_topic=counts,
        home=tmp_path,
    )
    words: Counter[str] = Counter()
    with killed_in_the_end(application), reading(logs.bootstrap, counts) as read:
        with Lines.flowing(logs.bootstrap, lines) as written:
            application.start()
            read.until_more(PROGRESS, application)
        words += written.words
        read.until_total(words.total(), application)

        # When it is killed and its changelog is compacted: each word is there once
        application.kill()
        logs.await_compacted(changelog)
        logs.restart()  # in memory a broker has its last writes as they were
        changes = Confluent(bootstrap=logs.bootstrap).consume(changelog)
        assert sorted(change.key or b"" for change in changes) == sorted(
            word.encode() for word in WORDS
        )

        # And its disk is lost
        application.forget()

        # Then it goes on from there: each word was counted one by one, without a repetition
        with Lines.flowing(logs.bootstrap, lines) as written:
            application.start()
            read.until_more(PROGRESS, application)
        words += written.words
        read.until_total(words.total(), application)
        read.until_quiet()
    assert {word: list(range(1, count + 1)) for word, count in words.items()} == read.counts
