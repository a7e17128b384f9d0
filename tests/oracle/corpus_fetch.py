"""Fetch: whole, incremental, and wrong."""

from typing import Any, Final
from uuid import UUID

from tests.oracle.corpus_logs import FILLED, FULL, READ_COMMITTED, deleted_records
from tests.oracle.corpus_produce import GZIP, LZ4, SNAPPY, ZSTD
from tests.oracle.corpus_records import produced
from tests.oracle.corpus_topics import NO_SUCH_ID
from tests.oracle.wire_cases import COMMON, Case, Step, ask, case, topic
from tests.oracle.wire_values import NULL, Batch, Saved

FETCH: Final = 1
MAX: Final = (1 << 31) - 1

NO_SESSION: Final[dict[str, Any]] = {"session_id": 0, "session_epoch": -1}
NEW_SESSION: Final[dict[str, Any]] = {"session_id": 0, "session_epoch": 0}


def _partition(offset: int, partition: int = 0, **said: Any) -> dict[str, Any]:
    fields = {
        "partition": partition,
        "fetch_offset": offset,
        "current_leader_epoch": -1,
        "partition_max_bytes": 1 << 20,
    }
    return fields | said


def _topic(*partitions: dict[str, Any], name: str = "t-~") -> dict[str, Any]:
    return {"topic": name, "topic_id": Saved(name, None), "partitions": partitions}


def _fetch(*partitions: dict[str, Any], name: str = "t-~", **said: Any) -> Step:
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [_topic(*partitions, name=name)] if partitions else [],
    }
    return ask(FETCH, **{**fields, **NO_SESSION, **said})


def _in_session(epoch: object, *partitions: dict[str, Any], **said: Any) -> Step:
    known = {"session_id": Saved("session"), "session_epoch": epoch}
    return _fetch(*partitions, **{**known, **said})


def _codec(name: str, codec: int) -> Case:
    batch = Batch(values=(b"x" * 100, b"y" * 100), codec=codec)
    return case(
        FETCH, f"records compressed with {name}", topic(), produced(batch), _fetch(_partition(0))
    )


CASES: Final = (
    case(FETCH, "all records", FULL, _fetch(_partition(0))),
    case(FETCH, "from the middle of a batch", FULL, _fetch(_partition(1))),
    case(FETCH, "the last record", FULL, _fetch(_partition(2))),
    case(FETCH, "nothing yet", FULL, _fetch(_partition(3))),
    case(FETCH, "an empty log", COMMON, _fetch(_partition(0))),
    case(FETCH, "committed records", FULL, _fetch(_partition(0), isolation_level=READ_COMMITTED)),
    case(
        FETCH,
        "waiting for what does not come",
        FULL,
        _fetch(_partition(3), max_wait=100, min_bytes=1),
    ),
    case(
        FETCH,
        "more bytes than there are",
        FULL,
        _fetch(_partition(0), max_wait=100, min_bytes=MAX),
    ),
    case(
        FETCH,
        "several partitions",
        topic(partitions=3),
        produced(Batch(), partition=1),
        _fetch(_partition(0), _partition(1, 1), _partition(0, 2)),
    ),
    case(
        FETCH,
        "several topics",
        topic("b-~"),
        topic("a-~"),
        _fetch(topics=[_topic(_partition(0), name="b-~"), _topic(_partition(0), name="a-~")]),
    ),
    _codec("gzip", GZIP),
    _codec("snappy", SNAPPY),
    _codec("lz4", LZ4),
    _codec("zstd", ZSTD),
    case(
        FETCH,
        "zstd before it was known",
        topic(),
        produced(Batch(codec=ZSTD, values=(b"x" * 99,))),
        _fetch(_partition(0)),
        versions=(9, 10),
    ),
    case(
        FETCH,
        "a topic of zstd before it was known",
        topic(compression_type="zstd"),
        produced(Batch(codec=ZSTD, values=(b"x" * 99,))),
        _fetch(_partition(0), _partition(0, 9)),
        versions=(9, 10),
    ),
    case(FETCH, "one byte is one batch", FULL, _fetch(_partition(0, partition_max_bytes=1))),
    case(FETCH, "no bytes of a partition", FULL, _fetch(_partition(0, partition_max_bytes=0))),
    case(
        FETCH,
        "less than no bytes of a partition",
        FULL,
        _fetch(_partition(0, partition_max_bytes=-1)),
    ),
    case(FETCH, "one byte of all", FULL, _fetch(_partition(0), max_bytes=1)),
    case(FETCH, "no bytes of all", FULL, _fetch(_partition(0), max_bytes=0)),
    case(FETCH, "less than no bytes of all", FULL, _fetch(_partition(0), max_bytes=-1)),
    case(FETCH, "negative waiting", FULL, _fetch(_partition(0), max_wait=-1, min_bytes=-1)),
    case(FETCH, "before the beginning", FULL, _fetch(_partition(-1))),
    case(FETCH, "beyond the end", FULL, _fetch(_partition(4))),
    case(FETCH, "an unknown topic", _fetch(_partition(0), name="no-~"), versions=(4, 12)),
    case(FETCH, "an invalid name", _fetch(_partition(0), name="a b-~"), versions=(4, 12)),
    case(
        FETCH,
        "unknown topic ids",
        ask(
            FETCH,
            max_wait=0,
            min_bytes=0,
            topics=[{"topic_id": NO_SUCH_ID, "partitions": [_partition(0)]}],
            **NO_SESSION,
        ),
        ask(
            FETCH,
            max_wait=0,
            min_bytes=0,
            topics=[{"topic_id": UUID(int=0), "partitions": [_partition(0)]}],
            **NO_SESSION,
        ),
        versions=(13, 18),
    ),
    case(
        FETCH,
        "unknown partitions",
        COMMON,
        _fetch(_partition(0, 9), _partition(0, -1), _partition(0)),
    ),
    case(FETCH, "an unknown isolation level", FULL, _fetch(_partition(0), isolation_level=7)),
    case(
        FETCH,
        "a leader epoch to come",
        FULL,
        _fetch(_partition(0, current_leader_epoch=1000)),
        versions=(9, 18),
    ),
    case(
        FETCH,
        "a last epoch to come",
        FULL,
        _fetch(_partition(3, last_fetched_epoch=1000)),
        versions=(12, 18),
    ),
    case(FETCH, "as a follower", FULL, _fetch(_partition(0), replica_id=1), versions=(4, 14)),
    case(FETCH, "as a debugger", FULL, _fetch(_partition(0), replica_id=-2), versions=(4, 14)),
    case(
        FETCH,
        "as a follower by its state",
        FULL,
        _fetch(_partition(0), replica_state={"replica_id": 1, "replica_epoch": 5}),
        versions=(15, 18),
    ),
    case(
        FETCH,
        "of another cluster",
        FULL,
        _fetch(_partition(0), cluster_id="other"),
        versions=(12, 18),
    ),
    case(FETCH, "no topics", _fetch()),
    case(FETCH, "no partitions", COMMON, _fetch(topics=[_topic()])),
    case(FETCH, "null topics", _fetch(topics=NULL)),
    case(FETCH, "the same partition twice", FULL, _fetch(_partition(0), _partition(2))),
    case(
        FETCH,
        "a session",
        FILLED,
        _fetch(_partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1),
        produced(Batch(values=(b"new",))),
        _in_session(2),
        _in_session(3, _partition(4)),
        _in_session(4),
        _in_session(-1),
        _in_session(5),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that forgets",
        topic(partitions=2),
        _fetch(_partition(0), _partition(0, 1), save={"session": "session_id"}, **NEW_SESSION),
        produced(Batch(), partition=1),
        _in_session(
            1, forgotten_topics_data=[{"topic": "t-~", "topic_id": Saved("t-~"), "partitions": [1]}]
        ),
        _in_session(2, _partition(0, 1)),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session with unknown partitions",
        COMMON,
        _fetch(_partition(0, 9), _partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "wrong epochs in a session",
        FULL,
        _fetch(_partition(3), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(2),
        _in_session(-5),
        _in_session(1),
        _in_session(1),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that waits",
        FILLED,
        _fetch(_partition(3), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1, max_wait=100, min_bytes=1),
        produced(Batch(values=(b"new",))),
        _in_session(2, max_wait=20_000, min_bytes=1),
        _in_session(3, _partition(4), max_wait=100, min_bytes=1, isolation_level=READ_COMMITTED),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that goes back",
        FILLED,
        _fetch(_partition(3), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1),
        _in_session(2, _partition(0)),
        _in_session(3, _partition(9)),
        _in_session(4),
        _in_session(5, _partition(3)),
        _in_session(6),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session before the log start",
        FILLED,
        _fetch(_partition(1, partition_max_bytes=0), save={"session": "session_id"}, **NEW_SESSION),
        deleted_records(2),
        _in_session(1),
        _in_session(2, _partition(3)),
        deleted_records(3),
        _in_session(3),
        _in_session(4),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that is left with nothing",
        FILLED,
        _fetch(_partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(
            1, forgotten_topics_data=[{"topic": "t-~", "topic_id": Saved("t-~"), "partitions": [0]}]
        ),
        _in_session(2),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that ends",
        FILLED,
        _fetch(_partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(-1, _partition(0)),
        _in_session(1),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that begins anew",
        FILLED,
        _fetch(_partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(0, _partition(0), save={"next": "session_id"}),
        _in_session(1),
        _fetch(session_id=Saved("next"), session_epoch=1),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session of the same partition twice",
        FILLED,
        _fetch(_partition(0), _partition(2), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1, _partition(3), _partition(1)),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that begins with nothing",
        _fetch(**NEW_SESSION),
        versions=(7, 18),
    ),
    case(
        FETCH,
        "a session that changes to names",
        FILLED,
        _fetch(_partition(0), save={"session": "session_id"}, **NEW_SESSION),
        _in_session(1, _partition(1), at=12),
        _in_session(1, _partition(1)),
        versions=(13, 18),
    ),
    case(
        FETCH,
        "unknown sessions",
        FULL,
        _fetch(_partition(0), session_id=123456, session_epoch=1),
        _fetch(_partition(0), session_id=123456, session_epoch=0),
        _fetch(_partition(0), session_id=0, session_epoch=5),
        _fetch(_partition(0), session_id=-1, session_epoch=1),
        versions=(7, 18),
    ),
)
