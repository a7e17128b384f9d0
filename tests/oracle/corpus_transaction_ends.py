"""Transactions end: EndTxn, WriteTxnMarkers, and what is read of them."""

from typing import Any, Final

from tests.oracle.corpus_logs import READ_COMMITTED
from tests.oracle.corpus_records import FETCH, PRODUCE
from tests.oracle.corpus_transactions import (
    ADD_PARTITIONS,
    EPOCH,
    ID,
    IDENTITY,
    INIT_PRODUCER_ID,
    INITIALIZED,
    NEXT,
    READY,
    STRANGER,
    adding,
)
from tests.oracle.wire_cases import PATIENT_MS, Given, Step, ask, case, given, topic, topic_id
from tests.oracle.wire_values import MADE_UP_ID, NULL, Batch

END_TXN: Final = 26
WRITE_MARKERS: Final = 27
ALONE: Final = (*topic(partitions=2), INITIALIZED)


def _added(*partitions: int) -> Given:
    return given(ADD_PARTITIONS, at=3, **adding(*partitions))


def _end(*, committed: bool = True, **said: Any) -> Step:
    return ask(END_TXN, **{**IDENTITY, "committed": committed, **said})


def ended(*, committed: bool = True, at: int = 4) -> Given:
    return given(END_TXN, at=at, **IDENTITY, committed=committed)


def _write(sequence: int = 0, *, at: int = 11, partition: int = 0, **said: Any) -> Given:
    """Write in a transaction as clients of the first protocol do, unless `at` is later."""
    batch = Batch(transactional=True, producer_id=ID, producer_epoch=EPOCH, base_sequence=sequence)
    return given(PRODUCE, at=at, **_writing(batch, partition=partition, **said))


def _writing(batch: Batch, partition: int = 0, **said: Any) -> dict[str, Any]:
    data = [{"index": partition, "records": batch}]
    return {
        "transactional_id": "x-~",
        "acks": -1,
        "timeout": PATIENT_MS,
        "topic_data": [{"name": "t-~", "topic_id": topic_id(), "partition_data": data}],
    } | said


def _read(isolation_level: int, ended_at: int | None = None) -> Step:
    """Read all; if `ended_at` is given, what follows the first batch, once all has ended there.

    From the first batch on, Apache Kafka answers with that alone if a marker follows it.
    """
    start = 0 if ended_at is None else 1
    partition = {"partition": 0, "fetch_offset": start, "partition_max_bytes": 1 << 20}
    answered = "responses.0.partitions.0"
    ends = (f"{answered}.last_stable_offset", f"{answered}.high_watermark")
    return ask(
        FETCH,
        max_wait=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic_id": topic_id(), "partitions": [partition]}],
        until={} if ended_at is None else dict.fromkeys(ends, ended_at),
    )


OPEN: Final = (*READY, _added(0), _write())
OPEN_ALONE: Final = (*ALONE, _added(0), _write())
READ_BOTH: Final = (_read(0), _read(READ_COMMITTED))


def _read_both(ended_at: int) -> tuple[Step, Step]:
    return _read(0, ended_at), _read(READ_COMMITTED, ended_at)


END_CASES: Final = (
    case(END_TXN, "a commit", OPEN_ALONE, READ_BOTH, _end(), _read_both(2)),
    case(END_TXN, "an abort", OPEN_ALONE, READ_BOTH, _end(committed=False), _read_both(2)),
    case(END_TXN, "a commit, twice", OPEN, _end(), _end()),
    case(END_TXN, "an abort, twice", OPEN, _end(committed=False), _end(committed=False)),
    case(END_TXN, "a commit, then an abort", OPEN, _end(), _end(committed=False)),
    case(END_TXN, "nothing to commit", READY, _end()),
    case(END_TXN, "nothing to abort", READY, _end(committed=False)),
    case(END_TXN, "an unknown transactional id", _end(**STRANGER)),
    case(END_TXN, "another producer id", OPEN, _end(producer_id=MADE_UP_ID)),
    case(END_TXN, "another epoch", OPEN, _end(producer_epoch=9), _end(producer_epoch=-1)),
    case(END_TXN, "no transactional id", OPEN, _end(transactional_id="")),
    case(END_TXN, "null transactional id", _end(**(STRANGER | {"transactional_id": NULL}))),
    case(
        END_TXN,
        "transactions of the second protocol",
        ALONE,
        _write(at=12),
        _end(save=NEXT, at=5),
        ask(
            PRODUCE,
            **_writing(
                Batch(transactional=True, producer_id=ID, producer_epoch=EPOCH, base_sequence=0)
            ),
        ),
        _end(save=NEXT, at=5, committed=False),
        _read_both(4),
    ),
    case(
        END_TXN,
        "a new epoch, then the end of what was open",
        ALONE,
        _write(at=12),
        given(INIT_PRODUCER_ID, at=5, **IDENTITY, transaction_timeout=60_000),
        ask(66, at=2, duration_filter=-1, transactional_id_pattern="x-~"),
        _end(committed=False),
        _end(),
        versions=(4, 5),
    ),
    case(
        END_TXN,
        "records that are not in a transaction",
        ALONE,
        ask(
            PRODUCE,
            at=12,
            **_writing(
                Batch(transactional=True, producer_id=ID, producer_epoch=EPOCH, base_sequence=5)
            ),
        ),
        ask(
            PRODUCE, at=12, **_writing(Batch(producer_id=ID, producer_epoch=EPOCH, base_sequence=0))
        ),
        ask(
            PRODUCE,
            at=12,
            **_writing(
                Batch(transactional=True, producer_id=ID, producer_epoch=9, base_sequence=0)
            ),
        ),
    ),
    case(
        END_TXN,
        "a plain record in a transaction",
        OPEN_ALONE,
        ask(
            PRODUCE,
            at=12,
            **_writing(
                Batch(producer_id=ID, producer_epoch=EPOCH, base_sequence=1), transactional_id=None
            ),
        ),
    ),
)


def _marking(**said: Any) -> dict[str, Any]:
    topics = [{"name": "t-~", "partition_indexes": [0]}]
    marker = {
        "producer_id": ID,
        "producer_epoch": EPOCH,
        "transaction_result": True,
        "topics": topics,
    }
    return {"markers": [marker | said]}


def _mark(**said: Any) -> Step:
    return ask(WRITE_MARKERS, **_marking(**said))


MARKER_CASES: Final = (
    case(WRITE_MARKERS, "an abort", OPEN_ALONE, _mark(transaction_result=False), _read_both(2)),
    case(WRITE_MARKERS, "a commit", OPEN_ALONE, _mark(), READ_BOTH),
    case(
        WRITE_MARKERS,
        "an older epoch",
        OPEN_ALONE,
        ended(),
        given(INIT_PRODUCER_ID, save=NEXT, transactional_id="x-~", transaction_timeout=60_000),
        _mark(producer_epoch=0),
    ),
    case(WRITE_MARKERS, "an older coordinator", OPEN_ALONE, _mark(coordinator_epoch=-5)),
    case(
        WRITE_MARKERS,
        "an unknown topic",
        READY,
        _mark(topics=[{"name": "no-~", "partition_indexes": [0]}]),
    ),
    case(
        WRITE_MARKERS,
        "unknown partitions",
        OPEN_ALONE,
        _mark(topics=[{"name": "t-~", "partition_indexes": [9, -1]}]),
    ),
    case(WRITE_MARKERS, "no topics", READY, _mark(topics=[])),
    case(WRITE_MARKERS, "no markers", ask(WRITE_MARKERS, markers=[])),
    case(WRITE_MARKERS, "null markers", ask(WRITE_MARKERS, markers=NULL)),
)

CASES: Final = END_CASES + MARKER_CASES
