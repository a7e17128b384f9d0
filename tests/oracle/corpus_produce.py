"""Produce: all that can be wrong with a batch."""

import struct
from typing import Any, Final
from uuid import UUID

import crc32c

from tests.oracle.corpus_records import PRODUCE, produced, writing
from tests.oracle.corpus_topics import NO_SUCH_ID
from tests.oracle.wire_cases import (
    COMMON,
    PATIENT_MS,
    Case,
    Step,
    ask,
    case,
    given,
    topic,
    topic_id,
)
from tests.oracle.wire_values import FIRST_TIMESTAMP_MS, MADE_UP_ID, NULL, Batch, Saved

LIST_OFFSETS: Final = 2
MAX_TIMESTAMP: Final = -3
INIT_PRODUCER_ID: Final = 22
GZIP, SNAPPY, LZ4, ZSTD, UNKNOWN_CODEC = 1, 2, 3, 4, 5


def _write(*batches: object, **said: Any) -> Step:
    return ask(PRODUCE, **writing(*batches, **said))


def _refused(name: str, batch: object, /, **said: Any) -> Case:
    """A batch that neither broker appends."""
    return case(PRODUCE, name, COMMON, _write(batch, **said))


def _odd(name: str, batch: object, /, **said: Any) -> Case:
    """A batch that one of the brokers appends, or both do."""
    return case(PRODUCE, name, topic(), _write(batch, **said))


def _at(position: int, layout: str, value: int) -> Any:
    """Return a change of one field of a batch, with the checksum made good again."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        struct.pack_into(layout, changed, position, value)
        struct.pack_into(">I", changed, 17, crc32c.crc32c(bytes(changed[21:])))
        return bytes(changed)

    return change


def _broken_checksum(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _magic(number: int) -> Any:
    return lambda data: data[:16] + bytes([number]) + data[17:]


def _codec(name: str, codec: int) -> Case:
    batch = Batch(values=(b"x" * 100, b"y" * 100), codec=codec)
    return case(PRODUCE, f"records compressed with {name}", topic(), _write(batch))


def _offset_at(timestamp: int) -> Step:
    partitions = [{"partition_index": 0, "timestamp": timestamp}]
    topics = [{"name": "t-~", "partitions": partitions}]
    return ask(LIST_OFFSETS, replica_id=-1, topics=topics, timeout=PATIENT_MS)


def _timestamped(name: str, offset_ms: int, **said: Any) -> Case:
    batch = Batch(timestamp_ms=FIRST_TIMESTAMP_MS + offset_ms, **said)
    return case(PRODUCE, name, topic(message_timestamp_after_max_ms="3600000"), _write(batch))


FAR_MS: Final = 100 * 365 * 86_400_000

UNSAID: Final = _at(35, ">q", -1)
"""As Sarama leaves the largest timestamp, before March 2025."""

APPENDED: Final = _at(21, ">h", 0x8)
"""As a broker says that timestamps are its own."""

NEW_PRODUCER: Final = given(
    INIT_PRODUCER_ID,
    transactional_id=None,
    transaction_timeout=60_000,
    save={"id": "producer_id", "epoch": "producer_epoch"},
)


def numbered(sequence: int, **said: Any) -> Batch:
    """Return a batch of the producer that NEW_PRODUCER made."""
    known: dict[str, Any] = {"producer_id": Saved("id"), "producer_epoch": Saved("epoch")}
    return Batch(base_sequence=sequence, **{**known, **said})


PRODUCE_CASES: Final = (
    case(PRODUCE, "a batch", topic(), _write(Batch()), _write(Batch(values=(b"a", b"b")))),
    case(PRODUCE, "acks of the leader", topic(), _write(Batch(), acks=1)),
    case(
        PRODUCE,
        "no acks",
        topic(),
        ask(PRODUCE, answered=False, **writing(Batch(), acks=0)),
        _write(Batch()),
    ),
    case(
        PRODUCE,
        "no acks and an error",
        ask(PRODUCE, answered=False, **writing(Batch(), name="no-~", acks=0)),
        _write(Batch(), name="no-~"),
        versions=(3, 12),
    ),
    case(PRODUCE, "null values and keys", topic(), _write(Batch(values=(None, (b"k", None))))),
    _codec("gzip", GZIP),
    _codec("snappy", SNAPPY),
    _codec("lz4", LZ4),
    _codec("zstd", ZSTD),
    _refused("an unknown codec", Batch(change=_at(21, ">h", UNKNOWN_CODEC), values=(b"x" * 10,))),
    case(
        PRODUCE,
        "zstd before it was allowed",
        topic(),
        _write(Batch(codec=ZSTD, values=(b"x" * 100,))),
        versions=(6, 7),
    ),
    case(PRODUCE, "a topic of no topic", _write(Batch(), name="no-~"), versions=(3, 12)),
    case(
        PRODUCE,
        "an unknown topic id",
        ask(
            PRODUCE,
            acks=-1,
            timeout=PATIENT_MS,
            topic_data=[
                {"topic_id": one, "partition_data": [{"index": 0, "records": Batch()}]}
                for one in (NO_SUCH_ID, UUID(int=0))
            ],
        ),
        versions=(13,),
    ),
    _refused("an unknown partition", Batch(), partition=7),
    _refused("a negative partition", Batch(), partition=-1),
    case(PRODUCE, "an invalid name", _write(Batch(), name="a b-~"), versions=(3, 12)),
    _refused("acks of two brokers", Batch(), acks=2),
    _refused("negative acks", Batch(), acks=-2),
    _odd("negative time", Batch(), timeout=-1),
    _odd("no time at all", Batch(), timeout=0),
    _refused("empty records", b""),
    case(PRODUCE, "no topics", ask(PRODUCE, acks=-1, timeout=PATIENT_MS, topic_data=[])),
    case(PRODUCE, "no partitions", topic(), _write()),
    case(PRODUCE, "null topics", ask(PRODUCE, acks=-1, timeout=PATIENT_MS, topic_data=NULL)),
    case(PRODUCE, "the same partition twice", topic(), _write(Batch(), Batch())),
    case(
        PRODUCE,
        "the same topic twice",
        topic(partitions=2),
        ask(
            PRODUCE,
            acks=-1,
            timeout=PATIENT_MS,
            topic_data=writing(Batch())["topic_data"] + writing(Batch(), partition=1)["topic_data"],
        ),
    ),
    case(
        PRODUCE,
        "good and bad together",
        topic(partitions=2),
        ask(
            PRODUCE,
            acks=-1,
            timeout=PATIENT_MS,
            topic_data=[
                {
                    "name": "t-~",
                    "topic_id": topic_id(),
                    "partition_data": [
                        {"index": 0, "records": Batch(change=_broken_checksum)},
                        {"index": 1, "records": Batch()},
                        {"index": 2, "records": Batch()},
                    ],
                }
            ],
        ),
    ),
    _refused("a broken checksum", Batch(change=_broken_checksum)),
    _refused("the format of 0.10", Batch(change=_magic(1))),
    _refused("the format of 0.8", Batch(change=_magic(0))),
    _refused("a format to come", Batch(change=_magic(3))),
    _refused("a negative format", Batch(change=_magic(255))),
    _refused("two batches in one partition", Batch(change=lambda data: data + data)),
    _refused("a batch cut short", Batch(change=lambda data: data[:-3])),
    _refused("half a header", Batch(change=lambda data: data[:30])),
    _odd("bytes after the batch", Batch(change=lambda data: data + b"abc")),
    _refused("a batch without records", Batch(change=_at(57, ">i", 0))),
    _refused("more records said than sent", Batch(change=_at(57, ">i", 2))),
    _refused("more offsets than records", Batch(last_offset_delta=3)),
    _refused("a negative count", Batch(change=_at(57, ">i", -1))),
    _refused("a negative last offset", Batch(change=_at(23, ">i", -1))),
    _refused("a negative length", Batch(change=lambda data: data[:8] + b"\xff" * 4 + data[12:])),
    _odd("records that are none", Batch(change=_at(61, ">b", 127))),
    _odd("codec and bytes that differ", Batch(change=_at(21, ">h", GZIP))),
    _refused("a base offset", Batch(base_offset=100)),
    _odd("a leader epoch", Batch(leader_epoch=5)),
    _refused("a control batch", Batch(control=True, producer_id=MADE_UP_ID, producer_epoch=0)),
    _odd("unknown attributes", Batch(change=_at(21, ">h", 0x400))),
    case(
        PRODUCE,
        "too large for the topic",
        topic(max_message_bytes="200"),
        _write(Batch(values=(b"x" * 300,))),
    ),
    case(PRODUCE, "no key in a compacted topic", topic(cleanup_policy="compact"), _write(Batch())),
    case(
        PRODUCE,
        "a key in a compacted topic",
        topic(cleanup_policy="compact"),
        _write(Batch(values=((b"k", b"v"),))),
    ),
    _timestamped("a timestamp of long ago", -FAR_MS // 10),
    _timestamped("a timestamp to come", FAR_MS),
    _odd("no timestamp", Batch(timestamp_ms=-1)),
    case(
        PRODUCE,
        "the largest timestamp left out",
        topic(),
        *(_write(Batch(values=(b"x" * 100,), codec=one, change=UNSAID)) for one in (0, GZIP)),
        *(_offset_at(one) for one in (FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + 1, MAX_TIMESTAMP)),
    ),
    _timestamped("a timestamp to come, left out as the largest", FAR_MS, change=UNSAID),
    case(
        PRODUCE,
        "times of the log",
        topic(message_timestamp_type="LogAppendTime"),
        _write(Batch(timestamp_ms=5)),
    ),
    _odd("a timestamp type that is the broker's", Batch(change=APPENDED)),
    _odd("a timestamp type without timestamps", Batch(timestamp_ms=-1, change=APPENDED)),
    case(
        PRODUCE,
        "a timestamp type where the broker sets it",
        topic(message_timestamp_type="LogAppendTime"),
        _write(Batch(change=APPENDED)),
    ),
    case(
        PRODUCE,
        "an idempotent producer",
        topic(),
        NEW_PRODUCER,
        _write(numbered(0)),
        _write(numbered(1)),
        _write(numbered(0)),
        _write(numbered(1)),
        _write(numbered(3)),
        _write(numbered(2)),
    ),
    case(
        PRODUCE,
        "a duplicate in times of the log",
        topic(message_timestamp_type="LogAppendTime"),
        NEW_PRODUCER,
        _write(numbered(0)),
        _write(numbered(0)),
    ),
    case(
        PRODUCE,
        "a sequence that begins late",
        topic(),
        NEW_PRODUCER,
        _write(numbered(5)),
        _write(numbered(6)),
    ),
    case(
        PRODUCE,
        "duplicates from long ago",
        topic(),
        NEW_PRODUCER,
        *(produced(numbered(at)) for at in range(7)),
        _write(numbered(0)),
        _write(numbered(2)),
    ),
    case(
        PRODUCE,
        "epochs",
        topic(),
        NEW_PRODUCER,
        _write(numbered(0, producer_epoch=3)),
        _write(numbered(1, producer_epoch=2)),
        _write(numbered(1, producer_epoch=4)),
        _write(numbered(0, producer_epoch=4)),
    ),
    _odd(
        "a producer id that nobody gave out",
        Batch(producer_id=MADE_UP_ID + 7, producer_epoch=0, base_sequence=0),
    ),
    _odd("a producer without an epoch", Batch(producer_id=MADE_UP_ID, base_sequence=0)),
    _refused("a producer without a sequence", Batch(producer_id=MADE_UP_ID, producer_epoch=0)),
    _odd("a sequence without a producer", Batch(base_sequence=0)),
    _odd(
        "a negative producer",
        Batch(producer_id=-2, producer_epoch=0, base_sequence=0),
    ),
    _refused(
        "a transactional batch without a transactional id",
        Batch(transactional=True, producer_id=MADE_UP_ID, producer_epoch=0, base_sequence=0),
    ),
    _refused(
        "a transactional batch of an unknown transaction",
        Batch(transactional=True, producer_id=MADE_UP_ID, producer_epoch=0, base_sequence=0),
        transactional_id="x-~",
    ),
    _odd("a transactional id and a plain batch", Batch(), transactional_id="x-~"),
)

CASES: Final = PRODUCE_CASES
