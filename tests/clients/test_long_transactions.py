"""Stock clients on transactions that were built into segments, and compacted."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from tests.clients.confluent import CALL_TIMEOUT_S, Confluent
from tests.clients.long_log_readers import COMMITTED, UNCOMMITTED, LongLogReader
from tests.clients.long_logs import LongLogs, Written, latest_of
from tests.clients.records import ConsumedRecord

BUILT, COMPACTED, OPEN = "built-transactions", "compacted-transactions", "open-transaction"
CONFIGS: Final = {
    BUILT: {"retention.ms": "-1"},
    COMPACTED: {"cleanup.policy": "compact"},
    OPEN: {"cleanup.policy": "compact"},
}
KEYS, STEPS, TIMEOUT_MS = 40, 80, 600_000
NAMES: Final = ("plain", "a", "b", "c")


@dataclass(slots=True)
class Writers:
    """Producers side by side, one of them without transactions.

    Attributes:
        stable: records by offset that are there for good.
        aborted: those of aborted transactions.
        opened: those of open transactions, by producer.
    """

    bootstrap: str
    topic: str
    stable: dict[int, ConsumedRecord] = field(default_factory=dict)
    aborted: dict[int, ConsumedRecord] = field(default_factory=dict)
    opened: dict[str, dict[int, ConsumedRecord]] = field(default_factory=dict)
    written: dict[str, Written] = field(init=False)
    chance: Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(self.topic)
        self.written = {name: self._written(name) for name in NAMES}

    def _written(self, name: str) -> Written:
        if name == "plain":
            return Written(self.bootstrap, self.topic, {"compression.type": "zstd"}, self.stable)
        settings: dict[str, str | int | bool] = {
            "transactional.id": f"{name}-{self.topic}",
            "transaction.timeout.ms": TIMEOUT_MS,
            "compression.type": "lz4",
        }
        written = Written(self.bootstrap, self.topic, settings)
        written.producer.init_transactions(CALL_TIMEOUT_S)
        return written

    def write(self, name: str, *keys: int) -> None:
        """Write a record of each key, in one batch or more."""
        written = self.written[name]
        if name != "plain" and name not in self.opened:
            written.producer.begin_transaction()
            self.opened[name] = written.log = {}
        text = [(b"%d" % key, self.chance.randbytes(100).hex().encode()) for key in keys]
        written.write(*text)

    def end(self, name: str, *, commit: bool) -> None:
        if name not in self.opened:
            return
        if commit:
            self.written[name].producer.commit_transaction(CALL_TIMEOUT_S)
        else:
            self.written[name].producer.abort_transaction(CALL_TIMEOUT_S)
        (self.stable if commit else self.aborted).update(self.opened.pop(name))

    def interleave(self) -> None:
        for _ in range(STEPS):
            name = self.chance.choice(NAMES)
            if name in self.opened and self.chance.random() < 0.4:
                self.end(name, commit=self.chance.random() < 0.5)
            else:
                self.write(name, *self.chance.choices(range(KEYS), k=self.chance.randint(1, 20)))
        for name in NAMES:
            self.end(name, commit=name == "a")
        self.write("b", *range(KEYS))
        self.end("b", commit=False)  # what has the latest values of all keys never was

    @property
    def all(self) -> dict[int, ConsumedRecord]:
        return self.stable | self.aborted


@pytest.fixture(scope="module")
def writers(long_logs: LongLogs) -> dict[str, Writers]:
    """Topics that were written, built, compacted as far as they can be, and are in no memory."""
    made: dict[str, Writers] = {}
    for topic, configs in CONFIGS.items():
        long_logs.create(topic, configs)
        made[topic] = Writers(long_logs.bootstrap, topic)
        made[topic].interleave()
    made[OPEN].write("plain", 1, 2, 3)
    made[OPEN].write("c", *range(0, KEYS, 2))
    made[OPEN].write("plain", *range(0, KEYS, 3))
    long_logs.await_built(BUILT)
    long_logs.await_built(OPEN)
    long_logs.await_compacted(COMPACTED)
    long_logs.restart()
    return made


def test_built_transactions(
    read: LongLogReader, writers: dict[str, Writers], long_logs: LongLogs
) -> None:
    built = writers[BUILT]
    end = end_of(long_logs, BUILT)
    for level, expected in ((COMMITTED, built.stable), (UNCOMMITTED, built.all)):
        for start in (0, max(built.aborted) // 2, max(built.aborted)):
            reading = read(BUILT, level, start)

            offsets = [offset for offset in sorted(expected) if offset >= start]
            assert reading.records == [expected[offset] for offset in offsets]
            assert reading.position in (end, None)


def test_compacted_transactions(
    read: LongLogReader, writers: dict[str, Writers], long_logs: LongLogs
) -> None:
    # What was aborted takes nothing away, and is not there any more
    expected = latest_of(writers[COMPACTED].stable)
    end = end_of(long_logs, COMPACTED)
    for level in (COMMITTED, UNCOMMITTED):
        reading = read(COMPACTED, level, 0)

        assert reading.records == expected
        assert reading.position in (end, None)


def test_an_open_transaction(read: LongLogReader, writers: dict[str, Writers]) -> None:
    # Compaction may have come to the last stable offset, and what is behind it is as it was
    opened = writers[OPEN]
    stable_end = min(opened.opened["c"])
    before = {offset: one for offset, one in opened.stable.items() if offset < stable_end}
    behind = {offset: one for offset, one in opened.stable.items() if offset > stable_end}
    behind |= opened.opened["c"]

    committed = read(OPEN, COMMITTED, 0)
    uncommitted = read(OPEN, UNCOMMITTED, 0)

    found = {one.offset: one for one in committed.records}
    assert list(found) == sorted(found)
    assert found.items() <= before.items()
    assert latest_of(found) == latest_of(before)
    assert committed.position in (stable_end, None)
    offsets = [one.offset for one in uncommitted.records]
    assert offsets == sorted(offsets)
    assert [one for one in uncommitted.records if one.offset >= stable_end] == [
        behind[offset] for offset in sorted(behind)
    ]


@pytest.fixture(scope="module")
def gone_on(writers: dict[str, Writers], long_logs: LongLogs) -> dict[str, Writers]:
    """Topics whose producers, of which nothing but markers may be left, have written again."""
    chosen = {topic: writers[topic] for topic in (COMPACTED, OPEN)}
    for going_on in chosen.values():
        going_on.end("c", commit=True)
        going_on.interleave()
    for topic in chosen:
        long_logs.await_compacted(topic)
    long_logs.restart()
    return chosen


def test_producers_go_on_after_compaction(
    read: LongLogReader, gone_on: dict[str, Writers], long_logs: LongLogs
) -> None:
    for topic, written in gone_on.items():
        reading = read(topic, COMMITTED, 0)

        assert reading.records == latest_of(written.stable)
        assert reading.position in (end_of(long_logs, topic), None)


def end_of(logs: LongLogs, topic: str) -> int:
    """Return the high watermark of a log that begins at 0."""
    return Confluent(bootstrap=logs.bootstrap).record_counts(topic)[0]
