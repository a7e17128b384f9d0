"""Logs: ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeProducers."""

from typing import Any, Final

from tests.oracle.corpus_produce import NEW_PRODUCER, numbered
from tests.oracle.corpus_records import produced
from tests.oracle.wire_cases import COMMON, PATIENT_MS, Common, Given, Step, ask, case, given, topic
from tests.oracle.wire_values import FIRST_TIMESTAMP_MS, NULL, Batch, Null, Saved

LIST_OFFSETS: Final = 2
DELETE_RECORDS: Final = 21
OFFSET_FOR_LEADER_EPOCH: Final = 23
DESCRIBE_PRODUCERS: Final = 61
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5
READ_COMMITTED: Final = 1


def _offsets(*timestamps: int, name: str | Null = "t-~", **said: Any) -> Step:
    partitions = [{"partition_index": 0, "timestamp": one} for one in timestamps]
    topics = [{"name": name, "partitions": partitions}]
    return ask(LIST_OFFSETS, **{"replica_id": -1, "topics": topics, "timeout": PATIENT_MS, **said})


FILLED: Final = (
    *topic(),
    produced(Batch(values=(b"a", b"b"))),
    produced(Batch(values=(b"c",), timestamp_ms=FIRST_TIMESTAMP_MS + 1000)),
)
"""A topic t-~ with three records in two batches."""


FULL: Final = Common(name="full", steps=FILLED)
"""One that stays so."""


def _epoch(current: int, **said: Any) -> Step:
    partition = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": current}
    return _offsets(topics=[{"name": "t-~", "partitions": [partition]}], **said)


LIST_OFFSETS_CASES: Final = (
    case(LIST_OFFSETS, "ends of an empty log", COMMON, _offsets(LATEST), _offsets(EARLIEST)),
    case(LIST_OFFSETS, "ends of a log", FULL, _offsets(LATEST), _offsets(EARLIEST)),
    case(LIST_OFFSETS, "committed ends", FULL, _offsets(LATEST, isolation_level=READ_COMMITTED)),
    case(
        LIST_OFFSETS,
        "by time",
        FULL,
        _offsets(0),
        _offsets(FIRST_TIMESTAMP_MS),
        _offsets(FIRST_TIMESTAMP_MS + 1),
        _offsets(FIRST_TIMESTAMP_MS + 1000),
        _offsets(FIRST_TIMESTAMP_MS + 1001),
        _offsets(FIRST_TIMESTAMP_MS + 1, isolation_level=READ_COMMITTED),
    ),
    case(LIST_OFFSETS, "the latest timestamp", FULL, _offsets(MAX_TIMESTAMP)),
    case(LIST_OFFSETS, "the latest timestamp of nothing", COMMON, _offsets(MAX_TIMESTAMP)),
    case(LIST_OFFSETS, "the local log's start", FULL, _offsets(EARLIEST_LOCAL)),
    case(LIST_OFFSETS, "the remote log's end", FULL, _offsets(LATEST_TIERED)),
    case(LIST_OFFSETS, "the upload to come", FULL, _offsets(-6)),
    case(LIST_OFFSETS, "an unknown word for a time", FULL, _offsets(-7), _offsets(-(1 << 63))),
    case(LIST_OFFSETS, "an unknown topic", _offsets(LATEST, name="no-~")),
    case(LIST_OFFSETS, "invalid names", _offsets(LATEST, name="a b-~"), _offsets(LATEST, name="")),
    case(
        LIST_OFFSETS,
        "unknown partitions",
        COMMON,
        _offsets(
            topics=[
                {
                    "name": "t-~",
                    "partitions": [
                        {"partition_index": at, "timestamp": LATEST} for at in (9, -1, 0)
                    ],
                }
            ]
        ),
    ),
    case(LIST_OFFSETS, "the same partition twice", FULL, _offsets(LATEST, EARLIEST)),
    case(LIST_OFFSETS, "an unknown isolation level", FULL, _offsets(LATEST, isolation_level=7)),
    case(LIST_OFFSETS, "epochs", FULL, _epoch(1000), _epoch(-1), _epoch(-5)),
    case(LIST_OFFSETS, "as a follower", FULL, _offsets(LATEST, replica_id=1)),
    case(LIST_OFFSETS, "as a debugger", FULL, _offsets(LATEST, replica_id=-2)),
    case(LIST_OFFSETS, "no topics", _offsets(topics=[])),
    case(LIST_OFFSETS, "null topics", _offsets(topics=NULL)),
    case(LIST_OFFSETS, "null name", _offsets(LATEST, name=NULL)),
)


def _truncate(*wanted: tuple[int, int], name: str = "t-~", **said: Any) -> Step:
    partitions = [{"partition_index": at, "offset": offset} for at, offset in wanted]
    topics = [{"name": name, "partitions": partitions}]
    return ask(DELETE_RECORDS, **{"topics": topics, "timeout": PATIENT_MS, **said})


def deleted_records(before: int) -> Given:
    """Delete the records of t-~ before an offset."""
    partitions = [{"partition_index": 0, "offset": before}]
    topics = [{"name": "t-~", "partitions": partitions}]
    return given(DELETE_RECORDS, topics=topics, timeout=PATIENT_MS)


DELETE_RECORDS_CASES: Final = (
    case(DELETE_RECORDS, "some records", FILLED, _truncate((0, 1)), _offsets(EARLIEST, at=7)),
    case(DELETE_RECORDS, "all records", FILLED, _truncate((0, -1))),
    case(DELETE_RECORDS, "up to the end", FILLED, _truncate((0, 3))),
    case(DELETE_RECORDS, "no records", FULL, _truncate((0, 0))),
    case(DELETE_RECORDS, "what is deleted already", FILLED, _truncate((0, 2)), _truncate((0, 1))),
    case(DELETE_RECORDS, "beyond the end", FULL, _truncate((0, 4))),
    case(DELETE_RECORDS, "a negative offset", FULL, _truncate((0, -2))),
    case(DELETE_RECORDS, "an unknown topic", _truncate((0, 0), name="no-~")),
    case(DELETE_RECORDS, "an invalid name", _truncate((0, 0), name="a b-~")),
    case(DELETE_RECORDS, "unknown partitions", COMMON, _truncate((9, 0), (-1, 0), (0, 0))),
    case(DELETE_RECORDS, "the same partition twice", FILLED, _truncate((0, 1), (0, 2))),
    case(DELETE_RECORDS, "no topics", _truncate(topics=[])),
    case(DELETE_RECORDS, "null topics", _truncate(topics=NULL)),
    case(DELETE_RECORDS, "no time at all", FILLED, _truncate((0, 1), timeout=0)),
    case(
        DELETE_RECORDS,
        "a compacted topic",
        topic(cleanup_policy="compact"),
        produced(Batch(values=((b"k", b"v"),))),
        _truncate((0, 1)),
    ),
)


def _ends(*wanted: tuple[int, int], name: str = "t-~", partition: int = 0, **said: Any) -> Step:
    partitions = [
        {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        for current, epoch in wanted
    ]
    topics = [{"topic": name, "partitions": partitions}]
    return ask(OFFSET_FOR_LEADER_EPOCH, **{"replica_id": -2, "topics": topics, **said})


EPOCH_CASES: Final = (
    case(
        OFFSET_FOR_LEADER_EPOCH,
        "the current epoch",
        FULL,
        given(
            3,
            topics=[{"name": "t-~"}],
            save={"current": "topics.0.partitions.0.leader_epoch"},
        ),
        _ends(
            topics=[
                {
                    "topic": "t-~",
                    "partitions": [
                        {
                            "partition": 0,
                            "current_leader_epoch": -1,
                            "leader_epoch": Saved("current"),
                        }
                    ],
                }
            ]
        ),
    ),
    case(OFFSET_FOR_LEADER_EPOCH, "an epoch to come", FULL, _ends((-1, 1000))),
    case(OFFSET_FOR_LEADER_EPOCH, "no epoch", FULL, _ends((-1, -1))),
    case(OFFSET_FOR_LEADER_EPOCH, "a current epoch to come", FULL, _ends((1000, 0))),
    case(OFFSET_FOR_LEADER_EPOCH, "an unknown topic", _ends((-1, 0), name="no-~")),
    case(OFFSET_FOR_LEADER_EPOCH, "an invalid name", _ends((-1, 0), name="a b-~")),
    case(OFFSET_FOR_LEADER_EPOCH, "an unknown partition", COMMON, _ends((-1, 0), partition=9)),
    case(OFFSET_FOR_LEADER_EPOCH, "as a follower", FULL, _ends((-1, 1000), replica_id=1)),
    case(OFFSET_FOR_LEADER_EPOCH, "no topics", _ends(topics=[])),
    case(OFFSET_FOR_LEADER_EPOCH, "null topics", _ends(topics=NULL)),
    case(OFFSET_FOR_LEADER_EPOCH, "the same partition twice", FULL, _ends((-1, 1000), (-1, -1))),
)


def _producers(*partitions: int, name: str = "t-~", **said: Any) -> Step:
    topics = [{"name": name, "partition_indexes": partitions}]
    return ask(DESCRIBE_PRODUCERS, **{"topics": topics, **said})


PRODUCER_CASES: Final = (
    case(DESCRIBE_PRODUCERS, "nobody", COMMON, _producers(0)),
    case(
        DESCRIBE_PRODUCERS,
        "idempotent producers",
        topic(),
        NEW_PRODUCER,
        produced(numbered(0)),
        produced(numbered(1)),
        _producers(0),
    ),
    case(DESCRIBE_PRODUCERS, "plain producers", FULL, _producers(0)),
    case(DESCRIBE_PRODUCERS, "an unknown topic", _producers(0, name="no-~")),
    case(DESCRIBE_PRODUCERS, "an invalid name", _producers(0, name="a b-~")),
    case(DESCRIBE_PRODUCERS, "unknown partitions", COMMON, _producers(9, -1, 0)),
    case(DESCRIBE_PRODUCERS, "the same partition twice", COMMON, _producers(0, 0)),
    case(DESCRIBE_PRODUCERS, "no partitions", COMMON, _producers()),
    case(DESCRIBE_PRODUCERS, "no topics", _producers(topics=[])),
    case(DESCRIBE_PRODUCERS, "null topics", _producers(topics=NULL)),
)

CASES: Final = LIST_OFFSETS_CASES + DELETE_RECORDS_CASES + EPOCH_CASES + PRODUCER_CASES
