"""Headers, null keys, tombstones and timestamps survive from each client to each client."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.clients.aiokafka_client import Aiokafka
from tests.clients.confluent import Confluent
from tests.clients.java_tools import NULL, JavaTools
from tests.clients.kcat import Kcat
from tests.clients.records import Headers, Reader, SentRecord
from tests.clients.spark_session import Spark
from tests.clients.topics import new_topic

HEADERS: Headers = (("trace", b"1"), ("empty", b""), ("trace", b"2"), ("nothing", None))
SHAPES = (
    SentRecord(key=b"key", value=b"value"),
    SentRecord(key=b"key", value=None),  # a tombstone
    SentRecord(key=b"key", value=b""),  # which is none
    SentRecord(key=None, value=b"null key"),
    SentRecord(key=b"", value=b"empty key"),
    SentRecord(key=b"key", value=b"with headers", headers=HEADERS),
    SentRecord(key=b"key", value=None, headers=HEADERS),
    SentRecord(key="clé".encode(), value="값".encode(), headers=(("é", "✓".encode()),)),
)
NOTHING_BUT_HEADERS = SentRecord(key=None, value=None, headers=HEADERS)  # aiokafka will not send it
# In one batch, neither rising nor falling: its first, its largest and its last time all differ.
TIMES_MS = (1_700_000_000_123, 1, 1_700_000_000_999, 1_356_998_400_001, 1_700_000_000_122)
CLOCK_SLACK_MS = 1_000  # between this process's clock and that of a client's


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A topic of one partition that some client filled, and when it did."""

    topic: str
    sent: Sequence[SentRecord]
    before_ms: int
    after_ms: int


def from_confluent(client: Confluent, topic: str) -> Sequence[SentRecord]:
    client.produce(topic, [*SHAPES, NOTHING_BUT_HEADERS])
    return [*SHAPES, NOTHING_BUT_HEADERS]


def from_aiokafka(client: Aiokafka, topic: str) -> Sequence[SentRecord]:
    client.produce(topic, SHAPES)
    return SHAPES


def from_spark(client: Spark, topic: str) -> Sequence[SentRecord]:
    client.produce(topic, [*SHAPES, NOTHING_BUT_HEADERS])
    return [*SHAPES, NOTHING_BUT_HEADERS]


def from_kcat(client: Kcat, topic: str) -> Sequence[SentRecord]:
    """Send what lines can say: first with empty for null, then with empty for empty."""
    headers = ["trace=1", "empty=", "trace=2", "nothing"]
    client.produce(topic, b"key\t\n\tvalue\n", headers=headers, empty_is_null=True)
    client.produce(topic, b"key\t\n\tvalue\nno tab\n")
    return (
        SentRecord(key=b"key", value=None, headers=HEADERS),
        SentRecord(key=None, value=b"value", headers=HEADERS),
        SentRecord(key=b"key", value=b""),
        SentRecord(key=b"", value=b"value"),
        SentRecord(key=None, value=b"no tab"),
    )


def from_console_producer(client: JavaTools, topic: str) -> Sequence[SentRecord]:
    lines = (
        f"trace:1,empty:,trace:2,nothing:{NULL}\tkey\tvalue\n"
        f"{NULL}\tkey\t{NULL}\n"
        f"{NULL}\t{NULL}\tnull key\n"
        f"{NULL}\tkey\t\n"
        f"{NULL}\t\tempty key\n"
    )
    client.produce(topic, lines.encode(), codec="none", headers=True)
    return (
        SentRecord(key=b"key", value=b"value", headers=HEADERS),
        SentRecord(key=b"key", value=None),
        SentRecord(key=None, value=b"null key"),
        SentRecord(key=b"key", value=b""),
        SentRecord(key=b"", value=b"empty key"),
    )


FILLERS: Final[dict[str, Callable[[Any, str], Sequence[SentRecord]]]] = {
    "confluent": from_confluent,
    "aiokafka": from_aiokafka,
    "kcat": from_kcat,
    "java_tools": from_console_producer,
    "spark": from_spark,
}


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, confluent: Confluent) -> Callable[[str], Filled]:
    """Return what a client sent; it does so when first asked for."""

    @functools.cache
    def fill(producer: str) -> Filled:
        client = request.getfixturevalue(producer)
        topic = new_topic(confluent, f"fields-{producer}")
        before_ms = time.time_ns() // 1_000_000 - CLOCK_SLACK_MS
        sent = FILLERS[producer](client, topic)
        after_ms = time.time_ns() // 1_000_000 + CLOCK_SLACK_MS
        return Filled(topic=topic, sent=sent, before_ms=before_ms, after_ms=after_ms)

    return fill


@pytest.mark.parametrize("producer", list(FILLERS))
def test_every_client_reads_the_fields_that_any_client_sent(
    reader: Reader, filled: Callable[[str], Filled], producer: str
) -> None:
    # Given records of every shape that one stock client can send
    given = filled(producer)

    # When another reads them
    records = reader(given.topic)

    # Then keys, values and headers are the same, null where they were null and empty where empty
    read = [SentRecord(key=r.key, value=r.value, headers=r.headers) for r in records]
    assert read == list(given.sent)
    assert [record.offset for record in records] == list(range(len(given.sent)))
    # and the time is the producer's
    times_ms = [record.timestamp_ms for record in records]
    assert given.before_ms <= min(times_ms) <= max(times_ms) <= given.after_ms


@pytest.fixture(scope="module", params=["confluent", "aiokafka"])
def timed_topic(request: pytest.FixtureRequest, confluent: Confluent) -> str:
    """Records whose timestamps their producer chose."""
    topic = new_topic(confluent, f"times-{request.param}")
    client: Confluent | Aiokafka = request.getfixturevalue(request.param)
    sent = [SentRecord(key=b"key", value=b"value", timestamp_ms=time_ms) for time_ms in TIMES_MS]
    client.produce(topic, sent)
    return topic


def test_timestamps_are_kept_to_the_millisecond(reader: Reader, timed_topic: str) -> None:
    records = reader(timed_topic)

    assert tuple(record.timestamp_ms for record in records) == TIMES_MS
